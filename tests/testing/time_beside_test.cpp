// SPDX-License-Identifier: MIT
// Times of a layer beside another: the arithmetic with a clock of the test, and the counts and errors of real layers.

#include "headmix/testing/time_beside.hpp"

#include <doctest/doctest.h>

#include "../error_of.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/expr/linear.hpp"

namespace time_beside_test {

namespace {

using namespace headmix;
using headmix::test::error_of;

/// x W V, of a dynamic inner width.
struct TwoProducts {
  struct D : size<6> {};
  struct inner : size<dynamic> {};
  struct x : input<tokens, D> {};
  struct W : param<D, inner> {};
  struct V : param<inner, D> {};
  static constexpr auto y = x{} % W{} % V{};
  using losses = type_list<>;
  using observed = type_list<>;
};
using Other = MultiHead<6, 2, 3, causal>;

TEST_CASE(
    "time_beside: a machine that becomes slower does not change the quotient, and medians leave out one bad run") {
  double clock = 0, speed = 1;
  int calls = 0;
  auto const layer = [&] { clock += 3 * speed; };
  auto const other = [&] { clock += 4 * speed; };
  timing_options options;
  options.repetitions = 5;
  options.seconds = 10;
  times_in_turn const steady = detail::time_in_turn(layer, other, options, [&] { return clock; });
  CHECK(steady.layer_seconds == 3);
  CHECK(steady.other_seconds == 4);
  CHECK(steady.relative == 0.75);
  CHECK(steady.relative_least == 0.75);
  CHECK(steady.relative_most == 0.75);

  auto const slower = [&] { return speed += 0.125, clock; };  // the clock is read before and after every repetition
  times_in_turn const drifting = detail::time_in_turn(layer, other, options, slower);
  CHECK(drifting.relative == doctest::Approx(0.75));
  CHECK(drifting.relative_most == doctest::Approx(0.75));

  auto const interrupted = [&] { clock += ++calls == 12 ? 1000 : 3; };
  times_in_turn const bad = detail::time_in_turn(
      interrupted, [&] { clock += 4; }, options, [&] { return clock; });
  CHECK(bad.layer_seconds == 3);
  CHECK(bad.relative == 0.75);
  CHECK(bad.relative_most > 50);
}

TEST_CASE("time_beside: names, counts and times of both layers") {
  timing_options options;
  options.tokens = 12;
  options.sequences = 3;
  options.repetitions = 3;
  options.seconds = 0;
  layer_times const t = time_beside<TwoProducts, Other>(Reference<float>(), options, at<TwoProducts::inner>(9));
  CHECK(t.layer == "TwoProducts");
  CHECK(t.other.starts_with("MultiHead"));
  CHECK(t.layer_macs == 2 * 12 * 6 * 9);
  CHECK(t.other_macs == count_macs<Other>(at<tokens>(12), at<sequences>(3)));
  for (times_in_turn const& d : {t.forward, t.with_backward}) {
    CHECK(d.layer_seconds > 0);
    CHECK(d.other_seconds > 0);
    CHECK(d.relative_least > 0);
    CHECK(d.relative >= d.relative_least);
    CHECK(d.relative <= d.relative_most);
  }
  std::string const text = t.text();
  CHECK(text.starts_with("12 tokens, 3 sequences, medians of 3\n"));
  CHECK(text.find("\nTwoProducts ") != text.npos);
  CHECK(text.find("backward ms") != text.npos);
  CHECK(text.find("0.001") != text.npos);  // 1296 multiply-adds

  layer_times const forward =
      time_beside<TwoProducts, Other, inference>(Reference<float>(), options, at<TwoProducts::inner>(9));
  CHECK(forward.forward.relative > 0);
  CHECK(forward.with_backward.layer_seconds == 0);
  CHECK(forward.text().find("backward") == std::string::npos);
}

TEST_CASE("time_beside_dense: causal attention of the layer's width") {
  timing_options options;
  options.tokens = 5;
  options.repetitions = 1;
  options.seconds = 0;
  layer_times const t = time_beside_dense<Other>(Reference<float>(), options);
  CHECK(t.other_macs == count_macs<MultiHead<6, 1, 6, causal>>(at<tokens>(5)));
  CHECK(std::is_same_v<detail::dense_of<512>::type, MultiHead<512, 8, 64, causal>>);
}

TEST_CASE("time_beside: options that do not fit are refused") {
  timing_options options;
  options.tokens = 10;
  options.sequences = 3;
  auto const run = [&] { (void)time_beside_dense<Other>(Reference<float>(), options); };
  CHECK(error_of(run) ==
        "headmix: timing_options: expected 1 sequence or more of 1 token or more and equal length, found 10 tokens and "
        "3 sequences");
  options.sequences = 2;
  options.repetitions = 0;
  CHECK(error_of(run) == "headmix: timing_options: repetitions: expected 1 or more, found 0");
}

}  // namespace

}  // namespace time_beside_test
