#pragma once
// SPDX-License-Identifier: MIT
// How a communicator over an engine of others (MPI, NCCL) forms its sums.

namespace headmix {

/// How sums over ranks are formed. All ranks have to be told the same.
enum class sums {
  /// In the order of the ranks, by headmix itself; the engine moves the elements. The same operands give the same bits,
  /// on every rank, in every run and with every engine, as archetype::communicator asks.
  ordered,
  /// As the engine does it: by its own algorithms and the network's hardware, often faster. The order of a sum is the
  /// engine's: it may depend on the number of elements, the machines and the engine's version, and the last bits may
  /// differ between runs. Mpi leaves float and double to MPI, Nccl all types to NCCL, which rounds sums of bfloat16
  /// more than once.
  by_engine
};

}  // namespace headmix
