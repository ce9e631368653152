// SPDX-License-Identifier: MIT
// Equal cost as defined by Huang et al. 2024; papers.cpp counts the layers of their experiments. Where the paper's
// numbers do not follow from its equations, the equations are right.

#include "headmix/count/parity.hpp"

#include "headmix/count/count.hpp"
#include "headmix/layer/papers.hpp"

namespace static_parity {

using namespace headmix;

namespace {

constexpr bool exactly(ratio found, Index expected) { return found.numerator == expected * found.denominator; }

// ---- equations (5) to (10), two matrices in an expert ----

/// a d^2 - b d for some widths; `flops(d)` is the number for one token.
template <class F>
constexpr bool is_quadratic(F flops, Index a, Index b) {
  for (Index d = 12; d <= 48; d += 12) {
    if (flops(d) != a * d * d - b * d) return false;
  }
  return true;
}
constexpr Index E = 8;
constexpr auto smoe_of = [](Index d) { return expert_sizes{.hidden = 4 * d, .experts = E, .matrices = 2}; };
static_assert(is_quadratic([](Index d) { return smoe_flops(d, smoe_of(d)); }, 16, 5));

// (10): three sub-tokens, k = 1.
static_assert(exactly(parity_hidden(96, smoe_of(96), 1), 3 * 96));
static_assert(exactly(parity_experts(96, smoe_of(96), 3, 3 * 96), 4 * E - 1));
constexpr auto mh_moe = [](Index split, Index top_k, Index hidden) {
  return expert_sizes{.hidden = hidden, .experts = split, .top_k = top_k, .matrices = 2};
};
static_assert(is_quadratic([](Index d) { return mh_moe_flops(d, 3, mh_moe(3, 1, 3 * d)); }, 16, 12));
// (6) written out, with the experts of k of h sub-tokens.
static_assert([] {
  Index const d = 24, h = 4, k = 2, f = 36;
  return mh_moe_flops(d, h, mh_moe(h, k, f)) == 2 * (2 * d * d - d) + (4 * d * f - d - f * h) * k;
}());
// The paper's examples; it prints -75/4 and -6.
static_assert(is_quadratic([](Index d) { return mh_moe_flops(d, 4, mh_moe(4, 1, 63 * d / 4)); }, 67, 66));
static_assert(is_quadratic([](Index d) { return mh_moe_flops(d, 2, mh_moe(2, 1, 3 * d)); }, 16, 9));

// ---- rounding ----

static_assert(ratio{124, 3}.nearest() == 41 && ratio{124, 3}.nearest(8) == 40 && ratio{93, 1}.nearest(8) == 96);
static_assert(ratio{5, 2}.nearest() == 3 && ratio{7, 3}.nearest() == 2 && ratio{4, 1}.nearest(8) == 8);
static_assert(ratio{3, 4}.value() == 0.75);

// ---- the experiments: d = 768, SwiGLU, 8 experts of width 2048 ----

constexpr Index d = 768;
constexpr expert_sizes sparse = {.hidden = 2048, .experts = 8};
static_assert(exactly(parity_hidden(d, sparse, 2), 768) && exactly(parity_hidden(d, sparse, 3), 512));
// 41 1/3, in the paper 40; 93, in the paper 96. Both are the nearest multiple of 8.
static_assert(exactly({3 * parity_experts(d, sparse, 2, 768).numerator, parity_experts(d, sparse, 2, 768).denominator},
                      124));
static_assert(parity_experts(d, sparse, 2, 768).nearest(8) == 40);
static_assert(exactly(parity_experts(d, sparse, 3, 512), 93) && parity_experts(d, sparse, 3, 512).nearest(8) == 96);
// The paper's fine-grained mixture, top-2 of 16 experts of half the width, has equal cost.
constexpr expert_sizes fine_grained = {.hidden = 1024, .experts = 16, .top_k = 2};
static_assert(exactly(parity_hidden(d, fine_grained, 3), 512) && exactly(parity_experts(d, fine_grained, 3, 512), 93));

using papers::mh_moe::router;
using smoe = papers::mh_moe::smoe<>;
template <class... Options>
using two = papers::mh_moe::two_heads<weights::real, Options...>;
template <class... Options>
using three = papers::mh_moe::three_heads<weights::real, Options...>;
using exact_three = MhMoe<d, 3, router<93, 3>, FeedForward<512>>;

/// Multiply-adds of one token, without the router.
template <class L>
constexpr Index products = count_macs<L>({.router = false}, at<tokens>(1));
template <class L>
constexpr Index weights_of = count_parameters<L>({.router = false});
static_assert(weights_of<exact_three> == weights_of<smoe>);

// The router, which the paper leaves out: d E products for any h, and d E / h parameters.
template <class L>
constexpr Index router_products = count_macs<L>(at<tokens>(1)) - products<L>;
template <class L>
constexpr Index router_weights = count_parameters<L>() - weights_of<L>;
static_assert(router_products<smoe> == 6'144 && router_products<two<>> == 30'720 && router_products<three<>> == 73'728);
static_assert(router_weights<smoe> == 6'144 && router_weights<two<>> == 15'360 && router_weights<three<>> == 24'576);

// The number of products is half of the equations' number, whose sums are one fewer for each number of a result: d each
// for head and merge, and 2 d_moe plus a row for every chosen expert.
static_assert(mh_moe_flops(d, 3, {.hidden = 512, .experts = 96, .top_k = 3}) ==
              2 * products<three<>> - 2 * d - 3 * 3 * (2 * 512 + d / 3));
static_assert(smoe_flops(d, sparse) == 2 * products<smoe> - (2 * 2048 + d));

// ---- terms that options add; ternary weights add none ----

using shared = shared_expert<FeedForward<2048>>;
static_assert(products<three<shared>> == products<three<>> + 3 * d * 2048);
static_assert(weights_of<three<shared>> == weights_of<three<>> + 3 * d * 2048);
static_assert(products<three<no_head>> == products<three<>> - d * d &&
              weights_of<two<no_merge>> == weights_of<two<>> - d * d);
static_assert(products<three<head_bias, merge_bias>> == products<three<>>);
static_assert(weights_of<three<head_bias, merge_bias>> == weights_of<three<>> + 2 * d);
static_assert(weights_of<two<output_bias>> == weights_of<two<>> + d);
static_assert(count_parameters<three<head_bias, merge_bias>>({.bias = false}) == count_parameters<three<>>());
static_assert(count_macs<two<capacity<1>>>(at<tokens>(5)) == count_macs<two<>>(at<tokens>(5)));

template <class W>
using in_weights = MhMoe<d, 3, router<96, 3>, FeedForward<512, W>, shared_expert<FeedForward<2048, W>>>;
static_assert(products<in_weights<weights::ternary>> == products<three<shared>>);
static_assert(products<in_weights<weights::packed>> == products<three<shared>>);
static_assert(count_parameters<in_weights<weights::packed>>() == count_parameters<three<shared>>());
// One choice fewer saves products, not parameters.
using two_of_three = MhMoe<d, 3, router<96, 2>, FeedForward<512>>;
static_assert(products<three<>> - products<two_of_three> == 3 * d * 512);
static_assert(count_parameters<three<>>() == count_parameters<two_of_three>());

}  // namespace

}  // namespace static_parity
