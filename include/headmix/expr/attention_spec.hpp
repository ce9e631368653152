#pragma once
// SPDX-License-Identifier: MIT
// The specification of an attention without its operands q, k and v: the scores, the heads, and optional parts.

#include <cmath>
#include <tuple>
#include <utility>

#include "headmix/contract/attention_problem.hpp"
#include "headmix/contract/mask.hpp"
#include "headmix/core/error.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/expr/score.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {

/// Scores of queries and keys: a mask alone stands for scores q k^T / sqrt(d_h). A custom variant names its `mask` and
/// the factor of products, `scale(d_h)`. Other changes of scores are expressions: of q and k before the attention, a
/// bias, or score maps.
template <class V>
concept AttentionVariant = AttentionMask<V> || requires(Index head_dim) {
  requires AttentionMask<typename V::mask>;
  { V::scale(head_dim) } -> std::convertible_to<double>;
};

/// Scores q k^T without a factor: queries and keys are scaled before (cosine attention).
template <AttentionMask Mask>
struct unscaled {
  using mask = Mask;
  /// Scores are not scaled.
  static constexpr double scale(Index) { return 1; }
};

namespace archetype {
/// The members that a variant needs.
struct variant {
  using mask = full;
  /// The factor of scores for heads of this width.
  static double scale(Index) { return 0.5; }
};
}  // namespace archetype
static_assert(AttentionVariant<archetype::variant> && AttentionVariant<causal> && AttentionVariant<unscaled<causal>>,
              "headmix: a mask is no AttentionVariant");

namespace detail {
template <class V>
struct mask_in {
  using type = V;
};
template <class V>
requires requires { typename V::mask; }
struct mask_in<V> {
  using type = typename V::mask;
};
}  // namespace detail
/// The mask of a variant.
template <AttentionVariant V>
using mask_of = typename detail::mask_in<V>::type;

