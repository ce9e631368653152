// SPDX-License-Identifier: MIT
// The launches, products and workspace of a pass on a GPU, counted without running it.
#include <doctest/doctest.h>

#include <string>

#include "cuda/recorder.hpp"
#include "headmix/layer/feed_forward.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"

using namespace headmix;

namespace {

struct halved_scores : score_map {
  static constexpr auto f(auto s) { return s / number<2>{}; }
};

struct counts {
  std::size_t forward, backward, workspace;
  std::string all;  ///< a line for each launch
};
/// Counts of a layer of width 1024 with 8 sequences of 2048 tokens, from the second pass on.
template <class Layer>
counts of() {
  auto const found = testing::record<Layer>(1024, uniform(8, 2048));
  counts c{found.forward.size(), found.backward.size(), found.workspace, {}};
  for (auto const* const pass : {&found.forward, &found.backward}) {
    for (auto const& kernel : *pass) c.all += kernel.substr(0, 100) + "\n";
  }
  return c;
}

}  // namespace

// The numbers are those of this state: what makes one rise must be worth it, and one that falls is written here.
TEST_CASE("launches of MoA, 8 of 32 experts of 128") {
  auto const c = of<Moa<1024, 128, SoftmaxTopK<32, 8>>>();
  CAPTURE(c.all);
  CAPTURE(c.workspace);
  CHECK(c.forward == 10);
  CHECK(c.backward == 18);
  CHECK(c.workspace == 457311040);
}
TEST_CASE("launches of MoA, 8 of 32 experts of 128, with kernels for warpgroups") {
  testing::Recorder::with_warpgroups = true;
  auto const c = of<Moa<1024, 128, SoftmaxTopK<32, 8>>>();
  testing::Recorder::with_warpgroups = false;
  CAPTURE(c.all);
  CHECK(c.forward == 10);
  CHECK(c.backward == 17);
  CHECK(c.workspace == 457311040);
  CHECK(c.all.find("route_tensor<bfloat16, 32, 4>") != std::string::npos);  // a cluster of four blocks
}
TEST_CASE("launches of attention with a score map: by warpgroups, unless the map divides") {
  testing::Recorder::with_warpgroups = true;
  auto const capped = of<MultiHead<1024, 8, 128, causal, soft_cap<30>>>(),
             divided = of<MultiHead<1024, 8, 128, causal, halved_scores>>();
  testing::Recorder::with_warpgroups = false;
  CAPTURE(capped.all);
  CAPTURE(divided.all);
  CHECK(capped.all.find("attention_warpgroups<causal, lowered_score_map<") != std::string::npos);
  CHECK(divided.all.find("attention_tensor<causal, lowered_score_map<") != std::string::npos);
}
TEST_CASE("launches of multi-head attention, 8 heads of 128") {
  auto const c = of<MultiHead<1024, 8, 128>>();
  CAPTURE(c.all);
  CHECK(c.forward == 3);
  CHECK(c.backward == 11);
}
TEST_CASE("launches of MoH, 4 shared and 4 of 12 routed heads of 64") {
  auto const c = of<Moh<1024, 64, TwoStage<4, 12, 4>>>();
  CAPTURE(c.all);
  CHECK(c.forward == 19);
  CHECK(c.backward == 27);
}
TEST_CASE("launches of MoH with dense projections, 4 shared and 4 of 12 routed heads of 64") {
  auto const c = of<Moh<1024, 64, TwoStage<4, 12, 4>, dense_projections>>();
  CAPTURE(c.all);
  CHECK(c.forward == 13);
  CHECK(c.backward == 21);
}
TEST_CASE("launches of MH-MoE, 2 heads, 2 of 8 experts") {
  auto const c = of<MhMoe<1024, 2, SoftmaxTopK<8, 2>, FeedForward<2048>>>();
  CAPTURE(c.all);
  CHECK(c.forward == 12);
  CHECK(c.backward == 20);
}
TEST_CASE("launches of MH-MoE, 2 heads, 2 of 8 experts of 512, with kernels for warpgroups") {
  testing::Recorder::with_warpgroups = true;
  auto const c = of<MhMoe<1024, 2, SoftmaxTopK<8, 2>, FeedForward<512>>>();
  testing::Recorder::with_warpgroups = false;
  CAPTURE(c.all);
  CHECK(c.forward == 10);
  CHECK(c.backward == 19);
}
