// SPDX-License-Identifier: MIT
// headmix-gpu-model <file>...: how long layers would take on a GPU by model.hpp, from the compiled kernels in cubins,
// or in objects and programs that nvcc made with --no-compress. Prints tables in Markdown.
//
// --gpu=h100, --gpu=h200: only this one        --launches=<part of a layer's name>: the launches of such layers too
// --exposed=<number>: another one than model.hpp has
// With files that have kernels for warpgroups, layers are those of Sm90a with them.
// --rows: instead, the lines that bench/gpu.sh puts beside what it measures
// --kernels: instead, what is read of every kernel with a main loop

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../json.hpp"
#include "layers.hpp"

using namespace gpu_model;

namespace {

/// The kernels of the files by what a launch calls them.
class kernels {
 public:
  explicit kernels(std::vector<std::string> const& files) {
    for (std::string const& file : files) {
      auto const found = cubin::kernels_in(read_file(file.c_str()));
      if (found.empty()) throw headmix::Error(file + ": no kernel of a GPU in it; nvcc's objects need --no-compress");
      for (auto const& k : found) {
        wgmma_ += std::any_of(k.code.begin(), k.code.end(),
                              [](instruction const& i) { return i.operation() == opcode::hgmma; });
        all_.push_back({readable(k.mangled), k.registers, main_loop(k.code, k.architecture)});
      }
    }
  }
  /// Kernels with Hopper's own products.
  [[nodiscard]] int wgmma() const { return wgmma_; }
  void print() const {
    std::puts("| kernel | registers | HMMA | instructions | LDSM | clocks of the shared memory | bytes copied |");
    std::puts("|---|---|---|---|---|---|---|");
    for (auto const& k : all_) {
      loop_counts const& l = k.loop;
      if (l.products == 0) continue;
      std::printf("| %s | %d | %d | %d | %d | %d | %d |\n", k.name.c_str(), k.registers, l.products, l.instructions,
                  l.ldsm, l.shared_clocks, l.copied);
    }
  }
  [[nodiscard]] std::optional<compiled> find(gpu const& g, recorded_launch const& l) const {
    for (auto const& k : all_) {
      if (!k.name.ends_with(", " + l.kernel + ">")) continue;  // run<sm80<...>, the kernel>
      return compiled{k.loop,
                      static_cast<double>(resident_blocks(g.shared_memory, l.shared_bytes, k.registers, l.threads))};
    }
    return {};
  }

