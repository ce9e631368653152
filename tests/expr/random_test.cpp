// SPDX-License-Identifier: MIT
// Random values in expressions: the numbers drawn, their dependence on the key and the position, dropout of values and
// of attention's probabilities.

#include "headmix/expr/random.hpp"

#include <array>

#include "../test_program.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/expr/attention.hpp"

namespace random_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct C : size<5> {};
struct x : input<tokens, C> {};
struct slots : input<times<size<2>, tokens>, C> {};

template <class Distribution, random_stream Stream, class Like>
constexpr auto values_like = draw<Distribution, Stream>(Like{});

template <class Y>
std::vector<double> evaluate(Y, randomness key, Index rows) {
  TestProgram<roots<Y>, inference> p(at<tokens>(rows));
  std::copy_n(key.word, 6, p.values(random_key{}).data());
  auto const y = p.forward();
  return {y.data, y.data + y.size()};
}
std::vector<double> normals(randomness key, Index rows) {
  return evaluate(values_like<draws::normal, random_stream::gating_noise, x> + number<0>{} * x{}, key, rows);
}
std::vector<double> from(std::vector<double> const& v, std::size_t first) {
  return {v.begin() + static_cast<std::ptrdiff_t>(first), v.end()};
}

struct q : input<times<size<2>, tokens>, size<4>> {};
struct k : input<tokens, size<4>> {};
struct v : input<tokens, size<4>> {};
/// Two key/value heads, two rows per token, causal.
constexpr auto dropped = attention<causal, size<2>, draws::keep<1, 3>>(q{}, k{}, v{});
constexpr auto whole = attention<causal, size<2>>(q{}, k{}, v{});

}  // namespace

