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

/// The input has rows of padding. The layer reads the rows that its leaf `kept` names (of `memory`:
/// `context_valid_rows`) and gives zeros for the others; see the class Padding. Positions count real rows.
struct padded {};

/// The kinds of the other options: what they do is said by the options themselves.
namespace option {
struct kv_heads {};
struct memory {};
struct position {};
struct scores {};
struct relative_bias {};
struct output_dropout {};
struct probability_dropout {};
}  // namespace option

/// Number of key/value heads.
template <Index Count>
struct kv_heads : option::kv_heads {
  static constexpr Index value = Count;
};

/// Cross-attention: keys and values are made from a second input `memory` of this width (or `dynamic`).
template <Index Width>
struct context_dim : option::memory {
  static constexpr Index value = Width;
};

/// Rotary embedding of queries and keys with theta = Num / Den (see rotary).
template <Index Num = 10'000, Index Den = 1>
struct rope : option::position {
  template <Extent Heads, Expr A>
  static constexpr auto rotate(A a) {
    return rotary<Heads>(a, number<Num, Den>{});
  }
  template <Expr B>
  static constexpr auto key_bias(B b) {
    return b;
  }
};

/// The same with theta in a leaf that is bound when the program runs.
template <>
struct rope<dynamic, 1> : option::position {
  struct theta : constant<size<1>> {};
  template <Extent Heads, Expr A>
  static constexpr auto rotate(A a) {
    return rotary<Heads>(a, theta{});
  }
  template <Expr B>
  static constexpr auto key_bias(B b) {
    return b;
  }
};

/// Dropout of the attention's probabilities at the rate Num / Den.
template <Index Num, Index Den>
struct probability_dropout : option::probability_dropout {
  using keep = draws::keep<Num, Den>;
};

/// Dropout of the layer's result at the rate Num / Den.
template <Index Num, Index Den>
struct output_dropout : option::output_dropout {
  template <Expr A>
  static constexpr auto drop(A a) {
    return dropout<Num, Den>(a);
  }
};

/// What layers do without such an option.
namespace option {
struct no_position {
  template <Extent, Expr A>
  static constexpr auto rotate(A a) {
    return a;
  }
  /// It moves all scores of a query alike, which softmax does not see: the gradient is 0, and not 0 but for rounding.
  template <Expr B>
  static constexpr auto key_bias(B b) {
    return detach(b);
  }
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
}  // namespace option

namespace detail {
template <class... Options>
struct mask_among {
  using type = full;
};
template <class H, class... T>
struct mask_among<H, T...> : std::conditional_t<AttentionMask<H>, std::type_identity<H>, mask_among<T...>> {};
}  // namespace detail

/// The first mask among the options, `full` without one.
template <class... Options>
using find_mask = typename detail::mask_among<Options...>::type;

/// What the options of an attention layer say.
template <class... Options>
struct attention_options {
  /// False for an option that is none of attention.
  static constexpr bool known =
      ((AttentionMask<Options> ||
        is_option<Options, query_bias, key_bias, value_bias, output_bias, padded, option::kv_heads, option::memory,
                  option::position, option::scores, option::relative_bias, option::probability_dropout,
                  option::output_dropout>)&&...);
  using Mask = find_mask<Options...>;
  using Position = find_option<option::position, option::no_position, Options...>;
  using ProbabilityDropout =
      typename find_option<option::probability_dropout, option::no_probability_dropout, Options...>::keep;
  using Dropout = find_option<option::output_dropout, option::no_output_dropout, Options...>;
  static constexpr bool cross = (is_option<Options, option::memory> || ...);
  static constexpr bool pads = has_option<padded, Options...>;
  static constexpr bool groups_heads = (is_option<Options, option::kv_heads> || ...);
  /// The number of key/value heads.
  template <Index Without>
  static constexpr Index key_value_heads = find_option<option::kv_heads, kv_heads<Without>, Options...>::value;
  /// The width of the input that keys and values are made from.
  template <Index Width>
  static constexpr Index width_of_memory = find_option<option::memory, context_dim<Width>, Options...>::value;
};

}  // namespace headmix