 private:
  struct entry {
    std::string name;
    int registers;
    loop_counts loop;
  };
  std::vector<entry> all_;
  int wgmma_ = 0;
};

struct totals {
  double bound = 0, expected = 0;
  std::size_t launches = 0;
  void add(totals const& other) { bound += other.bound, expected += other.expected, launches += other.launches; }
};

/// Of one pass; also prints a row for each launch that matters, and one for the rest.
totals sum_of(gpu const& g, std::vector<recorded_launch> const& launches, kernels const& known, bool print) {
  totals all, rest;
  for (recorded_launch const& l : launches) {
    std::optional<compiled> const k = known.find(g, l);
    if (l.todo.macs > 0 && !l.todo.library && (!k || k->loop.products == 0)) {
      throw headmix::Error((k ? "no main loop of HMMAs is found in the kernel " : "none of the files has the kernel ") +
                           l.kernel);
    }
    estimate const e = estimate_of(g, l.todo, k.value_or(compiled{}));
    totals const one{e.bound, e.expected, 1};
    all.add(one);
    if (e.bound < g.launch_us) {
      rest.add(one);
    } else if (print) {
      std::printf("| %.60s | %.1f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %s | %.0f | %.0f |\n", l.kernel.c_str(),
                  2e-9 * (l.todo.macs + l.todo.scalar_macs), e.tensor, e.shared, e.issue, e.scalar, e.l2, e.dram,
                  e.limit, e.bound, e.expected);
    }
  }
  if (print) {
    std::printf("| %zu others | | | | | | | | launch | %.0f | %.0f |\n", rest.launches, rest.bound, rest.expected);
    std::printf("| **sum of %zu** | | | | | | | | | **%.0f** | **%.0f** |\n", all.launches, all.bound, all.expected);
  }
  return all;
}

std::string or_dash(char const* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return value > 0 ? text : "-";
}
void print_summary(layer const& l, char const* pass, totals const& t, double dense, double floor, double stage_2,
                   double goal) {
  auto const of_goal = [&](double value) { return or_dash(dense > 0 ? "%.2f" : "%.0f us", value); };
  double const ratio = dense > 0 ? t.expected / dense : 0;
  std::printf("| %s, %s | %zu | %.0f | %.0f | %s | %s | %s | %s | %s |\n", l.name.c_str(), pass, t.launches, t.bound,
              t.expected, or_dash("%.0f", floor).c_str(), or_dash("%.0f", dense).c_str(),
              or_dash("%.2f", ratio).c_str(), of_goal(stage_2).c_str(), of_goal(goal).c_str());
}

int run(std::vector<std::string> const& arguments) {
  std::vector<gpu> gpus;
  std::vector<std::string> files;
  std::string detailed = "\n";  // of no layer
  bool rows = false, only_kernels = false;
  double exposed = h100.exposed;
  for (std::string const& a : arguments) {
    if (a == "--gpu=h100")
      gpus.push_back(h100);
    else if (a == "--gpu=h200")
      gpus.push_back(h200);
    else if (a.starts_with("--exposed="))
      exposed = std::stod(a.substr(10));
    else if (a == "--rows")
      rows = true;
    else if (a == "--kernels")
      only_kernels = true;
    else if (a.starts_with("--launches="))
      detailed = a.substr(11);
    else if (a.starts_with("--"))
      throw headmix::Error("unknown option " + a);
    else
      files.push_back(a);
  }
  if (files.empty()) {
    std::fputs(
        "usage: headmix-gpu-model [--gpu=h100|h200] [--launches=LAYER] [--exposed=NUMBER] [--rows | --kernels] "
        "FILE...\n",
        stderr);
    return 2;
  }
  if (gpus.empty()) gpus = {h100, h200};
  kernels const known(files);
  if (only_kernels) return known.print(), 0;
  Recorder::with_warpgroups = known.wgmma() > 0;
  std::vector<layer> const layers = all_layers();
  for (gpu g : gpus) {
    struct sums {
      layer const* of;
      totals forward, both;
    };
    std::vector<sums> all;
    for (layer const& l : layers) {
      g.library_tflops = l.library;
      g.exposed = exposed;
      bool const print = l.name.find(detailed) != std::string::npos;
      auto const pass = [&](char const* name, std::vector<recorded_launch> const& launches) {
        if (print) {
          std::printf("\n%s, %s, %s: us of each unit\n\n", g.name, l.name.c_str(), name);
          std::puts("| launch | GFLOP | tensor | shared memory | issue | scalar | L2 | DRAM | limit | bound | model |");
          std::puts("|---|---|---|---|---|---|---|---|---|---|---|");
        }
        return sum_of(g, launches, known, print);
      };
      sums s{&l, pass("forward", l.launches.forward), {}};
      s.both = s.forward;
      s.both.add(pass("backward", l.launches.backward));
      all.push_back(s);
    }
    if (rows) {
      auto const print = [](std::string const& name, char const* pass, totals const& t) {
        std::printf(
            "{\"group\": \"model\", \"name\": %s, \"pass\": \"%s\", \"device\": \"%s\", \"us\": %.1f, \"bound_us\": "
            "%.1f}\n",
            bench::json_quoted(name).c_str(), pass, Recorder::with_warpgroups ? "" : "mma.sync", t.expected, t.bound);
      };
      for (sums const& s : all) {
        print(s.of->name, "forward", s.forward);
        print(s.of->name, "forward and backward", s.both);
      }
      continue;
    }
    std::printf("\n**A model, no measurement**: %s, us\n\n", g.name);
    std::puts("| layer | launches | bound | model | floor | dense | model / dense | goal, Sm80 | goal, Sm90a |");
    std::puts("|---|---|---|---|---|---|---|---|---|");
    for (sums const& s : all) {
      layer const& l = *s.of;
      double const forward = l.yardstick ? l.yardstick->forward_us() : 0;
      double const both = l.yardstick ? forward + l.yardstick->backward_us() : 0;
      print_summary(l, "forward", s.forward, forward, l.floor_forward, l.stage_2_forward, l.goal_forward);
      print_summary(l, "forward and backward", s.both, both, l.floor_both, l.stage_2_both, l.goal_both);
    }
  }
  if (rows) return 0;
  std::puts(
      "\nFloor, goals and dense (attention that is replaced, by published rates of cuBLAS and cuDNN): the design "
      "notes.");
  std::printf("Rows are %s.\n", Recorder::with_warpgroups ? "Sm90a, with kernels for warpgroups"
                                                          : "Sm80: no kernel of the files has wgmma");
  std::set<std::string> unknown;
  for (layer const& l : layers) {
    for (auto const* pass : {&l.launches.forward, &l.launches.backward}) {
      for (recorded_launch const& one : *pass) {
        if (!one.todo.known) unknown.insert(one.kernel.substr(0, one.kernel.find('<')));
      }
    }
  }
  std::printf("Counted as launches only, since the model does not know their work:");
  for (std::string const& name : unknown) std::printf(" %s", name.c_str());
  std::puts(unknown.empty() ? " none" : "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
