// SPDX-License-Identifier: MIT
// A decoder on the emulated GPU: sequences of different lengths, beams that copy a page, rewinding; compared with rows
// of whole sequences on the reference.

#include "headmix/decode/decoder.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include "decode/networks.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;

TEST_CASE("cuda, emulated: a decoder") {
  using Gpu = Cuda<float, Emulated>;
  using L = headmix::test::AllKinds;
  Module<L, Reference<float>, inference> whole(1);
  Module<L, Gpu, inference> weights(uninitialized{});
  Decoder<L, Gpu> decoder({.sequences = 3, .tokens = 70, .page = 32}, share_parameters{}, weights);
  for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
    auto const& p = whole.parameters()[i];
    for (Index e = 0; e < p.value.size(); ++e)
      p.value.data[e] = static_cast<float>(0.5 * Random(4, i).normal(static_cast<std::uint64_t>(e)));
    upload(weights.backend(), weights.parameters()[i].value.data, p.value.data,
           static_cast<std::size_t>(p.value.size()));
  }
  std::array<std::vector<float>, 3> text;  // the rows of each sequence so far
  std::uint64_t token = 0;
  backend_memory<Gpu> x_there(120 * 8 * sizeof(float));
  auto const bring = [&](std::vector<Int> const& offsets) {
    std::vector<float> x;
    for (Index i = 0; i < 8 * Index{offsets.back()}; ++i) x.push_back(static_cast<float>(Random(5).normal(token++)));
    upload(weights.backend(), x_there.as<float>(), x.data(), x.size());
    auto const sequences = static_cast<Index>(offsets.size()) - 1;
    auto const there = decoder.prefill({x_there.as<float>(), offsets.back(), 8}, ragged(offsets.data(), sequences));
    std::vector<float> y(x.size());
    download(weights.backend(), y.data(), there.data, y.size());
    for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
      text[b].insert(text[b].end(), x.begin() + 8 * offsets[b], x.begin() + 8 * offsets[b + 1]);
      auto const n = static_cast<Index>(text[b].size()) / 8;
      if (n == 0) continue;
      auto const expected = whole.forward({text[b].data(), n, 8});
      Index const behind = 8 * (n - (offsets[b + 1] - offsets[b]));
      for (Index i = behind; i < 8 * n; ++i) {
        float const found = y[static_cast<std::size_t>(8 * offsets[b] + i - behind)];
        REQUIRE(std::abs(found - expected.data[i]) < 1e-3f * (1 + std::abs(expected.data[i])));
      }
    }
  };
  bring({0, 3, 3, 40});
  bring({0, 1, 2, 3});
  std::array<Index, 3> const beams{2, 2, 0};
  decoder.reorder(beams);
  text = {text[2], text[2], text[0]};
  bring({0, 1, 2, 3});
  decoder.rewind(0, 20);
  text[0].resize(20 * 8);
  bring({0, 2, 3, 3});
}

namespace {
struct OverContext {
  using Cross = Moa<8, 4, SoftmaxTopK<4, 2>, context_dim<8>, kv_heads<2>>;
  struct x : input<tokens, size<8>> {};
  struct context : input<context_tokens, size<8>> {};
  static constexpr auto self = use<MultiHead<8, 2, 4, causal>, "self">(x{});
  struct h : let<decltype(x{} + self.y)> {};
  static constexpr auto cross = use<Cross, "cross">(h{}, context{});
  static constexpr auto y = h{} + cross.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace

TEST_CASE("cuda, emulated: a decoder with a context, which comes without tokens") {
  using Gpu = Cuda<float, Emulated>;
  Module<OverContext, Reference<float>, inference> whole(1);
  Module<OverContext, Gpu, inference> weights(1);
  Decoder<OverContext, Gpu> decoder({.sequences = 2, .tokens = 4, .page = 32, .context = 50}, share_parameters{},
                                    weights);
  std::vector<float> x(2 * 4 * 8), context(2 * 20 * 8), step(2 * 8);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(Random(2).normal(i));
  for (std::size_t i = 0; i < context.size(); ++i) context[i] = static_cast<float>(Random(3).normal(i));
  auto const expected = whole.forward({x.data(), 8, 8}, uniform(2, 4), {context.data(), 40, 8}, uniform(2, 20));
  backend_memory<Gpu> x_there(step.size() * sizeof(float)), context_there(context.size() * sizeof(float));
  upload(weights.backend(), context_there.as<float>(), context.data(), context.size());
  decoder.prefill({x_there.as<float>(), 0, 8}, uniform(2, 0), {context_there.as<float>(), 40, 8}, uniform(2, 20));
  for (Index t = 0; t < 4; ++t) {
    for (Index b = 0; b < 2; ++b) std::copy_n(x.data() + (4 * b + t) * 8, 8, step.data() + 8 * b);
    upload(weights.backend(), x_there.as<float>(), step.data(), step.size());
    auto const y = decoder.step({x_there.as<float>(), 2, 8});
    download(weights.backend(), step.data(), y.data, step.size());
    for (Index i = 0; i < 16; ++i) {
      REQUIRE(std::abs(step[static_cast<std::size_t>(i)] - expected(4 * (i / 8) + t, i % 8)) < 1e-4f);
    }
  }
}
