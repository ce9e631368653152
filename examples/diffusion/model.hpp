#pragma once
// SPDX-License-Identifier: MIT
// A diffusion transformer (Peebles and Xie 2023, DiT): patches of an image are tokens, and the step and the class
// condition every block by shifts, scales and gates of its layers (adaLN-Zero). Its attention is a parameter.

#include <numbers>

#include "headmix/expr/norm.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/expr/sequence.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/repeat.hpp"
#include "headmix/router/two_stage.hpp"
#include "noise.hpp"
#include "shapes.hpp"

namespace diffusion {

using namespace headmix;

constexpr Index patch = 2, places = pixels / (patch * patch), patch_values = patch * patch;
struct width : size<64> {};
constexpr Index heads = 8, head_width = width::value / heads;

using Dense = MultiHead<width::value, heads, head_width, query_bias, key_bias, value_bias, output_bias>;
/// Two shared heads, and four of six routed ones: 75 % of the heads.
using Mixed = Moh<width::value, head_width, TwoStage<2, 6, 4>, query_bias, key_bias, value_bias, output_bias>;

struct one : constant<width> {
  static double element(Index, Index) { return 1; }
};
struct zero : constant<width> {
  static double element(Index, Index) { return 0; }
};
/// Columns [part * width, (part + 1) * width) of a value of each image, for every token.
template <int Part, Index Parts, Expr M>
constexpr auto part_of(M m) {
  constexpr Index d = width::value;
  return of_sequence<tokens>(gather_cols(m, iota_cols<size<Part * d>, width, size<Parts * d>>(m)));
}
/// layer_norm(a) (1 + scale) + shift; shift and scale are parts of m.
template <int Shift, Index Parts, Expr M, Expr A>
constexpr auto modulate(M m, A a) {
  return layer_norm<number<1, 1'000'000>>(a, one{}, zero{}) * (1_n + part_of<Shift + 1, Parts>(m)) +
         part_of<Shift, Parts>(m);
}

/// The feed-forward network of a block.
struct Mlp {
  struct hidden : size<4 * width::value> {};
  struct x : input<tokens, width> {};
  struct W_1 : param<width, hidden> {};
  struct b_1 : bias_param<hidden> {};
  struct W_2 : param<hidden, width> {};
  struct b_2 : bias_param<width> {};
  static constexpr auto y = gelu_tanh(x{} % W_1{} + b_1{}) % W_2{} + b_2{};
  using losses = type_list<>;
  using observed = type_list<>;
};

template <class Attention>
struct Block {
  struct x : input<tokens, width> {};
  struct c : input<sequences, width> {};
  struct W_ada : param<width, size<6 * width::value>> {
    using initializer = zeros;
  };
  struct b_ada : bias_param<size<6 * width::value>> {};
  struct m : let<decltype(silu(c{}) % W_ada{} + b_ada{})> {};

  static constexpr auto attn = use<Attention, "attn">(modulate<0, 6>(m{}, x{}));
  struct h : let<decltype(x{} + part_of<2, 6>(m{}) * attn.y)> {};
  static constexpr auto mlp = use<Mlp, "mlp">(modulate<3, 6>(m{}, h{}));
  static constexpr auto y = h{} + part_of<5, 6>(m{}) * mlp.y;
  using losses = losses_of<attn>;
  using observed = observed_of<attn>;
};

struct depth : size<dynamic> {};

/// The predicted noise of each patch.
template <class Attention>
struct Dit {
  struct x : input<tokens, size<patch_values>> {};
  struct place : selection<tokens, size<1>, size<places>> {};
  struct time : input<sequences, size<time_features>> {};
  /// The class, or `classes` for any.
  struct label : selection<sequences, size<1>, size<classes + 1>> {};

  /// Sines and cosines of a patch's row (left half) and column (right half).
  struct position : constant<size<places>, width> {
    static double element(Index i, Index j) {
      constexpr Index quarter = width::value / 4, across = side / patch;
      Index const coordinate = j < 2 * quarter ? i / across : i % across, k = j % (2 * quarter);
      double const angle = static_cast<double>(coordinate) *
                           std::pow(10'000., -static_cast<double>(k % quarter) / static_cast<double>(quarter));
      return k < quarter ? std::sin(angle) : std::cos(angle);
    }
  };
  struct W_patch : param<size<patch_values>, width> {};
  struct b_patch : bias_param<width> {};
  struct W_class : param<size<classes + 1>, width> {};
  struct W_1 : param<size<time_features>, width> {};
  struct b_1 : bias_param<width> {};
  struct W_2 : param<width, width> {};
  struct b_2 : bias_param<width> {};
  struct W_ada : param<width, size<2 * width::value>> {
    using initializer = zeros;
  };
  struct b_ada : bias_param<size<2 * width::value>> {};
  struct W_out : param<width, size<patch_values>> {
    using initializer = zeros;
  };
  struct b_out : bias_param<size<patch_values>> {};

  struct c : let<decltype(silu(time{} % W_1{} + b_1{}) % W_2{} + b_2{} + gather_rows(W_class{}, label{}))> {};
  struct h : let<decltype(x{} % W_patch{} + b_patch{} + gather_rows(position{}, place{}))> {};
  static constexpr auto blocks =
      repeat<depth, Block<Attention>, "blocks">(h{}, feed<typename Block<Attention>::c>(c{}));
  struct m : let<decltype(silu(c{}) % W_ada{} + b_ada{})> {};
  static constexpr auto y = modulate<0, 2>(m{}, blocks.y) % W_out{} + b_out{};
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};

}  // namespace diffusion
