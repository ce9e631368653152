#pragma once
// SPDX-License-Identifier: MIT
// What several processes say to each other: a program runs in all of them, each is a rank, and a communicator has the
// collective operations. distributed/ has some; whatever an engine talks with becomes one by these functions.

#include <concepts>
#include <span>

#include "headmix/core/scalar.hpp"

namespace headmix {

namespace archetype {

/// Every function that a communicator must have, declared and never defined.
///
/// All ranks call the same operations in the same order, and an operation returns when this rank's part of it is done:
/// its result may be read and its operand overwritten. Where memory is a device's, both hold for what the device does
/// later on. T is float, double, bfloat16, Int, Index or std::byte; sums are of all but the last, those of bfloat16 are
/// formed in float and rounded once. Numbers of elements may be 0 for some ranks or all.
///
/// Sums have one order: the same operands give the same bits, on every rank and in every run.
///
/// Operations that differ between ranks, by their kind, their type or a number of elements, are an error on every rank,
/// which names two ranks and what each of them said. When a rank fails, all others do, with its message.
/// Numbers that cannot be (negative, more than max_elements, not one for each rank, no such root) are an Error on the
/// rank that gives them, with its number, before anything is sent.
struct communicator {
  /// The number of this process, from 0.
  [[nodiscard]] Index rank() const;
  /// How many there are.
  [[nodiscard]] Index size() const;
  /// to_i = the sum over the ranks of from_i, i < n, on every rank. `to` may be `from`.
  template <class T>
  void all_sum(T* to, T const* from, Index n);
  /// `to` = the elements of all ranks, one rank's after another's: counts[r] of rank r, and so many are in `from`.
  template <class T>
  void all_gather(T* to, T const* from, std::span<Index const> counts);
  /// Of the sums over the ranks, rank r gets its part, counts[r] elements; the parts follow each other in `from`.
  template <class T>
  void reduce_scatter(T* to, T const* from, std::span<Index const> counts);
  /// sent[r] elements go to rank r, and received[r] come from it; those of the ranks follow each other in `from` and in
  /// `to`.
  template <class T>
  void all_to_all(T* to, std::span<Index const> received, T const* from, std::span<Index const> sent);
  /// The n elements of rank `root`, on every rank.
  template <class T>
  void broadcast(T* data, Index n, Index root);
  /// Returns when all ranks have called it.
  void barrier();
};

}  // namespace archetype

/// Ranks and their collective operations: it has every function of archetype::communicator.
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

/// Operations that go on while the rank computes. begin_all_sum(...) and begin_all_to_all(...): as those of
/// archetype::communicator, but return a number at once; `to` and `from` are the communicator's until complete(number),
/// the counts are not. All ranks begin in the same order, and complete in any. advance(): moves on what has begun, as
/// far as it goes without waiting; for whoever computes, now and then. abandon(): for whoever leaves with an exception
/// while something goes on: its memory is nobody's any more, and all ranks fail. To complete what has not begun is an
/// Error.
template <class C>
concept Overlaps = Communicator<C> &&
    requires(C& c, float* to, float const* from, Index n, std::span<Index const> counts) {
  { c.begin_all_sum(to, from, n) } -> std::same_as<Index>;
  { c.begin_all_to_all(to, counts, from, counts) } -> std::same_as<Index>;
  c.complete(n);
  c.advance();
  c.abandon();
};

/// A backend whose programs run on several ranks: `communicator()` is this one's. See distributed/distributed.hpp.
template <class B>
concept HasCommunicator = requires(B& b) {
  { b.communicator().rank() } -> std::convertible_to<Index>;
};

/// A backend that hears how far a backward pass is. gradient_done(p): nothing more is added by this pass to the
/// gradient that begins at p. between_kernels(): called now and then, for what goes on besides.
template <class B>
concept HearsGradients = requires(B& b, void const* gradient) {
  b.gradient_done(gradient);
  b.between_kernels();
};

/// A backend whose operations may go on when their calls have returned. goes_on(number, from, to): operation `number`
/// of its communicator has begun to read `from` and to write `to`. is_waiting(): whether one goes on. settle(memory):
/// completes those whose operands or results lie in this memory. settle(): completes all. abandon(): see Overlaps.
template <class B>
concept GoesOn = requires(B& b, Index number, std::span<std::byte const> memory) {
  b.goes_on(number, memory, memory);
  { b.is_waiting() } -> std::convertible_to<bool>;
  b.settle(memory);
  b.settle();
  b.abandon();
};

/// Where the share of rank `rank` of `ranks` begins among n elements; it ends where the next one's begins, and shares
/// differ by one at most.
[[nodiscard]] constexpr Index first_of_share(Index n, Index rank, Index ranks) { return n * rank / ranks; }
/// How many of n elements are in a rank's share.
[[nodiscard]] constexpr Index share_of(Index n, Index rank, Index ranks) {
  return first_of_share(n, rank + 1, ranks) - first_of_share(n, rank, ranks);
}

}  // namespace headmix
