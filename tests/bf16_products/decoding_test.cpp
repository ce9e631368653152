// SPDX-License-Identifier: MIT
// Decoders over bfloat16 with caches of pairs: chunks of any size have equal bits, which equal the whole sequence up to
// rounding; rewinding over odd numbers of tokens, and hidden non-finite numbers.

#include "../decode/decoding.hpp"

#include "headmix/backend/thread_pool.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"

namespace {

using namespace headmix;
using namespace headmix::test;

using Dense = MultiHead<24, 3, 8, causal, rope<>>;
using Grouped = MultiHead<24, 4, 6, sliding_window<70>, kv_heads<2>>;
using Experts = Moa<20, 10, SoftmaxTopK<4, 4>, causal>;
using OddHeads = MultiHead<21, 3, 7, causal>;

constexpr Index page = Cpu<bfloat16>::cache_rows;

TEST_CASE_TEMPLATE("a decoder over bfloat16 has the same bits for chunks of any size", L, Dense, Grouped, Experts,
                   OddHeads) {
  thread_pool two(2);
  using on_two = Decoding<L, thread_pool, bfloat16>;
  Decoding<L, serial, bfloat16> d({.tokens = 4 * page});
  on_two threads({.tokens = 4 * page}, Cpu<bfloat16, thread_pool>(two));
  Index const n = 3 * page + 5;
  auto const x = text_of<bfloat16>(0, n, d.width);
  auto const bits = [](std::vector<bfloat16> const& v) {
    std::vector<std::uint16_t> all;
    for (bfloat16 const e : v) all.push_back(e.bits);
    return all;
  };
  auto const by_one = d.in_chunks(x, 1);
  auto const numbers = [](std::vector<bfloat16> const& v) { return std::vector<float>(v.begin(), v.end()); };
  CHECK(difference(numbers(by_one), numbers(d.of_whole(x))) < 2e-2);
  for (Index const chunk : {Index{3}, page, 2 * page + 1, n}) {
    d.decoder.rewind(0, 0);
    CHECK(bits(d.in_chunks(x, chunk)) == bits(by_one));
    threads.decoder.rewind(0, 0);
    CHECK(bits(threads.in_chunks(x, chunk)) == bits(by_one));
  }
  // Rewinds to an odd and to an even number of tokens, and overwrites the later ones.
  for (Index const kept : {Index{page + 7}, Index{page + 6}}) {
    d.decoder.rewind(0, kept);
    (void)d.in_chunks(text_of<bfloat16>(5000, 9, d.width), 9);
    d.decoder.rewind(0, kept);
    std::vector<bfloat16> const rest(x.begin() + kept * d.width, x.end());
    CHECK(bits(d.in_chunks(rest, 4)) == bits(std::vector<bfloat16>(by_one.begin() + kept * d.width, by_one.end())));
  }
}

TEST_CASE("a value that is not finite reaches no token before it, nor after it was taken back") {
  Decoding<Dense, serial, bfloat16> d({.tokens = 16});
  auto x = text_of<bfloat16>(0, 12, d.width);
  auto const y = d.in_chunks(x, 12);
  d.decoder.rewind(0, 0);
  auto broken = x;
  for (Index j = 0; j < d.width; ++j) broken[static_cast<std::size_t>(7 * d.width + j)] = bfloat16(std::nanf(""));
  auto const with_nan = d.in_chunks(broken, 12);
  for (std::size_t i = 0; i < with_nan.size(); ++i)
    CHECK(std::isnan(static_cast<float>(with_nan[i])) == (i >= static_cast<std::size_t>(7 * d.width)));
  for (std::size_t i = 0; i < static_cast<std::size_t>(7 * d.width); ++i) CHECK(with_nan[i].bits == y[i].bits);
  d.decoder.rewind(0, 7);
  auto const again = d.in_chunks(std::vector<bfloat16>(x.begin() + 7 * d.width, x.end()), 1);
  for (std::size_t i = 0; i < again.size(); ++i)
    CHECK(again[i].bits == y[i + static_cast<std::size_t>(7 * d.width)].bits);
}

}  // namespace
