#pragma once
// SPDX-License-Identifier: MIT
// Quantisation to 8-bit activations and ternary weights (BitNet b1.58), in two forms: rounded numbers in the backend's
// Scalar, with straight-through gradient, and weights packed into two bits for inference.

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/ternary.hpp"
#include "headmix/expr/expert.hpp"

namespace headmix {
namespace ops {

/// A rounding whose gradient is that of the identity.
struct rounding : operation {
  static constexpr bool estimates_gradient = true;
  static constexpr auto vjp(auto dy, auto, auto) { return grads(dy); }
};

/// Each row x becomes clamp(round(x s), -128, 127) / s with s = 127 / max(max_j |x_j|, 1e-5). A NaN stays NaN; a row
/// with an infinity becomes NaN.
struct absmax_int8 : rounding {
  template <class A>
  using shape_of = shape<rows<A>, cols<A>>;
  static void eval(auto const& run, auto y, auto a) { run.backend.absmax_int8(y, a); }
};

/// Each matrix W becomes clamp(round(W s), -1, 1) / s with s = 1 / max(mean |W|, 1e-5). A matrix with a non-finite
/// number becomes NaN.
struct absmean_ternary : rounding {
  static constexpr bool takes_stacks = true;
  template <class A>
  using shape_of = shape<rows<A>, cols<A>, count<A>>;
  static void eval(auto const& run, auto y, auto a) { run.backend.absmean_ternary(y, a); }
};

struct packed_product : operation {
  static constexpr bool takes_stacks = true;
  static constexpr bool needs_scratch = true;
  static constexpr bool differentiable = false;
  template <class...>
  static constexpr kind kind_of = kind::real;
  /// A compile error on backends without packed products.
  template <class Run>
  static constexpr void require_backend(Run const&) {
    static_assert(PackedGemm<typename Run::backend_type>,
                  "headmix: this backend has no products with packed weights; ternary weights that are not packed give "
                  "the same numbers");
  }
};

/// y_s = x_{s / SlotsPerRow} W_e, W_e packed; zero for a slot without expert.
template <class SlotsPerRow, class E, class Out>
struct packed_expert_linear : packed_product {
  template <class X, class W, class Perm, class Offsets>
  using shape_of = shape<times<SlotsPerRow, rows<X>>, Out>;
  template <class X, class W, class Perm, class Offsets>
  using checks =
      type_list<equal<count_of<X>, extent_value<size<1>>>, equal<cols_of<W>, extent_value<packed_words<cols<X>, Out>>>,
                equal<count_of<W>, extent_value<E>>, equal<extent_value<times<SlotsPerRow, rows<X>>>, cols_of<Perm>>>;
  static std::size_t scratch(auto const& run, auto y, auto x, auto w, auto, auto) {
    packed_product::require_backend(run);
    return run.backend.packed_gemm_scratch(y, x, w);
  }
  static void eval(auto const& run, auto y, auto x, auto w, auto perm, auto offsets) {
    run.backend.packed_gemm(y, x, w, perm, offsets, run.template extent<SlotsPerRow>(), run.scratch);
  }
};

/// y = x W, W packed.
template <class Out>
struct packed_linear : packed_product {
  template <class X, class W>
  using shape_of = shape<rows<X>, Out>;
  template <class X, class W>
  using checks =
      type_list<equal<count_of<X>, extent_value<size<1>>>, equal<cols_of<W>, extent_value<packed_words<cols<X>, Out>>>,
                equal<count_of<W>, extent_value<size<1>>>>;
  static std::size_t scratch(auto const& run, auto y, auto x, auto w) {
    packed_product::require_backend(run);
    return run.backend.packed_gemm_scratch(y, x, w);
  }
  /// Without an order, all rows use the only matrix.
  static void eval(auto const& run, auto y, auto x, auto w) {
    run.backend.packed_gemm(y, x, w, view<Int const>(), view<Int const>(), 1, run.scratch);
  }
};

}  // namespace ops

/// 8-bit activations, one scale per row: [R, C] -> [R, C], rounded; the gradient is that of a.
template <Expr A>
constexpr auto absmax_int8(A a) {
  return make<ops::absmax_int8>(a);
}
/// Weights -1, 0 and 1 times one scale per matrix: [R, C], or a stack, of the same shape, rounded; the gradient is that
/// of w.
template <Expr W>
constexpr auto absmean_ternary(W w) {
  return make<ops::absmean_ternary>(w);
}
/// BitLinear without its norm: x [R, K], w [K, C] -> [R, C]. The published one is bit_linear(rms_norm(x, gain), w).
template <Expr X, Expr W>
constexpr auto bit_linear(X x, W w) {
  return absmax_int8(x) % absmean_ternary(w);
}

/// expert_linear with 8-bit activations and packed weights: x [R, In] or, slot by slot, [R * K, In], index Int [R, K];
/// result [R * K, Out]. No gradient.
template <Extent Out, Expr X, Expr W, Selection Chosen>
constexpr auto packed_expert_linear(X x, W w, Chosen index) {
  constexpr auto order = sort_by_expert(index);
  return make<ops::packed_expert_linear<slots_per_row<X, Chosen>, domain<Chosen>, Out>>(x, w, order,
                                                                                        get_output<1>(order));
}
/// bit_linear with packed weights, w of `packed_param<size<1>, In, Out>`. No gradient.
template <Extent Out, Expr X, Expr W>
constexpr auto packed_linear(X x, W w) {
  return make<ops::packed_linear<Out>>(x, w);
}

}  // namespace headmix
