#pragma once
// SPDX-License-Identifier: MIT
// The options of attention layers. Masks (expr/mask.hpp) are options too.

#include "headmix/expr/mask.hpp"
#include "headmix/expr/options.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/expr/rotary.hpp"

namespace headmix {

/// A bias after the projection; experts have one each. They start at zero.
struct query_bias {};
struct key_bias {};
struct value_bias {};
struct output_bias {};

/// The input has rows of padding. The layer reads the rows that its leaf `kept` names (of `memory`: `kept_memory`) and
/// gives zeros for the others; see the class Padding. Positions count real rows.
struct padded {};

/// Number of key/value heads.
template <Index Count>
struct kv_heads {
  static constexpr Index value = Count;
};

/// Cross-attention: keys and values are made from a second input `memory` of this width (or `dynamic`).
template <Index Width>
struct memory_width {
  static constexpr Index value = Width;
};

/// Rotary embedding of queries and keys with theta = Num / Den (see rotary).
template <Index Num = 10'000, Index Den = 1>
struct rope {
  template <Extent Heads, Expr A>
  static constexpr auto turn(A a) {
    return rotary<Heads>(a, number<Num, Den>{});
  }
};
/// No embedding of positions.
struct no_rope {
  template <Extent, Expr A>
  static constexpr auto turn(A a) {
    return a;
  }
};

/// Dropout of the layer's result at the rate Num / Den.
template <Index Num, Index Den>
struct output_dropout {
  template <Expr A>
  static constexpr auto drop(A a) {
    return dropout<Num, Den>(a);
  }
};
/// Dropout of the attention's probabilities at the rate Num / Den.
template <Index Num, Index Den>
struct probability_dropout {
  using keep = draws::keep<Num, Den>;
};
struct no_probability_dropout {
  using keep = void;
};
struct no_output_dropout {
  template <Expr A>
  static constexpr auto drop(A a) {
    return a;
  }
};

namespace detail {
template <class O>
struct is_mask : std::bool_constant<AttentionMask<O>> {};
template <class O>
struct is_kv_heads : std::false_type {};
template <Index Count>
struct is_kv_heads<kv_heads<Count>> : std::true_type {};
template <class O>
struct is_memory : std::false_type {};
template <Index Width>
struct is_memory<memory_width<Width>> : std::true_type {};
template <class O>
struct is_rope : std::false_type {};
template <Index Num, Index Den>
struct is_rope<rope<Num, Den>> : std::true_type {};
template <class O>
struct is_output_dropout : std::false_type {};
template <Index Num, Index Den>
struct is_output_dropout<output_dropout<Num, Den>> : std::true_type {};
template <class O>
struct is_probability_dropout : std::false_type {};
template <Index Num, Index Den>
struct is_probability_dropout<probability_dropout<Num, Den>> : std::true_type {};
template <class O>
struct is_switch : std::bool_constant<has_option<O, query_bias, key_bias, value_bias, output_bias, padded>> {};
}  // namespace detail

}  // namespace headmix
