// SPDX-License-Identifier: MIT
// Numbers of parameters and multiply-accumulates of layers against the papers' equations. Their tables: papers.cpp.

#include "headmix/count/count.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"

namespace static_counts {

using namespace headmix;

namespace {

// ---- equations (18) to (20) ----

template <Index T, Index K, Index E, Index D, Index H>
constexpr bool moa_equations() {
  using layer = Moa<D, H, SoftmaxTopK<E, K>>;
  constexpr Index attention_term = K * T * T * H, router = T * D * E;
  constexpr Index equation_18 = attention_term + 2 * (K + 1) * T * H * D, equation_20 = (2 * E + 2) * H * D;
  return count_macs<layer>(at<tokens>(T)) == equation_18 + attention_term + router &&
         count_macs<layer>({.router = false}, at<tokens>(T)) == equation_18 + attention_term &&
         count_macs<layer>({.attention_term = false}, at<tokens>(T)) == equation_18 - attention_term + router &&
         count_macs<layer>({.router = false, .attention_term = false}, at<tokens>(T)) == equation_18 - attention_term &&
         count_parameters<layer>() == equation_20 + D * E && count_parameters<layer>({.router = false}) == equation_20;
}
static_assert(moa_equations<128, 8, 32, 512, 256>() && moa_equations<3, 1, 1, 7, 5>() &&
              moa_equations<0, 2, 4, 8, 4>());

// Appendix B: E experts have 1/2 + 1/(2 E) of the parameters of multi-head attention with E heads, d = E d_h.
template <Index E, Index H>
constexpr bool moa_share = 2 * E* count_parameters<Moa<E * H, H, SoftmaxTopK<E, 1>>>({.router = false}) ==
                           (E + 1) * count_parameters<MultiHead<E * H, E, H>>();
static_assert(moa_share<8, 64> && moa_share<1, 8> && moa_share<32, 4>);

template <Index T, Index Heads, Index H>
constexpr bool multi_head_equations() {
  constexpr Index D = Heads * H;
  using layer = MultiHead<D, Heads, H>;
  return count_macs<layer>(at<tokens>(T)) == 4 * T * D * D + 2 * T * T * D &&
         count_macs<layer>({.attention_term = false}, at<tokens>(T)) == 4 * T * D * D &&
         count_parameters<layer>() == 4 * D * D;
}
static_assert(multi_head_equations<10, 8, 64>() && multi_head_equations<7, 1, 3>());

/// Parameters of a layer's router: d (h - shared_heads), 2 d for the groups, and shared_heads d for two or more shared
/// heads.
template <Index D, Index Shared, Index Routed, Index TopK>
constexpr Index router_parameters = count_parameters<Moh<D, 4, TwoStage<Shared, Routed, TopK>>>() -
                                    count_parameters<Moh<D, 4, TwoStage<Shared, Routed, TopK>>>({.router = false});
static_assert(router_parameters<12, 2, 4, 2> == 12 * (4 + 2 + 2) && router_parameters<12, 1, 5, 2> == 12 * (5 + 2));
static_assert(router_parameters<12, 0, 6, 3> == 12 * 6 && router_parameters<12, 6, 0, 0> == 12 * 6);
static_assert(router_parameters<12, 1, 0, 0> == 0);
static_assert(count_parameters<Moh<12, 4, QueryNorm<3, 3, 2>>>() == count_parameters<MultiHead<12, 6, 4>>());
static_assert(count_parameters<Moh<12, 4, TwoStage<2, 4, 2>>>({.router = false}) ==
              count_parameters<MultiHead<12, 6, 4>>());

// Score maps cost no products.
using mapped = MultiHead<64, 4, 16, causal, alibi, soft_cap<30>>;
using unmapped = MultiHead<64, 4, 16, causal>;
static_assert(count_macs<mapped>(at<tokens>(10)) == count_macs<unmapped>(at<tokens>(10)) &&
              count_parameters<mapped>() == count_parameters<unmapped>());

}  // namespace

}  // namespace static_counts
