// SPDX-License-Identifier: MIT
// The warpgroup kernels, with their tiles. HGMMAs of attention: the first product of scores, a round of the main loop,
// the last product of probabilities; 8 for each product with 128 columns or keys, 4 for scores of heads of 64. HGMMAs
// of its gradients and of products with experts, including hidden layers: a round.
// expect: attention_warpgroups<full,no_score_map,128, HGMMA=32 UTMALDG=4 USETMAXREG=2 LDGSTS
// expect: attention_warpgroups<causal,no_score_map,128, HGMMA=32 UTMALDG=4 USETMAXREG=2 LDGSTS
// expect: attention_warpgroups<causal,lowered_score_map HGMMA UTMALDG USETMAXREG=2 LDGSTS
// expect: attention_warpgroups<full,no_score_map,64, HGMMA=24 UTMALDG=2 USETMAXREG=2 LDGSTS
// expect: attention_query_gradient_warpgroups<full,no_score_map,128, HGMMA=24 UTMALDG=4 USETMAXREG=2 LDGSTS
// expect: attention_query_gradient_warpgroups<causal,no_score_map,128, HGMMA=24 UTMALDG=4 USETMAXREG=2 LDGSTS
// expect: attention_query_gradient_warpgroups<full,no_score_map,64, HGMMA=16 UTMALDG=2 USETMAXREG=2 LDGSTS
// expect: attention_key_gradient_warpgroups<full,no_score_map,128, HGMMA=24 UTMALDG=4 USETMAXREG=2 LDGSTS
// expect: attention_key_gradient_warpgroups<causal,no_score_map,128, HGMMA=24 UTMALDG=4 USETMAXREG=2 LDGSTS
// expect: attention_key_gradient_warpgroups<full,no_score_map,64, HGMMA=16 UTMALDG=2 USETMAXREG=2 LDGSTS
// expect: grouped_gemm_warpgroups<128,false, HGMMA=8 UTMALDG=2 USETMAXREG=2 LDGSTS
// expect: grouped_gemm_warpgroups<128,true, HGMMA=8 UTMALDG=1 USETMAXREG=2 LDGSTS
// expect: grouped_gemm_warpgroups<64,false, HGMMA=8 UTMALDG=1 USETMAXREG=2 LDGSTS
// expect: grouped_gemm_warpgroups<64,true, HGMMA=8 UTMALDG=1 USETMAXREG=2 LDGSTS
// expect: grouped_gemm_warpgroups<128,true,tensor_map,store_epilogue,2> HGMMA=8 UTMALDG=1 USETMAXREG=2 LDGSTS
// expect: grouped_gemm_resident_warpgroups<false, HGMMA=8 UTMALDG=2 USETMAXREG=2 LDGSTS
// expect: grouped_gemm_resident_warpgroups<true, HGMMA=8 UTMALDG=1 USETMAXREG=2 LDGSTS
// expect: grouped_outer_warpgroups<true> HGMMA=8 USETMAXREG=2 LDGSTS
// expect: grouped_outer_warpgroups<false> HGMMA=8 USETMAXREG=2 LDGSTS
// expect: ring_product HGMMA=8 UTMALDG=3 USETMAXREG=3 LDGSTS
// budget: 29.7 0 0 attention_warpgroups<full, no_score_map, 128,
// budget: 29.7 0 0 attention_warpgroups<causal, no_score_map, 128,
// budget: 38.0 0 0 attention_warpgroups<full, no_score_map, 64,
// budget: 232.0 0 0.34 attention_warpgroups<causal, lowered_score_map<
// budget: 21.1 0 0.17 attention_query_gradient_warpgroups<full, no_score_map, 128,
// budget: 21.1 0 0.17 attention_query_gradient_warpgroups<causal, no_score_map, 128,
// budget: 28.1 0 0.25 attention_query_gradient_warpgroups<full, no_score_map, 64,
// budget: 14.1 0 1.38 attention_key_gradient_warpgroups<full, no_score_map, 128,
// budget: 14.1 0 1.38 attention_key_gradient_warpgroups<causal, no_score_map, 128,
// budget: 18.9 0 2.07 attention_key_gradient_warpgroups<full, no_score_map, 64,
// budget: 11.5 0 0 grouped_gemm_warpgroups<
// budget: 13.0 0 0 grouped_gemm_resident_warpgroups<
// budget: 8.0 0 0 grouped_outer_warpgroups<
// budget: 9.7 0 0 ring_product
#include "cuda/ring_product.hpp"
#include "gate.cuh"
#include "headmix/backend/cuda/kernel/attention/key_gradient_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/attention/query_gradient_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/attention/warpgroups.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_gemm_resident_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_outer_warpgroups.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/layer/scores.hpp"

template <class Mask, int width>
using attention =
    headmix::cuda_kernels::attention_warpgroups<Mask, headmix::no_score_map, width, headmix::cuda_kernels::tensor_map>;
