// SPDX-License-Identifier: MIT
// Recorded hashes of every layer: results, gradients, initial parameters, selections, and numbers of kernels and
// memory. A refactoring of a layer must not change them.
//
// A hash is computed from numbers in fixed point, without the last bits of a double, in which compilers and math
// libraries differ. If a layer is meant to change, the test prints the new hash.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/core/digest.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/module.hpp"

namespace golden_hashes_test {

using namespace headmix;

namespace {

class Digest {
 public:
  void add(double number) {
    auto word = static_cast<std::uint64_t>(std::llround(number * 0x1p24));
    for (int byte = 0; byte < 8; ++byte, word >>= 8) hash_ = detail::fnv1a(hash_, word & 0xff);
  }
  template <class T>
  void add(view<T> v) {
    for (Index e = 0; e < v.count; ++e) {
      for (Index i = 0; i < v.rows; ++i) {
        for (Index j = 0; j < v.cols; ++j) add(static_cast<double>(v[e](i, j)));
      }
    }
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = detail::fnv1a_basis;
};

/// Number of kernels of the forward pass and of both passes, bytes of workspace, and the hash of all numbers.
struct Record {
  std::size_t forward, both, bytes;
  std::uint64_t digest;
  bool operator==(Record const&) const = default;
};
std::string text(Record const& r) {
  return "{" + std::to_string(r.forward) + ", " + std::to_string(r.both) + ", " + std::to_string(r.bytes) + ", " +
         std::to_string(r.digest) + "u}";
}

std::vector<double> numbers(Index n, std::uint64_t seed) {
  std::vector<double> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = Random(seed).normal(i);
  return v;
}

// Three sequences: queries of 4, 0 and 3 tokens, and a second input of 3, 1 and 5 tokens; with padding, six rows each.
constexpr Index width = 6, second_width = 5;
Int const offsets[] = {0, 4, 4, 7}, second_offsets[] = {0, 3, 4, 9};
std::vector<int> const mask = {1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0};

template <bool Cross, class L, class... X>
Record record(X... sizes) {
  Module<L, Reference<double>> m(11, {}, sizes...);
  Digest digest;
  std::uint64_t seed = 100;
  for (auto const& p : m.parameters()) {
    digest.add(p.value);
    auto const start = numbers(p.value.size(), ++seed);
    for (Index i = 0; i < p.value.size(); ++i) p.value.data[i] = start[static_cast<std::size_t>(i)] / 2;
  }
  Padding const padding(view<int const>(mask.data(), 3, 6));
  constexpr bool pads = std::is_same_v<rows<typename L::x>, padded_tokens>;
  batch const b = pads ? batch(padding) : batch(segments{offsets, 3, 7});
  auto const x = numbers(b.rows * width, 1), dy = numbers(b.rows * width, 2), c = numbers(18 * second_width, 3);
  view<double const> const x_view(x.data(), b.rows, width);
  for (int pass = 0; pass < 2; ++pass) {
    view<double const> y;
    if constexpr (Cross) {
      batch const second = pads ? batch(padding) : batch(segments{second_offsets, 3, 9});
      y = m.forward(x_view, b, {c.data(), second.rows, second_width}, second);
    } else {
      y = m.forward(x_view, b);
    }
    digest.add(y);
    [&]<int... Which>(std::integer_sequence<int, Which...>) { (digest.add(m.template loss<Which>()), ...); }
    (std::make_integer_sequence<int, L::losses::size>{});
    [&]<int... Which>(std::integer_sequence<int, Which...>) { (digest.add(m.template observed<Which>()), ...); }
    (std::make_integer_sequence<int, L::observed::size>{});
    if constexpr (L::losses::size == 0) {
      m.backward({dy.data(), b.rows, width});
    } else if constexpr (L::losses::size == 1) {
      m.backward({dy.data(), b.rows, width}, {0.5});
    } else {
      m.backward({dy.data(), b.rows, width}, {0.5, 0.25});
    }
    digest.add(m.input_gradient());
    if constexpr (Cross) digest.add(m.context_gradient());
    for (auto const& p : m.parameters()) digest.add(p.gradient);
  }
  using program = std::remove_reference_t<decltype(m.program())>;
  return {program::forward_steps::size, program::steps::size, m.program().workspace_bytes(), digest.value()};
}

template <class L, bool Cross = false, class... X>
void check(Record const& expected, X... sizes) {
  Record const found = record<Cross, L>(sizes...);
  CAPTURE(text(found));
  CHECK(found == expected);
}

}  // namespace

TEST_CASE("golden hashes: MoA") {
  check<Moa<6, 4, SoftmaxTopK<5, 2>>>({23, 43, 5440, 15784756907932957856u});
  check<Moa<6, 4, NoisyTopK<5, 3, sampled<1>>, query_bias, key_bias, value_bias, output_bias, kv_heads<2>, rope<>,
            causal, probability_dropout<1, 4>, output_dropout<1, 8>>>({40, 73, 15040, 17685364768402859837u});
  using L = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic, gating::raw, loss::z_with_padding>, context_dim<5>,
                padded, key_bias>;
  check<L, true>({19, 41, 8448, 7615869997317454863u}, at<L::model_dim>(6), at<L::head_dim>(3), at<L::experts>(5),
                 at<L::top_k>(2));
}
TEST_CASE("golden hashes: MoH") {
  check<Moh<6, 4, TwoStage<1, 3, 2>, query_bias, key_bias, value_bias, output_bias, kv_heads<2>, rope<100>,
            sliding_window<3>, padded>>({45, 85, 10752, 1223862409298559756u});
  check<Moh<6, 4, TwoStage<0, 4, 2, scaling::paper>, qk_norm, context_dim<5>, probability_dropout<1, 4>,
            output_dropout<1, 8>>,
        true>({24, 57, 13056, 1558205180981264795u});
  check<Moh<6, 4, QueryNorm<1, 3, 2>, cosine_scores<7>, relative_position_bias<2, 3, 8>, causal>>(
      {35, 76, 18304, 9208028959844147335u});
  check<Moh<6, 4, QueryNorm<1, 3, 2, estimator::active>, query_bias>>({32, 57, 12032, 8227356584441532669u});
}
TEST_CASE("golden hashes: multi-head attention") {
  check<MultiHead<6, 4, 2, query_bias, key_bias, value_bias, output_bias, kv_heads<2>, rope<>, causal,
                  output_dropout<1, 8>>>({12, 26, 4096, 18166195609228863561u});
  check<MultiHead<6, 4, 2, cosine_scores<7>, relative_position_bias<2, 3, 8>, key_bias, padded>>(
      {21, 52, 11392, 6353940946381491989u});
}
TEST_CASE("golden hashes: MAE") {
  using L = Mae<6, 4, 2, causal, rope<>, padded, output_bias, probability_dropout<1, 4>, gate_dim<5>>;
  check<L>({23, 50, 8128, 15762255057606699758u});
  check<Mae<6, 4, 3, left_out_heads<2>, context_dim<5>, output_dropout<1, 8>>, true>(
      {22, 48, 31872, 8378282185836044950u});
  check<L::expert<choice::drawn>>({28, 41, 5248, 13137333144594832988u});
  check<L::mean>({11, 23, 5568, 12622866022649389601u});
}
TEST_CASE("golden hashes: MH-MoE") {
  check<MhMoe<6, 3, SoftmaxTopK<4, 2, gating::raw, loss::first_choice_balance, init<fan_in_uniform>>, FeedForward<5>,
              head_bias, merge_bias, subtoken_residual, shared_expert<FeedForward<7, activation::gelu>>, padded,
              output_dropout<1, 8>>>({24, 55, 16704, 7604774193562099825u});
  check<MhMoe<6, 2, SoftmaxTopK<4, 2>, FeedForward<5, weights::ternary>, no_merge, capacity<1>>>(
      {30, 57, 14016, 13452308883061790972u});
  check<Smoe<6, SoftmaxTopK<4, 2>, FeedForward<5, activation::relu>>>({20, 37, 4096, 9065721910073344215u});
}

}  // namespace golden_hashes_test