TEST_CASE("random: an element is a known function of key and position") {
  randomness const key(0x123456789abcdef0u, 7, 3, 2);
  auto const found = normals(key, 3);
  // Step and module determine the stream's number; rows are counted from the first token.
  Random const random(0x123456789abcdef0u, std::uint64_t{7} << 32 | 3, random_stream::gating_noise);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == random.normal(2 * 5 + i));
  // The words are those of Philox4x32-10 (Salmon et al. 2011): the published answer for zeros.
  philox_block const zeros = philox({{0, 0, 0, 0}}, 0);
  CHECK(zeros.word[0] == 0x6627e8d5u);
  CHECK(zeros.word[1] == 0xe169c58du);
  CHECK(zeros.word[2] == 0xbc57ac4cu);
  CHECK(zeros.word[3] == 0x9b00dbd8u);
}
TEST_CASE("random: rows keep their values when a batch is cut") {
  auto const all = normals(randomness(1, 2, 3), 6);
  CHECK(normals(randomness(1, 2, 3, 4), 2) == from(all, 20));
  constexpr auto of_slots = values_like<draws::normal, random_stream::user, slots> + number<0>{} * slots{};
  CHECK(evaluate(of_slots, randomness(1, 2, 3, 4), 2) == from(evaluate(of_slots, randomness(1, 2, 3), 6), 40));
}
TEST_CASE("random: seed, step, module and stream each change every value") {
  auto const base = normals(randomness(1, 2, 3), 4);
  auto const differs = [&](std::vector<double> const& other) {
    std::size_t same = 0;
    for (std::size_t i = 0; i < base.size(); ++i) same += base[i] == other[i];
    return same == 0;
  };
  CHECK(differs(normals(randomness(2, 2, 3), 4)));
  CHECK(differs(normals(randomness(1, 3, 3), 4)));
  CHECK(differs(normals(randomness(1, 2, 4), 4)));
  CHECK(differs(
      evaluate(values_like<draws::normal, random_stream::user, x> + number<0>{} * x{}, randomness(1, 2, 3), 4)));
}
TEST_CASE("random: the distributions have their moments") {
  Index const n = 4000;  // rows of 5
  auto const moments = [&](std::vector<double> const& values) {
    double mean = 0, square = 0;
    for (double const a : values) mean += a / static_cast<double>(values.size());
    for (double const a : values) square += (a - mean) * (a - mean) / static_cast<double>(values.size());
    return std::array{mean, square};
  };
  auto const normal = moments(normals(randomness(5), n));
  CHECK(std::abs(normal[0]) < 0.03);
  CHECK(std::abs(normal[1] - 1) < 0.04);
  auto const gumbel = moments(
      evaluate(values_like<draws::gumbel, random_stream::expert_sampling, x> + number<0>{} * x{}, randomness(5), n));
  CHECK(std::abs(gumbel[0] - 0.57722) < 0.04);
  CHECK(std::abs(gumbel[1] - 1.64493) < 0.1);
  auto const kept =
      evaluate(values_like<draws::keep<1, 4>, random_stream::user, x> + number<0>{} * x{}, randomness(5), n);
  double share = 0;
  for (double const a : kept) {
    CHECK((a == 0 || close(a, 4.0 / 3)));
    share += (a != 0) / static_cast<double>(kept.size());
  }
  CHECK(std::abs(share - 0.75) < 0.02);
}
TEST_CASE("random: without randomness there is no noise and nothing is dropped") {
  for (double const a : normals(randomness::off(), 3)) CHECK(a == 0);
  TestProgram<roots<type_of<decltype(dropout<1, 2>(x{}))>>, inference> p(at<tokens>(3));
  p.values(random_key{}).assign(6, 0);
  auto const y = p.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == p.values(x{})[static_cast<std::size_t>(i)]);
}
TEST_CASE("random: dropout's gradient goes where its values went") {
  check_gradient(dropout<1, 3>(x{} * x{}));
  TestProgram<roots<type_of<decltype(dropout<1, 3>(x{}))>>> p(at<tokens>(7));
  auto const y = p.forward();
  p.backward();
  for (Index i = 0; i < y.size(); ++i) {
    auto const n = static_cast<std::size_t>(i);
    bool const kept = Random(1, 0, random_stream::output_dropout).uniform(n) >= 1.0 / 3;
    CHECK(close(y.data[i], kept ? 1.5 * p.values(x{})[n] : 0));
    CHECK(close(p.gradients(x{})[n], kept ? 1.5 * p.dy_values[n] : 0));
  }
}
TEST_CASE("random: attention's dropout scales or drops probabilities after the softmax") {
  gradcheck_options options;
  static std::array<Int, 4> const offsets{0, 2, 2, 7};
  options.token_sequences = ragged(offsets.data(), 3);
  TestProgram<roots<type_of<decltype(dropped)>>, inference> p(options);
  auto const y = p.forward();
  Random const random(1, 0, random_stream::attention_dropout);
  auto const q_ = p.in(q{}), k_ = p.in(k{}), v_ = p.in(v{});
  int kept = 0, seen = 0;
  for (Index b = 0; b < 3; ++b) {
    auto const begin = options.token_sequences.begin(b);
    for (Index row = 2 * begin; row < 2 * options.token_sequences.end(b); ++row) {
      for (Index head = 0; head < 2; ++head) {
        Index const t = row / 2 - begin;
        std::vector<double> e;
        double total = 0;
        for (Index s = 0; s <= t; ++s) {
          double const score =
              q_(row, 2 * head) * k_(begin + s, 2 * head) + q_(row, 2 * head + 1) * k_(begin + s, 2 * head + 1);
          e.push_back(std::exp(score / std::sqrt(2.0)));
          total += e.back();
        }
        for (Index c = 0; c < 2; ++c) {
          double o = 0;
          for (Index s = 0; s <= t; ++s) {
            auto const i = static_cast<std::uint64_t>(row * 2 + head) << 26 | static_cast<std::uint64_t>(s);
            bool const keep = random.uniform(i) >= 1.0 / 3;
            ++seen;
            kept += keep;
            if (keep) o += 1.5 * e[static_cast<std::size_t>(s)] / total * v_(begin + s, 2 * head + c);
          }
          CHECK(close(y(row, 2 * head + c), o));
        }
      }
    }
  }
  CHECK(kept > seen / 2);
  CHECK(kept < seen);
}
TEST_CASE("random: attention's dropout has the gradients of what it computes, on every backend") {
  check_gradient(dropped);
  for (Index const rows : {0, 1, 7}) {
    auto const r = gradcheck_on(Cpu<double>{}, dropped, {}, at<tokens>(rows));
    CAPTURE(r.text);
    CHECK(r.ok());
  }
  // More keys than a tile.
  Reference<double> reference;
  Cpu<double> cpu;
  auto const run = [&](auto& backend, auto y, randomness key) {
    Program<roots<decltype(y)>, std::remove_reference_t<decltype(backend)>> program(backend);
    Index const rows = 300;
    static std::vector<double> data(static_cast<std::size_t>(2 * rows * 4));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = Random(3).normal(i);
    std::vector<double> g(data.size() * 4);
    auto const part = [&](std::size_t i, Index n) { return view<double>(g.data() + i * data.size(), n, 4); };
    program.bind(q{}, {data.data(), 2 * rows, 4}, part(0, 2 * rows));
    program.bind(k{}, {data.data() + 4, rows, 4}, part(1, rows));
    program.bind(v{}, {data.data() + 8, rows, 4}, part(2, rows));
    if constexpr (!std::is_same_v<decltype(y), type_of<decltype(whole)>>) program.bind(random_key{}, {key.word, 1, 6});
    AlignedBuffer workspace(program.workspace_bytes());
    program.bind_workspace(workspace.bytes());
    auto const o = program.forward();
    std::copy_n(o.data, o.size(), g.data() + 3 * data.size());
    program.backward({data.data(), 2 * rows, 4});
    return g;
  };
  auto const same = [](std::vector<double> const& a, std::vector<double> const& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!close(a[i], b[i], 1e-10)) return false;
    }
    return true;
  };
  CHECK(same(run(cpu, type_of<decltype(dropped)>{}, randomness(9)),
             run(reference, type_of<decltype(dropped)>{}, randomness(9))));
  CHECK(same(run(cpu, type_of<decltype(dropped)>{}, randomness::off()), run(cpu, type_of<decltype(whole)>{}, {})));
}

}  // namespace random_test
