#pragma once
// SPDX-License-Identifier: MIT
// The time of a layer beside that of another, such as dense attention of the same width, in turn in one process:
//
//   layer_times const t = time_beside_dense<MyLayer>(Cpu<float>(), {.tokens = 1024});
//   std::puts(t.text().c_str());
//
// The speed of a machine changes while others use it, so a repetition of the layer is compared with those of the other
// layer before and after it, and numbers are medians over repetitions.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/core/random.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/count/count.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"

namespace headmix {

/// The input of timed layers, and the repetitions.
struct timing_options {
  Index tokens = 1024;        ///< rows of x
  Index sequences = 1;        ///< of equal length
  int repetitions = 7;        ///< of each layer and direction, in turn
  double seconds = 0.05;      ///< of a repetition, at least
  double loss_weight = 0.01;  ///< of every loss of a layer, in its backward pass
};

/// Times of a layer and of another one, in one direction.
struct times_in_turn {
  double layer_seconds = 0;                      ///< of a pass, the median over repetitions
  double other_seconds = 0;                      ///< likewise
  double relative = 0;                           ///< layer over other, the median over repetitions
  double relative_least = 0, relative_most = 0;  ///< the range over repetitions
};

/// Result of time_beside().
struct layer_times {
  std::string layer, other;              ///< names
  timing_options options;                ///< of the call
  Index layer_macs = 0, other_macs = 0;  ///< multiply-adds of a forward pass, count_macs()
  times_in_turn forward;                 ///< forward passes
  times_in_turn with_backward;           ///< forward and backward pass; 0 for `inference`

