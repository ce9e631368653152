#pragma once
// SPDX-License-Identifier: MIT
// Training with different tokens on each rank (DataParallel, expert_parallel of feed-forward experts): gradients of
// shared parameters are summed during the backward pass, and the optimiser's state is divided.
//
//   Distributed<Cpu<float>, Mpi> backend(ranks);
//   Module<DataParallel<Net>, Distributed<Cpu<float>, Mpi>> m(seed, backend);
//   GradientSums<float, ...> sums(m.parameters(), backend);
//   DividedParameters<float, ...> mine(m.parameters(), backend);
//   AdamW<float, ...> optimiser(mine.own(), {}, backend);
//   for (...) {
//     m.forward(x); m.backward(dy);
//     sums.complete();
//     optimiser.step(1e-3, clip_scale(m.parameters(), 1.0, ranks));
//     mine.gather();
//   }

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/contract/equal_on_ranks.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/core/digest.hpp"
#include "headmix/distributed/distributed.hpp"
#include "headmix/train/adamw.hpp"

namespace headmix {

/// Sums gradients over all ranks, for parameters that are not divided among them. Small gradients share a bucket; a
/// bucket's sum begins when the backward pass has made its last gradient, and overlaps the rest of the pass. The first
/// step records the order in which gradients are made, and the number of additions to each; gradients that it does not
/// make come last, by name. All ranks must make the same gradients in it, in the same order.
/// @tparam T scalar type of the parameters
/// @tparam Backend a Distributed
template <class T, class Backend>
class GradientSums : public gradient_listener {
 public:
  /// Parameters of one or several modules on copies of this backend. All ranks pass the same ones.
  /// @param bucket_bytes  minimum size of a bucket, except for the last one
  GradientSums(std::vector<parameter<T>> parameters, Backend backend, std::size_t bucket_bytes = std::size_t{1} << 20)
      : backend_(std::move(backend)), bucket_bytes_(bucket_bytes) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto const& p = parameters[i];
      if (!p.part.divided && p.gradient.size() > 0) {
        all_.push_back({p.gradient.data, p.gradient.size(), std::string(p.name), i});
      }
    }
    // For find(). Addresses differ between ranks, so no joint decision may depend on them.
    std::sort(all_.begin(), all_.end(), [](entry const& a, entry const& b) {
      return std::tie(a.data, a.name, a.place) < std::tie(b.data, b.name, b.place);
    });
    all_.erase(std::unique(all_.begin(), all_.end(), [](entry const& a, entry const& b) { return a.data == b.data; }),
               all_.end());
    backend_.set_listener(this);
  }
  GradientSums(GradientSums const&) = delete;
  GradientSums& operator=(GradientSums const&) = delete;
  ~GradientSums() override {
    // After an error in the middle of a step, the memory of the sums is freed.
    if constexpr (requires { backend_.communicator().abandon(); }) {
      if (going_on_) backend_.communicator().abandon();
    }
    if (backend_.listener() == this) backend_.set_listener(nullptr);
  }

  /// To be called after the last backward pass of a step: on return gradients are sums over all ranks.
  void complete() {
    if (buckets_.empty()) make_buckets();
    while (next_ < buckets_.size()) begin(buckets_[next_++]);
    next_ = 0;
    for (bucket& b : buckets_) {
      for (Index const sum : b.sums) backend_.communicator().complete(sum);
      if (b.members.size() > 1) move(b, false);
      b.begun = false, b.missing = b.members.size();
      b.sums.clear();
    }
    for (entry& e : all_) e.heard = 0;
    going_on_ = false;
  }
  /// See ObservesGradients.
  void gradient_done(void const* gradient) override {
    entry* const e = find(gradient);
    if (e == nullptr) return;
    ++e->heard;
    if (buckets_.empty()) {
      e->expected = e->heard;
      e->order = ++heard_;
      return;
    }
    bucket& b = buckets_[e->bucket];
    if (b.begun) {
      fail(
          "GradientSums: a gradient was added to after its sum over the ranks had begun: a step must make gradients as "
          "often as the first one did");
    }
    if (e->heard == e->expected) --b.missing;
    // In the same order on all ranks, even if one of them omits a part of a step.
    while (next_ < buckets_.size() && buckets_[next_].missing == 0) begin(buckets_[next_++]);
  }
  /// See ObservesGradients.
  void between_kernels() override {
    if (going_on_) backend_.communicator().advance();
  }

 private:
  struct entry {
    T* data;
    Index size;
    std::string name;
    std::size_t place;  // among the constructor's parameters
    int heard = 0, expected = 0, order = 0;
    std::size_t bucket = 0;
  };
  struct bucket {
    std::vector<std::size_t> members;
    std::vector<T> memory;  // of several gradients, concatenated
    std::size_t missing = 0;
    bool begun = false;
    std::vector<Index> sums;
  };

  entry* find(void const* gradient) {
    auto const at = std::lower_bound(all_.begin(), all_.end(), gradient, [](entry const& e, void const* p) {
      return static_cast<void const*>(e.data) < p;
    });
    return at != all_.end() && at->data == gradient ? &*at : nullptr;
  }
  /// Orders buckets by the time of their gradients; gradients that no pass makes come last, by name, then in the given
  /// order.
  void make_buckets() {
    std::vector<std::size_t> order(all_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    auto const when = [this](std::size_t i) { return all_[i].order == 0 ? heard_ + 1 : all_[i].order; };
    std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
      entry const &a = all_[i], &b = all_[j];
      return std::tuple(when(i), std::string_view(a.name), a.place) <
             std::tuple(when(j), std::string_view(b.name), b.place);
    });
    check_order(order);
    std::size_t bytes = bucket_bytes_;
    Index elements = 0;
    auto const close = [&] {
      if (!buckets_.empty() && buckets_.back().members.size() > 1) {
        buckets_.back().memory.resize(static_cast<std::size_t>(elements));
      }
    };
    for (std::size_t const i : order) {
      if (bytes >= bucket_bytes_) {
        close();
        buckets_.emplace_back();
        bytes = 0, elements = 0;
      }
      buckets_.back().members.push_back(i);
      all_[i].bucket = buckets_.size() - 1;
      bytes += static_cast<std::size_t>(all_[i].size) * sizeof(T);
      elements += all_[i].size;
    }
    close();
  }
  /// Checks that all ranks have the same order of parameters.
  void check_order(std::vector<std::size_t> const& order) {
    std::uint64_t digest = 0;
    for (std::size_t const i : order) {
      digest = detail::digest_of(message(all_[i].name, " has ", all_[i].size), digest);
    }
    detail::check_equal_on_all_ranks(
        backend_.communicator(),
        "GradientSums: the digest of the parameters in the order in which the first step makes their gradients",
        digest);
  }
  void begin(bucket& b) {
    b.begun = going_on_ = true;
    auto& ranks = backend_.communicator();
    if (b.members.size() == 1) {
      entry const& e = all_[b.members[0]];
      b.sums.push_back(ranks.begin_all_sum(e.data, static_cast<T const*>(e.data), e.size));
    } else {
      move(b, true);
      b.sums.push_back(ranks.begin_all_sum(b.memory.data(), static_cast<T const*>(b.memory.data()),
                                           static_cast<Index>(b.memory.size())));
    }
  }
  void move(bucket& b, bool in) {
    T* at = b.memory.data();
    for (std::size_t const i : b.members) {
      auto const bytes = static_cast<std::size_t>(all_[i].size) * sizeof(T);
      std::memcpy(in ? at : all_[i].data, in ? all_[i].data : at, bytes);
      at += all_[i].size;
    }
  }

  static_assert(Backend::host_memory, "headmix: GradientSums adds up gradients in the host's memory");
  static_assert(Overlaps<typename Backend::communicator_type>,
                "headmix: GradientSums needs a communicator with begin_all_sum()");
  Backend backend_;
  std::size_t bucket_bytes_;
  std::vector<entry> all_;
  std::vector<bucket> buckets_;
  std::size_t next_ = 0;  // index into the buckets
  int heard_ = 0;
  bool going_on_ = false;
};

