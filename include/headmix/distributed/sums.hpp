#pragma once
// SPDX-License-Identifier: MIT
// The computation of sums by communicators over an engine with sums of its own (MPI, NCCL).

namespace headmix {

/// The implementation of sums over ranks. All ranks must choose the same.
enum class sums {
  /// In the order of the ranks, by headmix itself; the engine moves the elements. Equal operands give equal bits, on
  /// every rank, in every run and with every engine, as archetype::communicator requires.
  ordered,
  /// By the engine's own algorithms and the network's hardware, often faster. The order of a sum may depend on the
  /// number of elements, the machines and the engine's version, and the last bits may differ between runs. Mpi leaves
  /// float and double to MPI, Nccl all types to NCCL, which rounds sums of bfloat16 more than once.
  by_engine
};

}  // namespace headmix
