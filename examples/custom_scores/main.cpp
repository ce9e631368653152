// SPDX-License-Identifier: MIT
// Three custom score maps: pointwise expressions of the score, the positions and the head, applied before the softmax
// of attention. The library derives the gradients, and stores no matrix of tokens x tokens.

#include <headmix/headmix.hpp>

#include "../common.hpp"

using namespace headmix;

/// ALiBi (Press et al. 2022): head i of h subtracts 2^(-8 (i + 1) / h) |t - s|.
struct alibi_by_hand : score_map {
  static constexpr auto f(auto s, auto heads) {
    auto const slope = exp(-5.545177_n * (head_index{} + 1_n) / value_of<decltype(heads)>{});
    return s - slope * abs(query_position{} - key_position{});  // 8 ln 2 = 5.545177
  }
};

/// Scores stay between -30 and 30 (Gemma 2).
struct cap_at_30 : score_map {
  static constexpr auto f(auto s) { return 30_n * tanh(s / 30_n); }
};

/// A learned factor for each head.
struct learned_scale : score_map {
  template <Extent Heads>
  struct scale : param<Heads> {
    using initializer = ones;
  };
  static constexpr auto f(auto s, auto heads) { return s * scale<decltype(heads)>{}; }
};

/// Multi-head attention of 12 columns with 4 heads; maps are applied in their order.
template <ScoreMap... Maps>
using Layer = MultiHead<12, 4, 3, causal, Maps...>;

/// y of the last of 64 tokens, which sees all of them.
template <class L>
void print(char const* name) {
  Module<L, Cpu<float>> m(/*seed*/ 1);
  auto const x = example::random_numbers(64 * 12);
  auto const y = m.forward({x.data(), 64, 12});
  std::printf("%-16s y of the last token:", name);
  for (Index j = 0; j < 6; ++j) std::printf(" %6.3f", static_cast<double>(y(63, j)));
  std::puts(" ...");
}

int main() {
  bool const alibi = example::gradients_agree("alibi_by_hand", Layer<alibi_by_hand>::y);
  bool const cap = example::gradients_agree("cap_at_30", Layer<cap_at_30>::y);
  bool const scale = example::gradients_agree("learned_scale", Layer<learned_scale>::y);
  bool const all = example::gradients_agree("all three", Layer<learned_scale, alibi_by_hand, cap_at_30>::y);
  print<Layer<>>("no map");
  print<Layer<alibi_by_hand>>("alibi_by_hand");
  print<Layer<cap_at_30>>("cap_at_30");
  print<Layer<alibi_by_hand, cap_at_30>>("both");
  return alibi && cap && scale && all ? 0 : 1;
}