/// Shared parameters, of which each rank updates its share: an optimiser of own() keeps the state of this share alone,
/// and gather() distributes the updates. Parameters that are divided among ranks are updated by their rank.
template <class T, class Backend>
class DividedParameters {
 public:
  /// All ranks pass the same parameters.
  DividedParameters(std::vector<parameter<T>> parameters, Backend backend)
      : backend_(std::move(backend)), all_(std::move(parameters)) {
    auto& ranks = backend_.communicator();
    for (auto const& p : all_) own_.push_back(part_of(p, ranks.rank(), ranks.size()));
    for (Index r = 0; r < ranks.size(); ++r) {
      Index n = 0;
      for (auto const& p : all_) n += p.part.divided ? 0 : part_of(p, r, ranks.size()).value.size();
      counts_.push_back(n);
    }
    Index total = 0;
    for (Index const n : counts_) total += n;
    memory_.resize(static_cast<std::size_t>(total));
  }

  /// This rank's part of every parameter, with the name of the whole.
  [[nodiscard]] std::vector<parameter<T>> const& own() const { return own_; }
  /// To be called after a step of the optimiser: distributes the updated parts.
  void gather() {
    auto& ranks = backend_.communicator();
    T* at = memory_.data();
    for (Index r = 0; r < ranks.rank(); ++r) at += counts_[static_cast<std::size_t>(r)];
    T* const mine = at;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!all_[i].part.divided) at = std::copy_n(own_[i].value.data, own_[i].value.size(), at);
    }
    ranks.all_gather(memory_.data(), static_cast<T const*>(mine), counts_);
    T const* from = memory_.data();
    for (Index r = 0; r < ranks.size(); ++r) {
      for (auto const& p : all_) {
        if (p.part.divided) continue;
        auto const theirs = part_of(p, r, ranks.size());
        if (r != ranks.rank()) std::copy_n(from, theirs.value.size(), theirs.value.data);
        from += theirs.value.size();
      }
    }
  }

 private:
  static_assert(Backend::host_memory, "headmix: DividedParameters are gathered in the host's memory");
  /// The matrices, rows or columns of p that rank `rank` updates.
  static parameter<T> part_of(parameter<T> const& p, Index rank, Index ranks) {
    if (p.part.divided) return p;
    parameter<T> part = p;
    std::array<Index, 3> extent{p.value.count, p.value.rows, p.value.cols};
    part.part = {true, {}, extent};
    std::size_t axis = 0;
    while (axis < 2 && extent[axis] == 1) ++axis;
    Index const first = first_of_share(extent[axis], rank, ranks), n = share_of(extent[axis], rank, ranks);
    Index const each = extent[axis] == 0 ? 0 : p.value.size() / extent[axis];
    part.part.first[axis] = first;
    extent[axis] = n;
    part.value = view<T>(p.value.data + first * each, extent[0], extent[1], extent[2]);
    part.gradient = view<T>(p.gradient.data + first * each, extent[0], extent[1], extent[2]);
    return part;
  }

  Backend backend_;
  std::vector<parameter<T>> all_, own_;
  std::vector<Index> counts_;  // by rank
  std::vector<T> memory_;
};

/// gradient_norm() for gradients of which some are divided among ranks: equal on all ranks.
template <class T, Communicator C>
[[nodiscard]] double gradient_norm(std::vector<parameter<T>> const& parameters, C& ranks) {
  double here = 0, divided = 0;
  for (auto const& p : parameters) {
    (p.part.divided ? divided : here) += detail::sum_of_squares(p.gradient.data, p.gradient.size());
  }
  ranks.all_sum(&divided, static_cast<double const*>(&divided), 1);
  return std::sqrt(here + divided);
}
/// clip_scale() for gradients of which some are divided among ranks: equal on all ranks.
template <class T, Communicator C>
[[nodiscard]] double clip_scale(std::vector<parameter<T>> const& parameters, double max_norm, C& ranks) {
  return detail::clip_scale_of(gradient_norm(parameters, ranks), max_norm);
}

}  // namespace headmix