namespace ops {

template <class Spec>
struct attention_bias_gradient;
template <class Spec>
struct attention_operand_gradient;

/// Base of the optional parts of an attention. A part binds its operands to the problem of a kernel; `At` is the
/// position of its first operand in the tuple of operands behind q, k and v.
struct attention_part {
  template <class Heads, class... A>
  static constexpr auto checks() {
    return type_list<>{};
  }
  /// The gradient by the part's operand `Which`, from the operands of attention_pullback.
  template <class Spec, int Which>
  static constexpr auto gradient(auto...) {
    return none{};
  }
};
/// Dropout of the probabilities; its operand is a random key.
template <class Keep>
struct probability_dropout : attention_part {
  static constexpr int operands = 1;
  template <int At>
  static void put(auto& problem, auto const&, auto const& all) {
    problem.dropout = {std::get<At>(all).data, random_stream::attention_dropout, Keep::rate};
  }
};
/// Heads chosen by tokens, each at most PerToken times; its operands are the slots and the offsets of the lists of
/// rows.
template <class Heads, class PerToken = size<1>>
struct chosen_heads : attention_part {
  static constexpr int operands = 2;
  template <int At>
  static void put(auto& problem, auto const& run, auto const& all) {
    problem.extents.heads = run.template extent<Heads>();
    problem.extents.chosen = {std::get<At>(all).data, std::get<At + 1>(all).data, run.template extent<PerToken>()};
  }
};
/// The bias of scores; its operand is the bias.
template <class Keys>
struct scores_with_bias : attention_part {
  static constexpr int operands = 1;
  template <int At>
  static void put(auto& problem, auto const& run, auto const& all) {
    problem.scores.bias = std::get<At>(all);
    problem.scores.bias_keys = run.template extent<Keys>();
  }
  template <class Heads, class B>
  static constexpr auto checks() {
    return type_list<equal<cols_of<B>, extent_value<Heads>>, equal<rows_of<B>, extent_value<times<Keys, Keys>>>>{};
  }
  template <class Spec, int>
  static constexpr auto gradient(auto... a) {
    return make<attention_bias_gradient<Spec>>(a...);
  }
  /// Fails unless the bias has a number for every query and key of a sequence. Lengths of ragged sequences on a device
  /// are unknown here: kernels write NaN to rows with a pair that has no number.
  template <AttentionMask Mask>
  static void validate(auto const& run, segments q, segments k) {
    Index const keys = run.template extent<Keys>();
    bool const ragged = q.offsets != nullptr || k.offsets != nullptr || q.past != nullptr || k.past != nullptr;
    if (ragged && !std::remove_cvref_t<decltype(run.backend)>::host_memory) return;
    for (Index b = 0; b < k.count; ++b) {
      Index const length = k.first_position(b) + k.length(b), queries = q.length(b);
      if (length > keys) fail("attention: the score_bias is for ", keys, " keys, sequence ", b, " has ", length);
      Index const first = first_query_position(q, b, queries, length, separate_positions<Mask>);
      if (queries > 0 && (first < 0 || first + queries > keys)) {
        fail("attention: the score_bias is for positions 0 .. ", keys - 1, "; sequence ", b, " has ", queries,
             " queries for ", length, " keys, at positions ", first, " .. ", first + queries - 1);
      }
    }
  }
};
/// Score maps and their operands.
template <class Map>
struct mapped_scores : attention_part {
  static constexpr int operands = Map::operands;
  template <int At, class Problem>
  static void put(Problem& problem, auto const&, auto const& all) {
    [&]<int... Which>(std::integer_sequence<int, Which...>) {
      problem.scores.operands = decltype(problem.scores.operands)(std::get<At + Which>(all)...);
    }
    (std::make_integer_sequence<int, operands>{});
  }
  template <class Heads, class... A>
  static constexpr auto checks() {
    return concat<
        std::conditional_t<cols<A>::value == 1, type_list<>, type_list<equal<cols_of<A>, extent_value<Heads>>>>...>{};
  }
  template <class Spec, int Which>
  static constexpr auto gradient(auto... a) {
    constexpr auto g = make<attention_operand_gradient<Spec>>(a...);
    if constexpr (Which == 0) {
      return g;
    } else {
      return get_output<Which>(g);
    }
  }
};

/// True if Found is a specialization of Part.
template <template <class> class Part, class Found>
inline constexpr bool is_part = false;
/// True if Found is a specialization of Part.
template <template <class> class Part, class X>
inline constexpr bool is_part<Part, Part<X>> = true;
/// The score map among the parts, or no_score_map.
template <class... Parts>
struct map_in {
  using type = no_score_map;
};
template <class Map, class... Parts>
struct map_in<mapped_scores<Map>, Parts...> {
  using type = Map;
};
template <class Part, class... Parts>
struct map_in<Part, Parts...> : map_in<Parts...> {};
/// The chosen heads among the parts, or void.
template <class... Parts>
struct heads_in {
  using type = void;
};
template <class Heads, class PerToken, class... Parts>
struct heads_in<chosen_heads<Heads, PerToken>, Parts...> {
  using type = Heads;
};
template <class Part, class... Parts>
struct heads_in<Part, Parts...> : heads_in<Parts...> {};

/// The specification of an attention and of its operands behind q, k and v: `Parts` in the order of their operands.
template <class Variant, class KvHeads, class QRows, class KRows, class... Parts>
struct attention_spec {
  using variant = Variant;
  using mask = mask_of<Variant>;
  using map = typename map_in<Parts...>::type;
  using kv_heads = KvHeads;
  using q_rows = QRows;
  using k_rows = KRows;
  using chosen = typename heads_in<Parts...>::type;
  static constexpr bool chooses = !std::is_void_v<chosen>;
  /// Position of a part's first operand among those behind q, k and v.
  template <template <class> class Part>
  static constexpr int operands_before() {
    int n = 0;
    bool found = false;
    ((found = found || is_part<Part, Parts>, n += found ? 0 : Parts::operands), ...);
    return n;
  }