  /// A table: a line for each layer, with times relative to the other layer.
  [[nodiscard]] std::string text() const {
    bool const trains = with_backward.other_seconds > 0;
    std::size_t const width = (std::max)(layer.size(), other.size()) + 2;
    auto const line = [&](std::string name, auto const& times, auto const& cells) {
      name.resize(width, ' ');
      name += times(forward);
      if (trains) name += times(with_backward);
      return name + cells + "\n";
    };
    std::array<char, 128> buffer;
    auto const print = [&](char const* format, auto... values) {
      std::snprintf(buffer.data(), buffer.size(), format, values...);
      return std::string(buffer.data());
    };
    auto const number = [](Index n) { return static_cast<double>(n) / 1e6; };
    std::string text = message(options.tokens, " tokens, ", options.sequences, " sequence",
                               options.sequences == 1 ? "" : "s", ", medians of ", options.repetitions, "\n");
    std::string head(width, ' ');
    head += print("%12s%23s", "forward ms", "relative (range)");
    if (trains) head += print("%12s%23s", "backward ms", "relative (range)");
    text += head + print("%14s%10s\n", "10^6 mul-adds", "relative");
    text += line(
        other, [&](times_in_turn const& t) { return print("%12.3f%23s", 1e3 * t.other_seconds, ""); },
        print("%14.3f", number(other_macs)));
    text += line(
        layer,
        [&](times_in_turn const& t) {
          return print("%12.3f%7.2f (%5.2f to %5.2f)", 1e3 * t.layer_seconds, t.relative, t.relative_least,
                       t.relative_most);
        },
        print("%14.3f%10.2f", number(layer_macs), number(layer_macs) / number(other_macs)));
    return text + (trains ? "backward: forward and backward pass\n" : "");
  }
};

namespace detail {

/// Times two functions in turn: other, layer, other, layer, ..., other; `now` is a clock in seconds.
[[nodiscard]] inline times_in_turn time_in_turn(std::function<void()> const& layer, std::function<void()> const& other,
                                                timing_options const& options, std::function<double()> const& now) {
  if (1 > options.repetitions) fail("timing_options: repetitions: expected 1 or more, found ", options.repetitions);
  auto const seconds_of = [&](std::function<void()> const& f, Index runs) {
    double const start = now();
    for (Index i = 0; i < runs; ++i) f();
    return (now() - start) / static_cast<double>(runs);
  };
  // The first pass touches memory; the second one is a guess.
  auto const runs_of = [&](std::function<void()> const& f) {
    f();
    double const runs = std::ceil(options.seconds / (std::max)(seconds_of(f, 1), 1e-9));
    return static_cast<Index>((std::min)((std::max)(runs, 1.0), 1e6));
  };
  auto const median = [](std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return (x[(x.size() - 1) / 2] + x[x.size() / 2]) / 2;
  };
  Index const layer_runs = runs_of(layer), other_runs = runs_of(other);
  std::vector<double> layers, others = {seconds_of(other, other_runs)}, ratios;
  for (int i = 0; i < options.repetitions; ++i) {
    layers.push_back(seconds_of(layer, layer_runs));
    others.push_back(seconds_of(other, other_runs));
    ratios.push_back(2 * layers.back() / (others[others.size() - 2] + others.back()));
  }
  auto const [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  return {median(layers), median(others), median(ratios), *least, *most};
}

/// A module with an input of uniform numbers and a gradient of ones.
template <class L, class Backend, class Mode>
class timed_module {
  static_assert(Backend::host_memory,
                "headmix: time_beside() takes a backend with memory of the host; bench/gpu.sh "
                "measures a GPU");
  using module_type = Module<L, Backend, Mode>;

 public:
  template <Extent... X>
  timed_module(Backend const& backend, timing_options const& options, size_value<X>... sizes)
      : sequences_(uniform(options.sequences, rows_of_sequence(options))),
        module_(/*seed*/ 1, backend, sizes...),
        weights_(static_cast<std::size_t>(L::losses::size), options.loss_weight) {
    Index const width = extent_of<cols<typename L::x>>(sizes...);
    x_.resize(static_cast<std::size_t>(options.tokens * width));
    Random const random(1);
    for (std::size_t i = 0; i < x_.size(); ++i) {
      x_[i] = static_cast<typename Backend::scalar>(static_cast<float>(2 * random.uniform(i) - 1));
    }
    input_ = {x_.data(), options.tokens, width};
  }
  void forward() {
    auto const y = module_.forward(input_, sequences_);
    dy_.resize(static_cast<std::size_t>(y.rows * y.cols), typename module_type::result_scalar(1));
    gradient_ = {dy_.data(), y.rows, y.cols};
  }
  void forward_and_backward() {
    forward();
    module_.backward(gradient_, std::span<double const>(weights_));
  }

 private:
  static Index rows_of_sequence(timing_options const& options) {
    if (1 > options.sequences || 1 > options.tokens || options.tokens % options.sequences != 0) {
      fail("timing_options: expected 1 sequence or more of 1 token or more and equal length, found ", options.tokens,
           " tokens and ", options.sequences, " sequences");
    }
    return options.tokens / options.sequences;
  }
  template <Extent Y, Extent... X>
  static Index extent_of(size_value<X>... sizes) {
    return given_sizes<X...>{sizes...}.template extent<Y>();
  }

  batch sequences_;
  module_type module_;
  std::vector<double> weights_;
  std::vector<typename Backend::scalar> x_;
  std::vector<typename module_type::result_scalar> dy_;
  view<typename Backend::scalar const> input_;
  view<typename module_type::result_scalar const> gradient_;
};

/// Dense attention beside a layer of this width.
template <Index Width>
struct dense_of {
  static_assert(Width != dynamic,
                "headmix: time_beside_dense() takes a layer of known width; time_beside() takes any other layer");
  using type = MultiHead<Width, Width % 64 == 0 ? Width / 64 : 1, Width % 64 == 0 ? 64 : Width, causal>;
};

}  // namespace detail

/// Times layer L in turn with layer Other, forward, and forward and backward.
/// @tparam Mode `training`, or `inference` for forward passes of modules without gradients
/// @param backend  of both layers, with memory of the host: Cpu, Reference
/// @param sizes  the dynamic sizes of L, `at<L::model_dim>(512)`; Other has none
/// @throws Error when the options do not fit, or the layer needs more than x: a second input, padding
template <GivenLayer L, GivenLayer Other, class Mode = training, BackendPolicy Backend, Extent... X>
[[nodiscard]] layer_times time_beside(Backend backend, timing_options const& options = {}, size_value<X>... sizes) {
  constexpr counted what = {.inference = std::is_same_v<Mode, inference>};
  auto const tokens_given = at<tokens>(options.tokens);
  auto const sequences_given = at<sequences>(options.sequences);
  detail::timed_module<L, Backend, Mode> layer(backend, options, sizes...);
  detail::timed_module<Other, Backend, Mode> other(backend, options);
  layer_times result;
  result.layer = std::string(type_name<L>());
  result.other = std::string(type_name<Other>());
  result.options = options;
  result.layer_macs = count_macs<L>(what, tokens_given, sequences_given, sizes...);
  result.other_macs = count_macs<Other>(what, tokens_given, sequences_given);
  auto const now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  result.forward = detail::time_in_turn([&] { layer.forward(); }, [&] { other.forward(); }, options, now);
  if constexpr (!std::is_same_v<Mode, inference>) {
    result.with_backward = detail::time_in_turn([&] { layer.forward_and_backward(); },
                                                [&] { other.forward_and_backward(); }, options, now);
  }
  return result;
}

/// time_beside() with causal MultiHead of the width of L: heads of 64, or one head of the whole width where 64 does not
/// divide it.
template <GivenLayer L, class Mode = training, BackendPolicy Backend, Extent... X>
[[nodiscard]] layer_times time_beside_dense(Backend backend, timing_options const& options = {},
                                            size_value<X>... sizes) {
  return time_beside<L, typename detail::dense_of<cols<typename L::x>::value>::type, Mode>(std::move(backend), options,
                                                                                           sizes...);
}

}  // namespace headmix
