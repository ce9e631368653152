// SPDX-License-Identifier: MIT
// A relative bias of scores must have a number for every bound query and key.

#include <doctest/doctest.h>

#include <vector>

#include "../error_of.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/program/module.hpp"

namespace relative_bias_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// y with this number of queries and keys in each sequence.
template <class L, class Backend>
std::string run(segments queries, segments keys) {
  Module<L, Backend> m(1);
  std::vector<typename Backend::scalar> const x(static_cast<std::size_t>(queries.rows * 8), 1),
      context(static_cast<std::size_t>(keys.rows * 6), 1);
  return error_of([&] {
    m.forward({x.data(), queries.rows, 8}, queries, {context.data(), keys.rows, 6}, keys);
    m.backward({x.data(), queries.rows, 8});
  });
}
template <class L, class Backend>
void check_refusals() {
  static constexpr Int few[] = {0, 2, 5}, many[] = {0, 2, 8};
  CHECK(run<L, Backend>(uniform(2, 3), uniform(2, 3)).empty());
  CHECK(run<L, Backend>(uniform(1, 2), uniform(1, 6)).empty());
  CHECK(run<L, Backend>(uniform(1, 0), uniform(1, 0)).empty());
  CHECK(run<L, Backend>(ragged(few, 2), ragged(many, 2)).empty());
  CHECK(says(run<L, Backend>(uniform(1, 6), uniform(1, 3)),
             "positions 0 .. 5; sequence 0 has 6 queries for 3 keys, at positions -3 .. 2"));
  CHECK(says(run<L, Backend>(ragged(many, 2), ragged(few, 2)),
             "positions 0 .. 5; sequence 1 has 6 queries for 3 keys, at positions -3 .. 2"));
  CHECK(says(run<L, Backend>(uniform(1, 1), uniform(1, 0)), "at positions -1 .. -1"));
  CHECK(says(run<L, Backend>(uniform(1, 2), uniform(1, 7)), "the score_bias is for 6 keys, sequence 0 has 7"));
}

}  // namespace

TEST_CASE("relative position bias: more queries than keys are refused, and more keys than the bias has") {
  using Heads = MultiHead<8, 4, 4, causal, context_dim<6>, relative_position_bias<2, 3, 4>>;
  check_refusals<Heads, Reference<double>>();
  check_refusals<Heads, Cpu<float>>();
  check_refusals<Moh<8, 4, TwoStage<1, 3, 1>, sliding_window<4>, context_dim<6>, relative_position_bias<2, 3, 4>>,
                 Cpu<float>>();
}
TEST_CASE("relative position bias: other sequences of as many rows are looked at in every pass") {
  using Self = MultiHead<8, 4, 4, relative_position_bias<2, 3, 4>>;
  using Heads = MultiHead<8, 4, 4, causal, context_dim<6>, relative_position_bias<2, 3, 4>>;
  static constexpr Int fits[] = {0, 4, 9}, long_one[] = {0, 2, 9}, near[] = {3}, far[] = {5}, farthest[] = {2147483647};
  std::vector<float> const x(9 * 8, 1), context(6 * 6, 1);
  Module<Self, Cpu<float>> self(1);
  auto const of_self = [&](segments s) { return error_of([&] { self.forward({x.data(), 9, 8}, s); }); };
  CHECK(of_self(ragged(fits, 2)).empty());
  CHECK(says(of_self(ragged(long_one, 2)), "the score_bias is for 6 keys, sequence 1 has 7"));
  CHECK(of_self(ragged(fits, 2)).empty());

  Module<Heads, Cpu<float>> heads(1);
  auto const of_heads = [&](Int const* past, Int const* past_of_keys = nullptr) {
    segments queries = uniform(1, 3), keys = uniform(1, 6);
    queries.past = past, keys.past = past_of_keys;
    return error_of([&] { heads.forward({x.data(), 3, 8}, queries, {context.data(), 6, 6}, keys); });
  };
  CHECK(of_heads(nullptr).empty());
  CHECK(says(of_heads(far), "at positions 5 .. 7"));
  CHECK(of_heads(near).empty());
  CHECK(says(of_heads(farthest), "at positions 2147483647 .. 2147483649"));
  CHECK(says(of_heads(nullptr, near), "segments::past"));
  CHECK(of_heads(nullptr).empty());
}
TEST_CASE("relative position bias: a decoder refuses the token behind the last one that the bias has") {
  Decoder<MultiHead<8, 4, 4, causal, relative_position_bias<2, 3, 4>>, Cpu<float>> decoder(
      {.sequences = 2, .tokens = 64, .page = 8}, 1);
  std::vector<float> const x(4 * 8, 1);
  auto const of_rows = [&](Index each) { return error_of([&] { decoder.prefill({x.data(), 2 * each, 8}); }); };
  for (int step = 0; step < 5; ++step) CHECK(of_rows(1).empty());
  CHECK(says(of_rows(2), "the score_bias is for 6 keys, sequence 0 has 7"));
  CHECK(of_rows(1).empty());
  CHECK(says(of_rows(1), "the score_bias is for 6 keys, sequence 0 has 7"));
  CHECK((decoder.length(0) == 6 && decoder.length(1) == 6));
  decoder.rewind(0, 3);
  CHECK(says(of_rows(1), "the score_bias is for 6 keys, sequence 1 has 7"));
  decoder.rewind(1, 2);
  CHECK(of_rows(1).empty());
}

}  // namespace relative_bias_test
