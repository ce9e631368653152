// SPDX-License-Identifier: MIT
// Layers over bfloat16. Rows have the names and sizes of those over float. Their share of the peak is relative to
// products of bfloat16, measured with each row: tile products, dot products, or else multiply-adds. Rows bfloat16_* are
// compared with the layer over float: `ratio` is the quotient of the times; the goal is at most 1 / 1.5 with dot
// products, else at most 1.25, for half of the memory.
#include <array>
#include <span>

#include "../experts.hpp"
#include "given_experts.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"
#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::bfloat16;
using headmix::dynamic;

// Each struct has the sizes of a row in the order of `names`, the layer, and its module.

struct MoaRow {
  static inline std::vector<std::string> const names = {"B", "T", "D", "E", "K", "H"};
  Index sequences, length, width, experts, choices, head;

  using L =
      headmix::Moa<dynamic, dynamic, headmix::SoftmaxTopK<dynamic, dynamic, headmix::init<headmix::fan_in_uniform>>>;
  template <class T>
  struct module : Module<L, Cpu<T>> {
    module(Cpu<T> cpu, MoaRow const& s) :Module<L, Cpu<T>>(1, cpu, at<L::model_dim>(s.width), at<L::experts>(s.experts),
                                                           at<L::top_k>(s.choices), at<L::head_dim>(s.head)) {}
  };
  /// Multiply-adds of a token.
  [[nodiscard]] Index macs() const {
    return width * (2 * head + experts) + 2 * choices * width * head + 2 * length * choices * head;
  }
};

struct MultiHeadRow {
  static inline std::vector<std::string> const names = {"B", "T", "D", "N"};
  Index sequences, length, width, heads;

  using L = headmix::MultiHead<dynamic, dynamic, dynamic>;
  template <class T>
  struct module : Module<L, Cpu<T>> {
    module(Cpu<T> cpu, MultiHeadRow const& s) :Module<L, Cpu<T>>(1, cpu, at<L::model_dim>(s.width),
                                                                 at<L::head_dim>(s.width / s.heads),
                                                                 at<L::heads>(s.heads), at<L::kv_heads>(s.heads)) {}
  };
  [[nodiscard]] Index macs() const { return width * (4 * width + 2 * length); }
};

struct MohRow {
  static inline std::vector<std::string> const names = {"T", "D", "N", "active"};
  Index length, width, heads, active;
  static constexpr Index sequences = 1;

  using Router = headmix::TwoStage<dynamic, dynamic, dynamic>;
  using L = headmix::Moh<dynamic, dynamic, Router>;
  [[nodiscard]] Index on() const { return heads * active / 100; }
  [[nodiscard]] Index shared() const { return on() / 2; }
  template <class T>
  struct module : Module<L, Cpu<T>> {
    module(Cpu<T> cpu, MohRow const& s) :Module<L, Cpu<T>>(1, cpu, at<L::model_dim>(s.width),
                                                           at<L::head_dim>(s.width / s.heads),
                                                           at<Router::shared_heads>(s.shared()),
                                                           at<Router::routed_heads>(s.heads - s.shared()),
                                                           at<Router::routed_top_k>(s.on() - s.shared())) {}
  };
  [[nodiscard]] Index macs() const {
    Index const active_width = width / heads * on();
    return 2 * width * (width + active_width) + 2 * length * active_width + width * (heads + 2);
  }
};

struct ExpertsRow {
  static inline std::vector<std::string> const names = {"T", "D", "F", "E", "K"};
  Index length, width, hidden, experts, choices;
  static constexpr Index sequences = 1;

  using L = headmix::Smoe<dynamic, Given, headmix::FeedForward<dynamic, headmix::activation::swiglu>>;
  template <class T>
  struct module : Module<L, Cpu<T>> {
    module(Cpu<T> cpu, ExpertsRow const& s) :Module<L, Cpu<T>>(1, cpu, at<L::model_dim>(s.width),
                                                               at<L::network::hidden_dim>(s.hidden),
                                                               at<Given::experts>(s.experts),
                                                               at<Given::top_k>(s.choices)),
        given(s.length, s.choices, s.experts), weights(s.length, s.choices), d_weights(s.length, s.choices) {
      this->program().bind(L::r::chosen{}, given.chosen());
      this->program().bind(L::r::weight{}, weights.get(), d_weights.get());
    }
    Chosen given;
    Matrix<T> weights, d_weights;
  };
  [[nodiscard]] Index macs() const { return 3 * choices * width * hidden; }
};

