// SPDX-License-Identifier: MIT
// Separate spaces of random numbers: initial parameters and buffers, noise and dropout of passes, optimisers, names,
// and a program's own numbers.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/digest.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/layer/use.hpp"
#include "headmix/program/module.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/sgd.hpp"

namespace random_streams_test {

using namespace headmix;

namespace {

/// 1 for a number above the median of its distribution, else 0.
using Bits = std::vector<int>;

/// The share of equal bits, in standard deviations from 1/2.
double deviation(Bits const& a, Bits const& b) {
  std::size_t const n = std::min(a.size(), b.size());
  std::size_t agree = 0;
  for (std::size_t i = 0; i < n; ++i) agree += a[i] == b[i];
  return (static_cast<double>(agree) - static_cast<double>(n) / 2) / std::sqrt(static_cast<double>(n) / 4);
}
template <class T>
Bits signs(view<T> v) {
  Bits bits;
  for (Index i = 0; i < v.size(); ++i) bits.push_back(v.data[i] > 0);
  return bits;
}
template <class T>
Bits kept(view<T const> y) {
  Bits bits;
  for (Index i = 0; i < y.size(); ++i) bits.push_back(y.data[i] != 0);
  return bits;
}
struct Drawn {
  std::string what;
  Bits bits;
};
/// Fails if two draws agree more, or less, often than independent ones: by 5 standard deviations.
void check_independent(std::vector<Drawn> const& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      REQUIRE(std::min(all[i].bits.size(), all[j].bits.size()) >= 64);
      double const d = deviation(all[i].bits, all[j].bits);
      CAPTURE(all[i].what);
      CAPTURE(all[j].what);
      CAPTURE(d);
      CHECK(std::abs(d) < 5);
    }
  }
}

constexpr Index tokens_of_batch = 32;

/// A buffer with random initial values, and noise.
struct Noise {
  struct x : input<tokens, size<16>> {};
  struct B : buffer<size<16>, size<32>> {
    using initializer = normal<1, 1>;
  };
  struct W : param<size<32>, size<16>> {
    using initializer = normal<1, 1>;
  };
  static constexpr auto y =
      relu(draw<draws::normal, random_stream::gating_noise>(x{})) + number<0>{} * (x{} % B{} % W{});
  using losses = type_list<>;
  using observed = type_list<>;
};
struct Dropped {
  struct x : input<tokens, size<16>> {};
  static constexpr auto y = dropout<1, 2>(x{});
  using losses = type_list<>;
  using observed = type_list<>;
};
/// Two names with equal 24-bit hashes.
struct TwoUses {
  using x = Dropped::x;
  static constexpr auto first = use<Dropped, "dec17.cross">(x{});
  static constexpr auto second = use<Dropped, "head396">(x{});
  static constexpr auto y = first.y + number<2>{} * second.y;
  using losses = type_list<>;
  using observed = type_list<>;
};

/// The bits of parameters and buffers, and the masks of passes.
template <class L>
std::vector<Drawn> draws_of(std::uint64_t seed, std::uint32_t passes) {
  Module<L, Cpu<float>> m(seed);
  std::vector<Drawn> all;
  for (auto const& p : m.parameters()) all.push_back({std::string(p.name), signs(p.value)});
  for (auto const& p : m.buffers()) all.push_back({std::string(p.name), signs(p.value)});
  std::vector<float> const x(static_cast<std::size_t>(tokens_of_batch * 16), 1.F);
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    auto const y = m.forward({x.data(), tokens_of_batch, 16});
    all.push_back({"the mask of pass " + std::to_string(pass), kept(y)});
  }
  return all;
}

}  // namespace

