// SPDX-License-Identifier: MIT
// Forms of rotary embedding against the equations: some columns of a head, pairs of neighbours, Llama 3's frequencies.

#include "../error_of.hpp"
#include "../test_program.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/expr/rotary.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"

namespace rotary_forms_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr Index head_dim = 10;
constexpr double theta = 50;
struct x : input<tokens, size<2 * head_dim>> {};

/// Llama 3.1's frequency, from wavelengths.
double llama3(double f, double factor, double trained, double low, double high) {
  double const pi = std::acos(-1.0), wavelength = 2 * pi / f;
  if (wavelength > trained / low) return f / factor;
  if (wavelength < trained / high) return f;
  double const smooth = (trained / wavelength - low) / (high - low);
  return (1 - smooth) * f / factor + smooth * f;
}
template <class... Form>
void check(Index dims, bool interleaved, bool scaled) {
  CAPTURE(dims);
  CAPTURE(interleaved);
  CAPTURE(scaled);
  gradcheck_options o;
  static std::array<Int, 4> const offsets{0, 7, 7, 12};
  o.token_sequences = ragged(offsets.data(), 3);
  constexpr auto y = rotary<size<2>, void, Form...>(x{}, number<50>{});
  TestProgram<roots<type_of<decltype(y)>>> p(o);
  auto const found = p.forward();
  double kept = 0;
  for (Index i = 0; i < 12; ++i) {
    auto const position = static_cast<double>(i < 7 ? i : i - 7);
    for (Index head = 0; head < 2; ++head) {
      std::vector<double> row(head_dim);
      for (Index j = 0; j < head_dim; ++j) row[static_cast<std::size_t>(j)] = p.in(x{})(i, head * head_dim + j);
      for (Index c = 0; c < dims / 2; ++c) {
        double f = std::pow(theta, -2.0 * static_cast<double>(c) / static_cast<double>(dims));
        if (scaled) f = llama3(f, 3, 40, 1, 4);
        auto const a = static_cast<std::size_t>(interleaved ? 2 * c : c),
                   b = static_cast<std::size_t>(interleaved ? 2 * c + 1 : c + dims / 2);
        double const u = row[a], v = row[b];
        row[a] = u * std::cos(position * f) - v * std::sin(position * f);
        row[b] = u * std::sin(position * f) + v * std::cos(position * f);
      }
      for (Index j = 0; j < head_dim; ++j) {
        REQUIRE(close(found(i, head * head_dim + j), row[static_cast<std::size_t>(j)]));
        kept += j >= dims && found(i, head * head_dim + j) == p.in(x{})(i, head * head_dim + j) ? 1 : 0;
      }
    }
  }
  CHECK(kept == static_cast<double>(12 * 2 * (head_dim - dims)));
  CHECK(gradcheck(y, o).ok());
}

}  // namespace

TEST_CASE("rotary forms: every two and all three of them, and their gradients") {
  using Some = partial_rotary<6>;
  using Scaled = llama3_frequencies<3, 40>;
  check<>(10, false, false);
  check<Some>(6, false, false);
  check<interleaved_pairs>(10, true, false);
  check<Scaled>(10, false, true);
  check<Some, interleaved_pairs>(6, true, false);
  check<Some, Scaled>(6, false, true);
  check<interleaved_pairs, Scaled>(10, true, true);
  check<Scaled, interleaved_pairs, Some>(6, true, true);
}

TEST_CASE("rotary forms: the frequencies of Llama 3.1") {
  // factor 8, 8192 positions, 1 and 4 turns, theta 500,000, heads of 128.
  rotation const r = headmix::detail::rotation_of<llama3_frequencies<>>(false);
  for (Index c = 0; c < 64; ++c) {
    double const f = std::pow(500000.0, -static_cast<double>(c) / 64);
    CHECK(r.frequency(f) == doctest::Approx(llama3(f, 8, 8192, 1, 4)).epsilon(1e-14));
  }
  CHECK(r.frequency(1) == 1);
  CHECK(r.frequency(1e-5) == 1e-5 / 8);
}

namespace {
using Rope = rope<500, 1, partial_rotary<2>, llama3_frequencies<4, 6>>;
using Layer = Moa<6, 4, SoftmaxTopK<3, 2>, causal, kv_heads<2>, Rope>;
}  // namespace

TEST_CASE("rotary forms: a decoder's chunks have the positions of the whole sequence, in float and bfloat16") {
  Module<Layer, Cpu<float>, inference> whole(1);
  Decoder<Layer, Cpu<float>> decoder({.tokens = 20}, share_parameters{}, whole);
  std::vector<float> rows(13 * 6);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(Random(3).normal(i));
  auto const y = whole.forward({rows.data(), 13, 6});
  for (Index t = 0; t < 13; t += 5) {
    Index const n = (std::min)(Index{5}, 13 - t);
    auto const part = decoder.prefill({rows.data() + 6 * t, n, 6}, uniform(1, n));
    for (Index i = 0; i < n * 6; ++i) REQUIRE(std::abs(part.data[i] - y.data[6 * t + i]) < 1e-5f);
  }
  Module<MultiHead<6, 2, 4, causal, rope<100, 1, interleaved_pairs>>, Cpu<bfloat16>, inference> narrow(1);
  Module<MultiHead<6, 2, 4, causal, rope<100, 1, interleaved_pairs>>, Reference<double>, inference> wide(1);
  std::vector<bfloat16> few(7 * 6);
  std::vector<double> same(few.size());
  for (std::size_t i = 0; i < few.size(); ++i)
    few[i] = static_cast<bfloat16>(rows[i]), same[i] = static_cast<double>(static_cast<float>(few[i]));
  for (std::size_t i = 0; i < wide.parameters().size(); ++i) {
    auto const& from = narrow.parameters()[i].value;
    auto const& to = wide.parameters()[i].value;
    for (Index e = 0; e < to.size(); ++e) to.data[e] = static_cast<double>(static_cast<float>(from.data[e]));
  }
  auto const a = narrow.forward({few.data(), 7, 6});
  auto const b = wide.forward({same.data(), 7, 6});
  for (Index i = 0; i < a.size(); ++i)
    CHECK(std::abs(static_cast<double>(static_cast<float>(a.data[i])) - b.data[i]) < 0.03);
}

}  // namespace rotary_forms_test