using attention_128 = attention<headmix::full, 128>;
using causal_attention_128 = attention<headmix::causal, 128>;
using attention_64 = attention<headmix::full, 64>;
struct cap : headmix::param<headmix::size<1>> {};
struct learned_cap : headmix::score_map {
  static constexpr auto f(auto s) { return cap{} * tanh(s / cap{}); }
};
template <int width, class... M>
using mapped = headmix::cuda_kernels::attention_warpgroups<
    headmix::causal,
    typename headmix::detail::lowered_scores<decltype(headmix::detail::map_score<headmix::size<8>, M...>(
        headmix::detail::score_before{}))>::map,
    width, headmix::cuda_kernels::tensor_map>;
using capped_128 = mapped<128, headmix::soft_cap<30>>;
using alibi_128 = mapped<128, headmix::alibi>;
using learned_64 = mapped<64, headmix::alibi, learned_cap>;
template <class Mask, int width>
using query_gradient = headmix::cuda_kernels::attention_query_gradient_warpgroups<Mask, headmix::no_score_map, width,
                                                                                  headmix::cuda_kernels::tensor_map>;
using query_gradient_128 = query_gradient<headmix::full, 128>;
using causal_query_gradient_128 = query_gradient<headmix::causal, 128>;
using query_gradient_64 = query_gradient<headmix::full, 64>;
template <class Mask, int width>
using key_gradient = headmix::cuda_kernels::attention_key_gradient_warpgroups<Mask, headmix::no_score_map, width,
                                                                              headmix::cuda_kernels::tensor_map>;
using key_gradient_128 = key_gradient<headmix::full, 128>;
using causal_key_gradient_128 = key_gradient<headmix::causal, 128>;
using key_gradient_64 = key_gradient<headmix::full, 64>;
template <int columns, bool transposed>
using products = headmix::cuda_kernels::grouped_gemm_warpgroups<columns, transposed, headmix::cuda_kernels::tensor_map>;
using products_128 = products<128, false>;
using products_128_transposed = products<128, true>;
using products_64 = products<64, false>;
using products_64_transposed = products<64, true>;
template <bool transposed>
using pair = headmix::cuda_kernels::grouped_gemm_warpgroups<128, transposed, headmix::cuda_kernels::tensor_map,
                                                            headmix::cuda_kernels::store_epilogue, 2>;
template <class... A>
using times = headmix::tree_node<float, headmix::ops::multiply, A...>;
/// gate p_0 silu(p_1), as FeedForward has it.
using swiglu = headmix::tree_node<
    float, headmix::ops::round_to_storage,
    times<headmix::tree_leaf<float, false, true>,
          times<headmix::tree_product<0>, headmix::tree_node<float, headmix::ops::silu, headmix::tree_product<1>>>>>;
using swiglu_of_products = headmix::cuda_kernels::map_epilogue<2, swiglu>;
using hidden =
    headmix::cuda_kernels::grouped_gemm_warpgroups<128, false, headmix::cuda_kernels::tensor_map, swiglu_of_products>;
template <bool transposed, class Output = headmix::cuda_kernels::store_epilogue>
using resident =
    headmix::cuda_kernels::grouped_gemm_resident_warpgroups<transposed, headmix::cuda_kernels::tensor_map, Output>;
using resident_hidden = resident<false, swiglu_of_products>;
using outer = headmix::cuda_kernels::grouped_outer_warpgroups<true>;
using outer_of_few_rows = headmix::cuda_kernels::grouped_outer_warpgroups<false>;
using ring = headmix::testing::ring_product<headmix::cuda_kernels::tensor_map>;
HEADMIX_GATE(attention_128)
HEADMIX_GATE(causal_attention_128)
HEADMIX_GATE(attention_64)
HEADMIX_GATE(capped_128)
HEADMIX_GATE(alibi_128)
HEADMIX_GATE(learned_64)
HEADMIX_GATE(query_gradient_128)
HEADMIX_GATE(causal_query_gradient_128)
HEADMIX_GATE(query_gradient_64)
HEADMIX_GATE(key_gradient_128)
HEADMIX_GATE(causal_key_gradient_128)
HEADMIX_GATE(key_gradient_64)
HEADMIX_GATE(products_128)
HEADMIX_GATE(products_128_transposed)
HEADMIX_GATE(products_64)
HEADMIX_GATE(products_64_transposed)
HEADMIX_GATE(pair<false>)
HEADMIX_GATE(pair<true>)
HEADMIX_GATE(hidden)
HEADMIX_GATE(resident<false>)
HEADMIX_GATE(resident<true>)
HEADMIX_GATE(resident_hidden)
HEADMIX_GATE(outer)
HEADMIX_GATE(outer_of_few_rows)
HEADMIX_GATE(ring)