TEST_CASE("random streams: starts of parameters and masks of passes are independent") {
  for (std::uint64_t const seed : {7U, 8U}) {
    check_independent(draws_of<MultiHead<16, 4, 8, causal, output_dropout<1, 2>>>(seed, 6));
  }
}
TEST_CASE("random streams: starts of buffers and noise of passes are independent") {
  check_independent(draws_of<Noise>(3, 4));
}
TEST_CASE("random streams: uses of a layer, and modules of a model, have masks of their own") {
  Module<TwoUses, Cpu<float>> m(5);
  std::vector<float> const x(512, 1.F);
  std::vector<Drawn> all;
  for (std::uint32_t const module : {0U, 1U, 2U, 65535U}) {
    m.set_randomness(randomness(5, 1, module));
    auto const y = m.forward({x.data(), tokens_of_batch, 16});
    Bits first, second;
    for (Index i = 0; i < y.size(); ++i) {
      first.push_back(y.data[i] == 2 || y.data[i] == 6);  // 2 from one use, 4 from the other
      second.push_back(y.data[i] >= 4);
    }
    all.push_back({"the first use in module " + std::to_string(module), first});
    all.push_back({"the second use in module " + std::to_string(module), second});
  }
  check_independent(all);
  CHECK_THROWS_WITH_AS(randomness(1, 0, 65536),
                       "headmix: randomness: module: expected a number below 65536, found 65536", Error);
}
TEST_CASE("random streams: no two draws of a seed share a block of Philox") {
  using Counter = std::array<std::uint32_t, 4>;
  std::map<Counter, std::string> seen;
  auto const add = [&](Random const& random, std::uint64_t seed, std::string const& what) {
    for (std::uint64_t const n : {0ULL, 1ULL, 2ULL, 1ULL << 24, 1ULL << 57, (1ULL << 58) - 1}) {
      philox_block const b = random.block(n);
      auto const added = seen.insert({{b.word[0], b.word[1], b.word[2], b.word[3]}, what});
      CAPTURE(seed);
      CAPTURE(n);
      CAPTURE(what);
      CAPTURE(added.first->second);
      CHECK(added.second);
    }
  };
  std::uint32_t const numbers[] = {0, 1, 2, 3, 4, 5, 256, 65535}, steps[] = {0, 1, 2, 0xFFFFFFFF};
  // The counter is a bijection of its inputs; these are the inputs in use.
  for (std::uint64_t const seed : {0U, 7U}) {
    for (std::uint32_t s = 0; s < static_cast<std::uint32_t>(random_stream::gating_noise); ++s) {
      for (auto const number : numbers) {
        add(Random(seed, number, static_cast<random_stream>(s)), seed, message("purpose ", s, ", number ", number));
      }
    }
    for (std::uint32_t s = static_cast<std::uint32_t>(random_stream::gating_noise); s < random_streams; ++s) {
      for (auto const step : steps) {
        for (auto const module : {0U, 1U, 65535U}) {
          for (auto const use : {0U, 1U, 65535U}) {
            auto const r = randomness(seed, step, module).of_use(use);
            add(random_stream_of(r.word, static_cast<random_stream>(s)), seed,
                message("purpose ", s, ", step ", step, ", module ", module, ", use ", use));
          }
        }
      }
    }
  }
  // Seeds from names are not words of a program's own streams.
  std::uint64_t hash = detail::fnv1a_basis;
  for (char const c : std::string("0.attn")) hash = detail::fnv1a(hash, static_cast<unsigned char>(c));
  auto const b = Random(7, 0x6e616d65).block(hash);
  CHECK(named_seed(7, "0.attn") != (std::uint64_t{b.word[0]} << 32 | b.word[1]));
}
TEST_CASE("random streams: stochastic rounding rounds by words of its own") {
  // Adds half of the distance between two bfloat16 numbers: rounded up or not.
  auto const rounds = [](std::uint64_t seed, std::vector<std::string_view> const& names, auto make) {
    std::vector<Drawn> all;
    std::vector<std::vector<bfloat16>> w(names.size(), std::vector<bfloat16>(512, bfloat16(1.F))),
        g(names.size(), std::vector<bfloat16>(512, bfloat16(-1.F)));
    std::vector<parameter<bfloat16>> parameters;
    for (std::size_t i = 0; i < names.size(); ++i) {
      parameters.push_back({names[i], view<bfloat16>(w[i].data(), 16, 32), view<bfloat16>(g[i].data(), 16, 32)});
    }
    auto optimiser = make(parameters, seed);
    for (int step = 0; step < 3; ++step) {
      for (auto& v : w) std::fill(v.begin(), v.end(), bfloat16(1.F));
      optimiser.step(0x1p-8);  // half of 2^-7
      for (std::size_t i = 0; i < names.size(); ++i) {
        Bits bits;
        for (auto const x : w[i]) bits.push_back(static_cast<float>(x) > 1.F);
        all.push_back({std::string(names[i]) + " at step " + std::to_string(step), bits});
      }
    }
    return all;
  };
  auto const sgd = [](std::vector<parameter<bfloat16>> p, std::uint64_t seed) {
    return Sgd<bfloat16>(std::move(p), {.narrow = narrow_parameters::stochastic_rounding, .seed = seed});
  };
  auto all = draws_of<MultiHead<16, 4, 8, causal, output_dropout<1, 2>>>(7, 6);
  auto const first = rounds(7, {"W_k", "W_q"}, sgd), second = rounds(7, {"W_v"}, sgd), third = rounds(7, {"W_q"}, sgd),
             twice = rounds(7, {"W_1", "W_1"}, sgd);
  all.insert(all.end(), first.begin(), first.end());
  all.insert(all.end(), second.begin(), second.end());  // from another optimiser with the same seed
  all.insert(all.end(), twice.begin(), twice.end());    // from two modules
  check_independent(all);
  // The rounding of a parameter does not depend on the other parameters of the optimiser.
  for (std::size_t step = 0; step < 3; ++step) CHECK(first[2 * step + 1].bits == third[step].bits);
}
TEST_CASE("random streams: parts of a parameter are rounded as the whole is") {
  Index const count = 3, rows = 5, cols = 6;
  std::vector<bfloat16> const g(90, bfloat16(-1.F));
  auto const rounded = [&](parameter<bfloat16> p, std::vector<bfloat16>& w) {
    w.assign(90, bfloat16(1.F));
    std::vector<bfloat16> gradient = g;
    p.value.data = w.data(), p.gradient = p.value, p.gradient.data = gradient.data();
    Sgd<bfloat16> optimiser({p}, {.narrow = narrow_parameters::stochastic_rounding, .seed = 3});
    optimiser.step(0x1p-8);
  };
  std::vector<bfloat16> whole, part;
  rounded({"W", view<bfloat16>(nullptr, count, rows, cols), {}}, whole);
  CHECK(std::count(whole.begin(), whole.end(), bfloat16(1.F)) > 20);
  CHECK(std::count(whole.begin(), whole.end(), bfloat16(1.F)) < 70);
  // Matrices 1 .. 2, rows 2 .. 3, columns 1 .. 4.
  parameter<bfloat16> p{"W", view<bfloat16>(nullptr, 2, 2, 4), {}};
  p.part = {true, {1, 2, 1}, {count, rows, cols}};
  rounded(p, part);
  for (Index e = 0; e < 2; ++e) {
    for (Index i = 0; i < 2; ++i) {
      for (Index j = 0; j < 4; ++j) {
        auto const here = static_cast<std::size_t>((e * 2 + i) * 4 + j);
        CHECK(part[here] == whole[static_cast<std::size_t>(p.part.number(e, i, j))]);
      }
    }
  }
}

}  // namespace random_streams_test