  /// Sets the members that problems of forward and backward kernels share.
  template <class Problem>
  static void describe(Problem& p, auto const& run, Index q_cols, Index k_cols, auto const&... further) {
    attention_extents& e = p.extents;
    e.queries = run.template segments_of<QRows>();
    e.keys = run.template segments_of<KRows>();
    e.kv_heads = run.template extent<KvHeads>();
    e.head_dim = k_cols / e.kv_heads;
    e.rows_per_token = e.queries.rows == 0 ? 1 : run.template extent<QRows>() / e.queries.rows;
    e.separate_positions = headmix::separate_positions<mask>;
    if constexpr (!chooses) e.heads = q_cols / e.head_dim;
    if constexpr (AttentionMask<Variant>) {
      p.scores.scale = 1 / std::sqrt(static_cast<double>(e.head_dim));
    } else {
      p.scores.scale = Variant::scale(e.head_dim);
    }
    put_parts<0, Parts...>(p, run, std::tie(further...));
  }
  /// Checks what extents alone do not say.
  static void validate(auto const& run) {
    segments const q = run.template segments_of<QRows>(), k = run.template segments_of<KRows>();
    Index const q_rows = run.template extent<QRows>(), k_rows = run.template extent<KRows>();
    if (q.count != k.count) {
      fail("attention: there are ", q.count, " sequences of queries and ", k.count, " of keys");
    }
    if (k_rows != k.rows) fail("attention: keys and values have ", k_rows, " rows for ", k.rows, " key tokens");
    if (q.rows != 0 && q_rows % q.rows != 0) {
      fail("attention: queries have ", q_rows, " rows, no multiple of the ", q.rows, " query tokens");
    }
    for_each(type_list<Parts...>{}, [&]<class Part>() {
      if constexpr (requires { Part::template validate<mask>(run, q, k); }) Part::template validate<mask>(run, q, k);
    });
  }
  template <class Q, class K, class V, class... Further>
  static constexpr auto checks() {
    using products = type_list<equal<rows_of<V>, rows_of<K>>, equal<cols_of<V>, cols_of<K>>,
                               multiple_of<cols_of<K>, extent_value<KvHeads>>>;
    if constexpr (chooses) {
      using own = type_list<equal<cols_of<Q>, extent_value<over<cols<K>, KvHeads>>>,
                            multiple_of<extent_value<chosen>, extent_value<KvHeads>>>;
      return concat<products, own, checks_of_parts<chosen, Further...>>{};
    } else {
      using heads = over<cols<Q>, over<cols<K>, KvHeads>>;
      return concat<products, type_list<multiple_of<cols_of<Q>, cols_of<K>>>, checks_of_parts<heads, Further...>>{};
    }
  }
  /// Number of columns of the log-sum-exp.
  template <class Q, class K>
  static constexpr auto lse_columns() {
    if constexpr (chooses) {
      return size<1>{};
    } else {
      return over<cols<Q>, over<cols<K>, KvHeads>>{};
    }
  }
  /// The gradient of operand `Which` behind q, k and v.
  template <int Which>
  static constexpr auto gradient(auto... a) {
    return gradient_in<Which, Parts...>(a...);
  }

 private:
  template <int At, class... P>
  static void put_parts(auto& problem, auto const& run, auto const& all) {
    if constexpr (sizeof...(P) > 0) put_first<At, P...>(problem, run, all);
  }
  template <int At, class Part, class... More>
  static void put_first(auto& problem, auto const& run, auto const& all) {
    Part::template put<At>(problem, run, all);
    put_parts<At + Part::operands, More...>(problem, run, all);
  }
  template <int Which, class Part, class... More>
  static constexpr auto gradient_in(auto... a) {
    if constexpr (Which < Part::operands) {
      return Part::template gradient<attention_spec, Which>(a...);
    } else {
      return gradient_in<Which - Part::operands, More...>(a...);
    }
  }
  template <class Part, class Heads, int At, class All, int... Which>
  static constexpr auto checks_of_part(std::integer_sequence<int, Which...>) {
    return Part::template checks<Heads, nth<At + Which, All>...>();
  }
  template <class Heads, int At, class All, class... P>
  struct part_checks {
    using type = type_list<>;
  };
  template <class Heads, int At, class All, class Part, class... More>
  struct part_checks<Heads, At, All, Part, More...> {
    using own = decltype(checks_of_part<Part, Heads, At, All>(std::make_integer_sequence<int, Part::operands>{}));
    using type = concat<own, typename part_checks<Heads, At + Part::operands, All, More...>::type>;
  };
  template <class Heads, class... Further>
  using checks_of_parts = typename part_checks<Heads, 0, type_list<Further...>, Parts...>::type;
};

}  // namespace ops

}  // namespace headmix