/// A module with inputs for its passes.
template <class Row, class T>
struct Timed {
  typename Row::template module<T> module;
  Index sequences;
  Matrix<T> x, dy;

  Timed(Row const& s, Index threads)
      : module(Cpu<T>(pool(threads)), s),
        sequences(s.sequences),
        x(s.sequences * s.length, s.width),
        dy(s.sequences * s.length, s.width) {}
  void pass(bool backward) {
    module.forward(x.get(), headmix::uniform(sequences, x.get().rows / sequences));
    double const weights[] = {0.01, 0.001};
    if (backward) module.backward(dy.get(), std::span(weights).first(Row::L::losses::size));
  }
};

template <class Row>
Row row_of(benchmark::State const& state) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) { return Row{state.range(I)...}; }
  (std::make_index_sequence<sizeof(Row) / sizeof(Index)>{});
}

template <class Row>
auto layer(bool backward, bool beside_float) {
  return [backward, beside_float](benchmark::State& state) {
    Row const s = row_of<Row>(state);
    Index const threads = state.range(Row::names.size()), tokens = s.sequences * s.length;
    Bfloat16Peak const of_its_own;
    Timed<Row, bfloat16> half(s, threads);
    half.pass(backward);
    if (beside_float) {
      Timed<Row, float> single(s, threads);
      single.pass(backward);
      time_calls(
          state, [&] { half.pass(backward); }, [&] { single.pass(backward); });
      at_most(state, "ratio", headmix::cpu_kernels::has_dot_products() ? 1 / 1.5 : 1.25);
    } else {
      time_calls(state, [&] { half.pass(backward); });
    }
    if (backward) at_most(state, "allocations", 0);
    count_flops<bfloat16>(state, threads, (backward ? 6 : 2) * static_cast<double>(tokens * s.macs()));
    state.counters.erase("gemm");  // a ceiling for float
    count_tokens(state, tokens);
  };
}

using Shapes = std::vector<std::vector<std::int64_t>>;

/// Rows alone, and rows compared with float.
/// @param name  with a # in place of forward or backward
template <class Row>
void add_layer(std::string const& name, Shapes const& alone, std::string const& short_name, Shapes const& beside) {
  for (std::string const direction : {"forward", "backward"}) {
    std::string full_name = name;
    full_name.replace(full_name.find('#'), 1, direction);
    bool const backward = direction == "backward";
    add(full_name + "/cpu/bfloat16", Row::names, alone, {1, 2}, layer<Row>(backward, false));
    add("bfloat16_" + short_name + "_" + direction + "/cpu/bfloat16", Row::names, beside, {1, 2},
        layer<Row>(backward, true));
  }
}

int const registered = [] {
  add_layer<MoaRow>("moa_#",
                    {{8, 128, 512, 32, 8, 64},
                     {8, 128, 512, 32, 8, 128},
                     {1, 1024, 512, 32, 8, 64},
                     {1, 1024, 512, 32, 8, 128},
                     {1, 2048, 1024, 32, 8, 64},
                     {1, 2048, 1024, 32, 8, 128}},
                    "moa", {{1, 2048, 1024, 32, 8, 128}});
  add_layer<MultiHeadRow>("multi_head_#", {{8, 128, 512, 8}, {1, 1024, 512, 8}, {1, 2048, 1024, 16}}, "multi_head",
                          {{8, 128, 512, 8}, {1, 1024, 512, 8}});
  add_layer<MohRow>("moh/#/two_stage/full", {{1024, 512, 8, 50}, {2048, 1024, 8, 50}, {2048, 1024, 16, 50}}, "moh",
                    {{1024, 512, 8, 50}});
  add_layer<ExpertsRow>("smoe_experts_#/swiglu", {{1024, 512, 2048, 8, 2}}, "smoe", {{1024, 512, 2048, 8, 2}});
  return 0;
}();

}  // namespace
