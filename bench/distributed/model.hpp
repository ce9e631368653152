#pragma once
// SPDX-License-Identifier: MIT
// A model, not a measurement, of the time of a layer on several ranks:
//
//   time = FLOPs of a rank / (its peak * efficiency) + messages * latency + bytes / bandwidth
//
// FLOPs are those of count/; the efficiency is that of one rank alone. Messages and bytes are those that a rank sends
// in all collective operations of the pass (distributed/collectives.hpp). Left out: operations other than products,
// additions in sums, uneven numbers of tokens, the speed of memory, and the overlap of gradient sums with the backward
// pass.

#include <algorithm>
#include <string>
#include <vector>

#include "headmix/core/view.hpp"

namespace bench {

using headmix::Index;

/// The sizes of all layers.
struct Sizes {
  Index tokens = 2048;  ///< of all ranks together
  Index sequences = 4;  ///< of equal length
  Index width = 512;
  Index heads = 8;  ///< half of Moh's are active, a quarter for all tokens; Moa has four times as many experts
  Index head_dim = 64;
  Index experts = 16;   ///< feed-forward experts
  Index top_k = 2;      ///< feed-forward experts of a token
  Index hidden = 1024;  ///< inner width of feed-forward experts
};

enum class collective { all_sum, all_sum_by_engine, all_gather, reduce_scatter, all_to_all, broadcast, barrier };
[[nodiscard]] constexpr char const* name_of(collective c) {
  constexpr char const* names[] = {"all_sum",    "all_sum by MPI", "all_gather", "reduce_scatter",
                                   "all_to_all", "broadcast",      "barrier"};
  return names[static_cast<int>(c)];
}

/// One operation. `bytes` of the sum, of the result of all_gather, of the operand of reduce_scatter, of all parts of a
/// rank in all_to_all including its own, or of the broadcast.
struct Operation {
  collective what;
  double bytes;
  bool operator==(Operation const&) const = default;
};

/// Messages and bytes that a rank sends, in a broadcast those of the root.
struct Traffic {
  double messages = 0, bytes = 0;
  Traffic& operator+=(Traffic const& t) { return messages += t.messages, bytes += t.bytes, *this; }
};
[[nodiscard]] inline Traffic traffic_of(Operation const& o, Index ranks) {
  constexpr double few_bytes = 4096;  // limit of sums in one round
  double const others = static_cast<double>(ranks - 1), part = o.bytes * others / static_cast<double>(ranks);
  if (ranks == 1) return {};
  switch (o.what) {
    case collective::all_sum:
      if (o.bytes <= few_bytes) return {others, others * o.bytes};
      return {2 * others, 2 * part};
    case collective::all_sum_by_engine: {
      // Ranks announce the operation, then halve and double the part that they exchange.
      double steps = 0;
      while ((Index{1} << static_cast<int>(steps)) < ranks) ++steps;
      return {others + 2 * steps, 2 * part};
    }
    case collective::all_gather:
    case collective::reduce_scatter:
    case collective::all_to_all:
      return {others, part};
    case collective::broadcast:
      return {others, others * o.bytes};
    case collective::barrier:
      break;
  }
  return {others, 0};
}

/// A pass of a layer on the rank with most work.
struct Work {
  double flops = 0;
  std::vector<Operation> operations;
};

/// The cost of messages.
struct Transport {
  double latency = 0;    ///< seconds of a message
  double bandwidth = 0;  ///< bytes in a second that a rank sends while it receives as many
};
/// The cost of messages within a node and between nodes; rank r is on node r / ranks_per_node.
struct Network {
  Index ranks_per_node = 1;
  Transport within, between;
};

/// The model's result, in seconds.
struct Modelled {
  double compute = 0, bandwidth = 0, latency = 0;
  [[nodiscard]] double time() const { return compute + bandwidth + latency; }
  [[nodiscard]] char const* bound() const {
    if (compute >= bandwidth && compute >= latency) return "compute";
    return bandwidth >= latency ? "bandwidth" : "latency";
  }
};
/// @param flops_per_second  of a rank, efficiency included
[[nodiscard]] inline Modelled model(Work const& work, Index ranks, double flops_per_second, Network const& network) {
  Modelled m;
  m.compute = work.flops > 0 ? work.flops / flops_per_second : 0;
  if (ranks == 1) return m;
  Traffic all;
  for (Operation const& o : work.operations) all += traffic_of(o, ranks);
  double const near = static_cast<double>(std::min(ranks, network.ranks_per_node) - 1) / static_cast<double>(ranks - 1);
  auto const add = [&](Transport const& t, double share) {
    if (share <= 0) return;
    m.latency += share * all.messages * t.latency;
    m.bandwidth += share * all.bytes / t.bandwidth;
  };
  add(network.within, near);
  add(network.between, 1 - near);
  return m;
}

/// One measurement of all_to_all.
struct Sample {
  double messages, bytes, seconds;
};
/// The nonnegative latency and bandwidth that fit measurements best: least squares of relative differences.
[[nodiscard]] inline Transport fit(std::vector<Sample> const& samples) {
  double mm = 0, mb = 0, bb = 0, m1 = 0, b1 = 0;
  for (Sample const& s : samples) {
    double const m = s.messages / s.seconds, b = s.bytes / s.seconds;
    mm += m * m, mb += m * b, bb += b * b, m1 += m, b1 += b;
  }
  double const determinant = mm * bb - mb * mb;
  double latency = determinant > 0 ? (m1 * bb - b1 * mb) / determinant : 0;
  double per_byte = determinant > 0 ? (b1 * mm - m1 * mb) / determinant : 0;
  if (latency <= 0 || per_byte <= 0) {  // fit one of them alone
    latency = latency > 0 && mm > 0 ? m1 / mm : 0;
    per_byte = latency > 0 || bb == 0 ? 0 : b1 / bb;
  }
  return {latency, per_byte > 0 ? 1 / per_byte : 1e18};
}

/// A cluster of machines.txt.
struct Machine {
  std::string name;
  double peak_bfloat16, peak_float;  ///< FLOP/s of a rank
  double efficiency;                 ///< assumed
  Network network;
};
/// @throws command_line::UsageError that names the file and the line, what was expected and what was found
[[nodiscard]] Machine find_machine(std::string const& file, std::string const& name);

}  // namespace bench
