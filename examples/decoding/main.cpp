// SPDX-License-Identifier: MIT
// Generation: a decoder keeps the keys and values of earlier tokens, so that a step computes one token of each
// sequence. Two prompts of different lengths are read and continued, and the second is split into two beams. The
// results equal those of whole passes.

#include <algorithm>
#include <cmath>
#include <headmix/headmix.hpp>

#include "../common.hpp"

using namespace headmix;

namespace {

constexpr Index width = 64;
struct Network {
  using Heads = Moa<width, 32, SoftmaxTopK<8, 2>, causal, rope<>>;
  struct x : input<tokens, size<width>> {};
  static constexpr auto layers = repeat<4, Heads, "layers">(x{});
  static constexpr auto y = layers.y;
  using losses = type_list<>;
  using observed = type_list<>;
};

}  // namespace

int main() {
  Module<Network, Cpu<float>, inference> trained(/*seed*/ 1);
  Decoder<Network, Cpu<float>> decoder({.sequences = 3, .tokens = 1024, .page = 64}, share_parameters{}, trained);
  auto const text = example::random_numbers(1000 * width);
  auto const rows = [&](Index first, Index n) { return view<float const>(text.data() + first * width, n, width); };

  decoder.reorder(std::array{Index{-1}, Index{-1}});  // two new sequences
  Int const prompts[] = {0, 100, 350};                // of 100 and 250 tokens
  decoder.prefill(rows(0, 350), ragged(prompts, 2));
  for (Index i = 0; i < 20; ++i) decoder.step(rows(350 + 2 * i, 2));
  decoder.reorder(std::array{Index{0}, Index{1}, Index{1}});  // beams share their pages until they write
  auto const y = decoder.step(rows(390, 3));

  std::vector<float> second(text.begin() + 100 * width, text.begin() + 350 * width);  // the last beam
  for (Index i = 0; i <= 20; ++i) {
    auto const x = rows(i < 20 ? 351 + 2 * i : 392, 1);
    second.insert(second.end(), x.data, x.data + width);
  }
  auto const whole = trained.forward({second.data(), 271, width});
  float worst = 0, largest = 0;
  for (Index j = 0; j < width; ++j) {
    worst = std::max(worst, std::abs(y(2, j) - whole(270, j)));
    largest = std::max(largest, std::abs(whole(270, j)));
  }
  std::printf("%td sequences of %td, %td and %td tokens in %zu KiB; difference from a whole pass %.1e\n",
              decoder.sequences(), decoder.length(0), decoder.length(1), decoder.length(2),
              decoder.cache_bytes() / 1024, static_cast<double>(worst / largest));
  return worst < 1e-4f * largest ? 0 : 1;
}
