// SPDX-License-Identifier: MIT
// headmix-bench-distributed: times collective operations and divided layers on the ranks of mpirun, beside a model;
// with --machine NAME --ranks N it prints the model's times for a cluster and runs nothing. See README.md.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"

namespace {

using namespace bench;
using headmix::message, headmix::Mpi;

bool is_asked_for(Options const& o, Layer const& l) { return o.layer == "all" || o.layer == l.name; }

void print_sizes(Sizes const& s) {
  std::puts(message(s.tokens, " tokens in ", s.sequences, " sequences, width ", s.width, ", ", s.heads, " heads of ",
                    s.head_dim, "; Moh: ", s.heads / 2, " active; Moa: ", s.heads, " of ", 4 * s.heads,
                    " experts; Smoe, MhMoe: ", s.top_k, " of ", s.experts, " experts of inner width ", s.hidden)
                .c_str());
}

// ---- a cluster

void print_machine(Options const& o) {
  Machine const m = find_machine(o.machines, o.machine);
  double const peak = o.bfloat16 ? m.peak_bfloat16 : m.peak_float;
  auto const& [ranks_per_node, within, between] = m.network;
  std::printf(
      "A MODEL, not a measurement. %s: %d ranks in a node, %s, peak of a rank %.1f TFLOP/s, efficiency %.2f "
      "(assumed);\nwithin a node %.1f us and %.1f GB/s, between nodes %.1f us and %.2f GB/s.\n",
      m.name.c_str(), static_cast<int>(ranks_per_node), o.bfloat16 ? "bfloat16" : "float", peak / 1e12, m.efficiency,
      within.latency * 1e6, within.bandwidth / 1e9, between.latency * 1e6, between.bandwidth / 1e9);
  print_sizes(o.sizes);
  std::vector<Index> ranks;
  for (Index n = 1; n < o.ranks; n *= 2) ranks.push_back(n);
  ranks.push_back(o.ranks);
  for (Layer const& layer : layers()) {
    if (!is_asked_for(o, layer)) continue;
    std::printf("\n%s\n%8s  %12s %9s  %-9s  %12s %9s %10s  %s\n", layer.title, "ranks", "forward ms", "speedup",
                "bound", "training ms", "speedup", "efficiency", "bound");
    double one[2] = {};
    for (Index const n : ranks) {
      std::printf("%8d", static_cast<int>(n));
      for (bool const backward : {false, true}) {
        Work const work = layer.work(o.sizes, n, backward, o.bfloat16 ? 2 : 4);
        Modelled const t = model(work, n, peak * m.efficiency, m.network);
        if (n == 1) one[backward] = t.time();
        double const speedup = one[backward] / t.time();
        std::printf("  %12.4g %9.2f", t.time() * 1e3, speedup);
        if (backward) std::printf(" %10.2f", speedup / static_cast<double>(n));
        std::printf("  %-*s", backward ? 0 : 9, t.bound());
      }
      std::puts("");
    }
  }
}

// ---- measurements

/// The ranks, for both tables.
struct Ranks {
  Mpi& all;
  std::optional<Mpi> alone;  ///< the communicator of rank 0 alone
  Options const& options;
  Transport transport;
  [[nodiscard]] bool prints() const { return all.rank() == 0; }
};

/// Runs f on rank 0 while the others wait.
template <class F>
double on_one_rank(Ranks& ranks, F f) {
  double found = 0;
  if (ranks.alone) found = f(*ranks.alone);
  ranks.all.barrier();
  return found;
}

/// Prints measured and modelled times, in milliseconds or, for collectives, microseconds.
void print_pair(double measured, Modelled const& m, double unit) {
  double const ratio = measured / m.time();
  std::printf("%12.4g %12.4g %7.2f%s", measured / unit, m.time() / unit, ratio, ratio > 2 || ratio < 0.5 ? "!" : " ");
}

/// Seconds of one operation over this number of bytes.
double time_collective(Mpi& ranks, collective what, Index bytes, Timing const& timing) {
  Index const n = bytes / static_cast<Index>(sizeof(float)), size = ranks.size();
  std::vector<Index> counts, own(static_cast<std::size_t>(size), n / size);
  for (Index r = 0; r < size; ++r) counts.push_back(headmix::share_of(n, r, size));
  std::vector<float> from(static_cast<std::size_t>(n), 1.0f), to(from.size());
  return time_of(ranks, timing, [&] {
    switch (what) {
      case collective::all_sum:
      case collective::all_sum_by_engine:
        return ranks.all_sum(to.data(), static_cast<float const*>(from.data()), n);
      case collective::all_gather:
        return ranks.all_gather(to.data(), static_cast<float const*>(from.data()), counts);
      case collective::reduce_scatter:
        return ranks.reduce_scatter(to.data(), static_cast<float const*>(from.data()), counts);
      case collective::all_to_all:
        return ranks.all_to_all(to.data(), own, static_cast<float const*>(from.data()), own);
      case collective::broadcast:
        return ranks.broadcast(to.data(), n, 0);
      case collective::barrier:
        return ranks.barrier();
    }
  });
}

void time_collectives(Ranks& ranks) {
  Index const size = ranks.all.size();
  std::vector<Index> sizes = {Index{1} << 10, Index{1} << 14, Index{1} << 18, Index{1} << 22, Index{1} << 26};
  if (ranks.options.quick) sizes = {1 << 10, 1 << 14};
  Mpi by_engine(MPI_COMM_WORLD, headmix::sums::by_engine);
  struct Row {
    Operation what;
    double seconds;
  };
  std::vector<Row> rows;
  std::vector<Sample> samples;
  for (int c = 0; c <= static_cast<int>(collective::barrier); ++c) {
    auto const what = static_cast<collective>(c);
    for (Index const bytes : sizes) {
      bool const barrier = what == collective::barrier;
      Operation const o = {what, barrier ? 0 : static_cast<double>(bytes)};
      double const seconds = time_collective(what == collective::all_sum_by_engine ? by_engine : ranks.all, what, bytes,
                                             ranks.options.timing);
      rows.push_back({o, seconds});
      Traffic const t = traffic_of(o, size);
      if (what == collective::all_to_all) samples.push_back({t.messages, t.bytes, seconds});
      if (barrier) break;
    }
  }
  ranks.transport = size > 1 ? fit(samples) : Transport{0, 1e18};
  if (!ranks.prints()) return;
  if (size > 1) {
    std::printf("\ntransport, fitted to all_to_all: %.2f us of a message, %.2f GB/s of a rank in one direction\n",
                ranks.transport.latency * 1e6, ranks.transport.bandwidth / 1e9);
  }
  std::printf("\n%-16s %10s %12s", "operation", "KB", "measured us");
  if (size > 1) std::printf(" %12s %8s  %s", "model us", "ratio ", "bound");
  std::puts("");
  for (Row const& r : rows) {
    std::printf("%-16s %10.0f ", name_of(r.what.what), r.what.bytes / 1024);
    if (size == 1) {
      std::printf("%12.4g\n", r.seconds * 1e6);
      continue;
    }
    Modelled const m = model({0, {r.what}}, size, 1, {size, ranks.transport, ranks.transport});
    print_pair(r.seconds, m, 1e-6);
    std::printf("  %s\n", m.bound());
  }
}

/// True if the executed operations are those of the model: the number of returned rows depends on choices, and the
/// model uses its mean.
bool are_modelled(std::vector<Operation> modelled, std::vector<Operation> done) {
  auto const order = [](std::vector<Operation>& all) {
    std::sort(all.begin(), all.end(), [](Operation const& a, Operation const& b) {
      return a.what != b.what ? a.what < b.what : a.bytes < b.bytes;
    });
  };
  order(modelled);
  order(done);
  return std::equal(
      modelled.begin(), modelled.end(), done.begin(), done.end(), [](Operation const& a, Operation const& b) {
        return a.what == b.what && (a.what == collective::all_to_all ? b.bytes < 2 * a.bytes : a.bytes == b.bytes);
      });
}

bool time_layers(Ranks& ranks) {
  Options const& o = ranks.options;
  Index const size = ranks.all.size();
  bool as_modelled = true;
  if (ranks.prints()) {
    std::printf("\n%-38s %-8s %12s %5s %12s %12s %8s  %-9s  %s\n", "layer", "pass", "1 rank ms", "eff.", "measured ms",
                "model ms", "ratio ", "bound", "speedup");
  }
  for (Layer const& layer : layers()) {
    if (!is_asked_for(o, layer)) continue;
    for (bool const backward : {false, true}) {
      std::vector<Operation> done;
      // Other users of the machine vary: peaks are measured with each row.
      double peak_alone = 0;
      double const one = on_one_rank(ranks, [&](Mpi& alone) {
        peak_alone = time_product(alone, o.timing);
        return layer.time(o.sizes, alone, backward, o.timing, done);
      });
      double const peak_of_all = time_product(ranks.all, o.timing);
      double const seconds = layer.time(o.sizes, ranks.all, backward, o.timing, done);
      if (!ranks.prints()) continue;
      Work const work = layer.work(o.sizes, size, backward, sizeof(float));
      double const efficiency = layer.work(o.sizes, 1, backward, sizeof(float)).flops / (one * peak_alone);
      Modelled const m = model(work, size, peak_of_all * efficiency, {size, ranks.transport, ranks.transport});
      std::printf("%-38s %-8s %12.4g %5.2f ", layer.title, backward ? "training" : "forward", one * 1e3, efficiency);
      print_pair(seconds, m, 1e-3);
      std::printf("  %-9s  %.2f\n", m.bound(), one / seconds);
      std::fflush(stdout);
      if (o.quick && o.sizes.sequences % size == 0 && !are_modelled(work.operations, done)) {
        as_modelled = false;
        std::printf("  these operations have run:");
        for (auto const& x : done) std::printf(" %s %.0f", name_of(x.what), x.bytes);
        std::printf("\n  these are in the model:");
        for (auto const& x : work.operations) std::printf(" %s %.0f", name_of(x.what), x.bytes);
        std::puts("");
      }
    }
  }
  return as_modelled;
}

int measure(Options const& o, Mpi& all) {
  Ranks ranks{all, std::nullopt, o, {}};
  if (all.rank() == 0) ranks.alone.emplace(MPI_COMM_SELF);
  double const peak_alone = on_one_rank(ranks, [&](Mpi& alone) { return time_product(alone, o.timing); });
  double const peak_of_all = time_product(all, o.timing);
  if (ranks.prints()) {
    std::printf(
        "%d ranks of one thread, float. Product: %.1f GFLOP/s on one rank alone, %.1f on each when all "
        "compute.\n",
        static_cast<int>(all.size()), peak_alone / 1e9, peak_of_all / 1e9);
    print_sizes(o.sizes);
    std::puts(
        "Columns `model` are a model (README.md), `ratio` is measured / model, ! where they differ by more than 2.");
  }
  time_collectives(ranks);
  bool const as_modelled = time_layers(ranks);
  if (!as_modelled) std::fputs("headmix-bench-distributed: the model has other operations than have run\n", stderr);
  return as_modelled ? 0 : 1;
}

int complain(std::exception const& e) {
  std::fprintf(stderr, "headmix-bench-distributed: %s\n", e.what());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> const arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (std::find(arguments.begin(), arguments.end(), "--machine") != arguments.end()) {
    try {
      print_machine(parse_options(arguments));
      return 0;
    } catch (std::exception const& e) {
      return complain(e);
    }
  }
  return headmix::run_mpi(&argc, &argv, [&](Mpi& ranks) {
    std::optional<Options> options;
    try {
      options = parse_options(arguments);
      if (options->sizes.sequences < ranks.size()) {
        throw std::invalid_argument(message("--sequences: expected one for each of the ", ranks.size(),
                                            " ranks or more, found ", options->sizes.sequences));
      }
    } catch (std::exception const& e) {
      return ranks.rank() == 0 ? complain(e) : 2;
    }
    return measure(*options, ranks);
  });
}
