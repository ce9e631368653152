#pragma once
// SPDX-License-Identifier: MIT
// The interface between ranks. A program runs in several processes, each process is a rank, and a communicator has the
// collective operations. distributed/ has implementations; a messaging engine of your own becomes a communicator by
// these functions.

#include <concepts>
#include <span>

#include "headmix/core/scalar.hpp"

namespace headmix {

namespace archetype {

/// Every function that a communicator must have, declared and never defined.
///
/// All ranks call the same operations in the same order. An operation returns when this rank's part is complete: its
/// result may be read and its operand overwritten. For device memory, both hold for later work on the device. T is
/// float, double, bfloat16, Int, Index or std::byte. Sums are for all of these but std::byte; sums of bfloat16 are
/// formed in float and rounded once. Numbers of elements may be 0 for some ranks or all.
///
/// Sums have a fixed order: equal operands give equal bits, on every rank and in every run.
///
/// Ranks that call different operations, or one operation with different types or numbers of elements, all get an error
/// that names two ranks and their arguments. If a rank fails, all others fail with its message. Invalid numbers
/// (negative, more than max_elements, not one for each rank, no such root) are an Error on the rank that passes them,
/// with its number, before anything is sent.
struct communicator {
  /// The number of this rank, from 0.
  [[nodiscard]] Index rank() const;
  /// The number of ranks.
  [[nodiscard]] Index size() const;
  /// to_i = the sum over the ranks of from_i, i < n, on every rank. `to` may be `from`.
  template <class T>
  void all_sum(T* to, T const* from, Index n);
  /// `to` = the concatenated elements of all ranks: counts[r] elements from rank r, which are in its `from`.
  template <class T>
  void all_gather(T* to, T const* from, std::span<Index const> counts);
  /// Sums `from` over the ranks; rank r gets part r of the result, counts[r] elements. The parts are consecutive in
  /// `from`.
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts);
  /// Sends sent[r] elements to rank r and receives received[r] from it; the parts of the ranks are consecutive in
  /// `from` and in `to`.
  template <class T>
  void all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent);
  /// Copies the n elements of rank `root` to every rank.
  template <class T>
  void broadcast(T* data, Index n, Index root);
  /// Returns when all ranks have called it.
  void barrier();
};

}  // namespace archetype

/// A communicator: has every function of archetype::communicator.
template <class C>
concept Communicator = requires(C& c, C const& asked, float* to, float const* from, Int* chosen, Index n,
                                std::span<Index const> counts, std::byte* bytes, bfloat16* narrow, double* wide) {
  { asked.rank() } -> std::convertible_to<Index>;
  { asked.size() } -> std::convertible_to<Index>;
  c.all_sum(to, from, n);
  c.all_sum(narrow, narrow, n);
  c.all_sum(wide, wide, n);
  c.all_gather(to, from, counts);
  c.all_gather(bytes, bytes, counts);
  c.reduce_scatter(to, from, counts);
  c.all_to_all(to, counts, from, counts);
  c.all_to_all(chosen, counts, chosen, counts);
  c.broadcast(to, n, n);
  c.broadcast(bytes, n, n);
  c.barrier();
};
static_assert(Communicator<archetype::communicator>, "headmix: archetype::communicator is no Communicator");

/// Asynchronous operations. begin_all_sum(...) and begin_all_to_all(...) have the arguments of archetype::communicator
/// and return an operation number at once; `to` and `from` are in use until complete(number), the counts are not. All
/// ranks begin operations in the same order, and complete them in any. advance() makes progress without waiting; it is
/// called from time to time by computing code. abandon() is called when an exception leaves code with operations in
/// flight: their memory is no longer used, and all ranks fail. Completing an operation that was not begun is an Error.
template <class C>
concept Overlaps = Communicator<C> &&
    requires(C& c, float* to, float const* from, Index n, std::span<Index const> counts) {
  { c.begin_all_sum(to, from, n) } -> std::same_as<Index>;
  { c.begin_all_to_all(to, counts, from, counts) } -> std::same_as<Index>;
  c.complete(n);
  c.advance();
  c.abandon();
};

/// A backend whose programs run on several ranks: `communicator()` is the communicator of this rank. See
/// distributed/distributed.hpp.
template <class B>
concept HasCommunicator = requires(B& b) {
  { b.communicator().rank() } -> std::convertible_to<Index>;
};

/// A backend that observes the progress of a backward pass. gradient_done(p): this pass adds nothing more to the
/// gradient at address p. between_kernels(): called from time to time, for asynchronous work.
template <class B>
concept ObservesGradients = requires(B& b, void const* gradient) {
  b.gradient_done(gradient);
  b.between_kernels();
};

/// A backend with asynchronous operations. is_asynchronous(number, from, to): operation `number` of its communicator
/// has begun to read `from` and to write `to`. has_pending(): whether an operation is in flight. wait_for(memory):
/// completes those with operands or results in this memory. wait_for(): completes all. abandon(): see Overlaps.
template <class B>
concept Asynchronous = requires(B& b, Index number, std::span<std::byte const> memory) {
  b.is_asynchronous(number, memory, memory);
  { b.has_pending() } -> std::convertible_to<bool>;
  b.wait_for(memory);
  b.wait_for();
  b.abandon();
};

/// The first element of the share of rank `rank` of `ranks` among n elements; it ends at the first of the next share.
/// Shares differ by at most one element.
[[nodiscard]] constexpr Index first_of_share(Index n, Index rank, Index ranks) { return n * rank / ranks; }
/// The number of elements in a rank's share of n.
[[nodiscard]] constexpr Index share_of(Index n, Index rank, Index ranks) {
  return first_of_share(n, rank + 1, ranks) - first_of_share(n, rank, ranks);
}

}  // namespace headmix
