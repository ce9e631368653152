#pragma once
// SPDX-License-Identifier: MIT
// Ranks with device memory, over a communicator of the host: every operation copies to host memory and back. For GPUs
// without NCCL, and for the emulated one; distributed/nccl.cuh needs no copies.

#include <span>
#include <vector>

#include "headmix/contract/communicator.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/distributed/announcement.hpp"

namespace headmix {

/// A communicator for memory of Backend, which synchronises with the device before every operation.
template <class Backend, Communicator Host>
class Staged {
 public:
  /// Keeps a reference to the host's communicator, and a copy of the backend, whose queue it shares.
  Staged(Host& host, Backend backend) : host_(&host), backend_(std::move(backend)) {}

  /// See archetype::communicator.
  [[nodiscard]] Index rank() const { return host_->rank(); }
  /// See archetype::communicator.
  [[nodiscard]] Index size() const { return host_->size(); }
  /// The communicator for host memory.
  [[nodiscard]] Host& on_host() const { return *host_; }

  /// See archetype::communicator.
  template <class T>
  void all_sum(T* to, T const* from, Index n) {
    T* const all = fetched(from_, from, detail::checked_elements("all_sum", n, rank()));
    host_->all_sum(all, static_cast<T const*>(all), n);
    store(to, all, n);
  }
  /// See archetype::communicator.
  template <class T>
  void all_gather(T* to, T const* from, std::span<Index const> counts) {
    Index const n = checked_elements("all_gather", counts), mine = counts[static_cast<std::size_t>(rank())];
    T* const all = room<T>(to_, n);
    host_->all_gather(all, static_cast<T const*>(fetched(from_, from, mine)), counts);
    store(to, all, n);
  }
  /// See archetype::communicator.
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts) {
    Index const n = checked_elements("reduce_scatter", counts), mine = counts[static_cast<std::size_t>(rank())];
    T* const sums = room<T>(to_, mine);
    host_->reduce_scatter(sums, static_cast<T const*>(fetched(from_, from, n)), counts);
    store(to, sums, mine);
  }
  /// See archetype::communicator.
  template <class T>
  void all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent) {
    Index const n = checked_elements("all_to_all", received), out = checked_elements("all_to_all", sent);
    T* const all = room<T>(to_, n);
    host_->all_to_all(all, received, static_cast<T const*>(fetched(from_, from, out)), sent);
    store(to, all, n);
  }
  /// See archetype::communicator.
  template <class T>
  void broadcast(T* data, Index n, Index root) {
    T* const all = fetched(from_, data, detail::checked_elements("broadcast", n, rank()));
    host_->broadcast(all, n, root);
    store(data, all, n);
  }
  /// See archetype::communicator.
  void barrier() {
    backend_.synchronize();
    host_->barrier();
  }

 private:
  [[nodiscard]] Index checked_elements(char const* operation, std::span<Index const> counts) const {
    return detail::checked_elements(operation, counts, size(), rank());
  }
  template <class T>
  static T* room(AlignedBuffer& memory, Index n) {
    reserve(memory, checked_bytes(n, sizeof(T)));
    return memory.template as<T>();
  }
  template <class T>
  T* fetched(AlignedBuffer& memory, T const* from, Index n) {
    T* const copy = room<T>(memory, n);
    if (n > 0) download(backend_, copy, from, static_cast<std::size_t>(n));
    return copy;
  }
  template <class T>
  void store(T* to, T const* from, Index n) {
    if (n > 0) upload(backend_, to, from, static_cast<std::size_t>(n));
  }

  Host* host_;
  Backend backend_;
  AlignedBuffer from_, to_;
};

}  // namespace headmix
