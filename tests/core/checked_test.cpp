// SPDX-License-Identifier: MIT
// Sizes near 2^31 and 2^63 in all counts: an Error that names the excessive size, before memory is allocated.

#include "headmix/core/checked.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "../error_of.hpp"
#include "headmix/analysis/experts.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/count/count.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/sgd.hpp"

namespace checked_test {

using namespace headmix;
using namespace headmix::test;

namespace {
constexpr Index most = (std::numeric_limits<Index>::max)();
constexpr Index billions = Index{1} << 31;
}  // namespace

TEST_CASE("checked: bytes of elements") {
  CHECK(checked_bytes(3, 8) == 24);
  CHECK(checked_bytes(0, 8) == 0);
  CHECK(checked_bytes(most / 8, 8) == static_cast<std::size_t>(most / 8 * 8));
  CHECK(says(error_of([] { static_cast<void>(checked_bytes(most / 8 + 1, 8)); }), "sizes are too large: "));
  CHECK(says(error_of([] { static_cast<void>(checked_bytes(Index{1} << 61, 8)); }), "sizes are too large: "));
  CHECK(says(error_of([] { static_cast<void>(checked_bytes(-1, 4)); }), "sizes must not be negative; found -1"));
}
TEST_CASE("checked: the planner's addresses") {
  auto const half = static_cast<std::size_t>(most) / 2;
  CHECK(says(error_of([] { static_cast<void>(aligned(static_cast<std::size_t>(-1))); }), "sizes are too large: "));
  CHECK(aligned(half) == half + 1);
  OffsetPlanner<4> p;
  CHECK(p.acquire(0, half - 64) == 0);
  CHECK(p.acquire(1, half - 64) > 0);
  CHECK(says(error_of([&] { p.acquire(2, half); }), "sizes are too large: "));
  CHECK(says(error_of([&] { p.acquire(3, static_cast<std::size_t>(-64)); }), "sizes are too large: "));
}

TEST_CASE("checked: sequences, with and without rows") {
  using L = Moa<4, 2, SoftmaxTopK<3, 2>, causal>;
  Module<L, Cpu<float>> m(1);
  float x[4] = {};
  for (Index const count : {most, Index{1} << 61, Index{1} << 60, billions}) {
    auto const error = error_of([&] { m.forward(view<float const>(x, 0, 4), uniform(count, 0)); });
    CHECK(says(error, "tokens: expected at most 2147483647 sequences, found "));
  }
  CHECK(says(error_of([&] {
               m.forward({x, 1, 4}, segments{nullptr, 1, most});
             }),
             "expected at most 281474976710655 rows"));
  m.forward(view<float const>(x, 0, 4), uniform(3, 0));
  m.forward(view<float const>(x, 1, 4));
  // Keys from another input.
  Module<MultiHead<4, 1, 4, context_dim<4>>, Cpu<float>> c(1);
  CHECK(says(error_of([&] {
               c.forward(view<float const>(x, 0, 4), uniform(3, 0), view<float const>(x, 0, 4), uniform(most, 0));
             }),
             "context_tokens: expected at most 2147483647 sequences"));
}
TEST_CASE("checked: extents of nothing") {
  using F = Moa<dynamic, 2, SoftmaxTopK<3, 2>, causal>;
  for (Index const d : {most, Index{1} << 61, Index{1} << 48}) {
    auto const error = error_of([&] { Module<F, Cpu<float>>(1, Cpu<float>(), at<F::model_dim>(d)); });
    CHECK(says(error, "size model_dim: expected at most 281474976710655, found "));
  }
  Module<F, Cpu<float>> m(1, Cpu<float>(), at<F::model_dim>(4));
  float x[4] = {};
  CHECK(says(error_of([&] { m.forward(view<float const>(x, 0, most)); }), "more than the 281474976710655 elements"));
  view<float const> far(x, 0, 4);
  far.rows = most, far.cols = 0;
  CHECK(says(error_of([&] { m.forward(far); }), "281474976710655"));
}

TEST_CASE("checked: pages, tokens and sequences of a decoder") {
  using L = MultiHead<4, 2, 2, causal>;
  auto const error = [](cache_size const& size) {
    return error_of([&] { Decoder<L, Cpu<float>>(size, uninitialized{}); });
  };
  for (Index const n : {most, Index{1} << 61, billions}) {
    CHECK(says(error({.sequences = n, .tokens = 8}), "cache_size: sequences is "));
    CHECK(says(error({.tokens = n}), "cache_size: tokens is "));
    CHECK(says(error({.tokens = 8, .pages = n}), "cache_size: pages is "));
  }
  CHECK(says(error({.tokens = 8, .page = most}), "cache_size: page is "));
  CHECK(says(error({.sequences = billions - 1, .tokens = billions - 1, .page = 1}), "sequences times pages of each"));
  CHECK(says(error({.sequences = 1 << 16, .tokens = 1 << 20, .page = 1}), "pages of all sequences"));
  CHECK(error({.tokens = 8, .page = billions}).empty());  // at most a sequence
}

TEST_CASE("checked: scratch of kernels") {
  attention_extents x;
  x.queries = x.keys = uniform(1, 64);
  auto const scratch = [](attention_extents const& e) {
    attention_forward<float> a;
    a.extents = e;
    return cpu_kernels::attention_scratch_bytes(products::exact{}, a, 4);
  };
  auto const gradient = [](attention_extents const& e) {
    attention_backward<float> a;
    a.extents = e;
    return cpu_kernels::attention_gradient_scratch_bytes(products::exact{}, a, 4);
  };
  x.heads = x.kv_heads = 2;
  x.head_dim = 8;
  CHECK(scratch(x) > 0);
  CHECK(gradient(x) > 0);
  auto const refused = [&](attention_extents const& e) {
    return says(error_of([&] { static_cast<void>(scratch(e)); }), "sizes are too large: ") &&
           says(error_of([&] { static_cast<void>(gradient(e)); }), "sizes are too large: ");
  };
  for (Index const n : {most - 200, Index{1} << 61}) {
    auto e = x;
    e.queries.count = e.keys.count = n, e.queries.rows = e.keys.rows = 0;
    CHECK(refused(e));
    e = x;
    e.heads = e.kv_heads = n;
    CHECK(refused(e));
    e = x;
    e.queries.rows = e.keys.rows = n;
    CHECK(refused(e));
  }
  view<float const> const w(nullptr, 8, 8);
  CHECK(says(error_of([&] { static_cast<void>(cpu_kernels::grouped_gemm_scratch_bytes(w, most)); }),
             "sizes are too large: "));
}

TEST_CASE("checked: counters") {
  CHECK(says(error_of([] { ExpertCounts(Index{1} << 32, Index{1} << 32); }), "sizes are too large: "));
  CHECK(says(error_of([] { ExpertCounts(Index{1} << 61, 1); }), "sizes are too large: "));
  CHECK(says(error_of([] { ExpertCounts(-1, -1); }), "found -1 and -1"));
  ExpertCounts const counts(3, 2);
  CHECK(says(error_of([&] { static_cast<void>(counts.count(3, 0)); }), "expected a token below 3, found 3"));
  CHECK(says(error_of([&] { static_cast<void>(counts.of_expert(-1)); }), "expected an expert below 2, found -1"));
  using L = MultiHead<4, 2, 2, causal>;
  CHECK(says(error_of([] { static_cast<void>(count_macs<L>(at<tokens>(most))); }), "sizes are too large: "));
  CHECK(says(error_of([] { static_cast<void>(count_macs<L>(at<tokens>(most - 1))); }), "sizes are too large: "));
  CHECK(count_macs<L>({.attention_term = true}, at<tokens>(billions / 8)) > 0);
}
TEST_CASE("checked: parameters of an optimiser") {
  float one = 0;
  parameter<float> p{"p", view<float>(&one, 1, 1), view<float>(&one, 1, 1)};
  p.value.count = p.gradient.count = Index{1} << 32, p.value.rows = p.gradient.rows = Index{1} << 32;
  p.value.stack_stride = p.gradient.stack_stride = Index{1} << 32, p.value.row_stride = p.gradient.row_stride = 1;
  CHECK(says(error_of([&] { AdamW<float>({p}); }), "sizes are too large: "));
  CHECK(says(error_of([&] { Sgd<float>({p}); }), "sizes are too large: "));
}

}  // namespace checked_test
