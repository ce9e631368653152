#pragma once
// SPDX-License-Identifier: MIT
// Options for scores of attention other than q k^T / sqrt(d_h). An option's `of<E, H>` has its parameters and its
// functions of queries (a row for each token and head, with the head's number) and keys.

#include <bit>
#include <cmath>

#include "headmix/expr/attention.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/layer/options.hpp"

namespace headmix {

namespace option {
struct scaled_products;
struct scores : option_kind {
  using standard = scaled_products;
  static constexpr char const *syntax = "cosine_scores<n>, qk_norm",
                              *meaning = "what becomes of queries and keys before their product",
                              *without = "scores are q k^T / sqrt(head_dim)";
};
struct score_map : option_kind {
  static constexpr bool several = true;
  template <class Option>
  static constexpr bool accepts = ScoreMap<Option>;
  static constexpr char const *syntax = "soft_cap<n>, alibi, geometric_alibi, or a struct that derives from score_map",
                              *meaning = "what becomes of the scores, one after the other", *without = "nothing";
};
struct no_relative_bias;
struct relative_bias : option_kind {
  using standard = no_relative_bias;
  static constexpr char const *syntax = "relative_position_bias<height, width, ...>",
                              *meaning = "adds a learned bias by relative position on an image", *without = "none";
};
}  // namespace option

/// a / |a| for every row; zero rows stay zero.
template <Expr A>
constexpr auto normalize_rows(A a) {
  return a / maximum(safe_sqrt(row_sum(square(a))), number<1, 1'000'000'000'000>{});
}

/// Cosine attention of TransNeXt (Shi 2024): scores (q / |q| + e_h) softplus(tau_h) log(Keys) k^T / |k| with a query
/// embedding e [E, H] and a temperature tau [E, 1] with the initial value softplus(tau) = 1 / 0.24.
/// @tparam Keys the number of keys that the layer was designed for
template <Index Keys>
struct cosine_scores : option::scores {
  static_assert(Keys >= 2, "headmix: cosine_scores scales by log(Keys), which is 0 for one key");
  template <AttentionMask Mask>
  using variant = unscaled<Mask>;

  template <Extent E, Extent H>
  struct of {
    struct query_embedding : param<E, H> {
      using initializer = normal<2, 100>;
    };
    struct temperature : param<E, size<1>> {
      struct initializer {
        static double value(Random const &, std::uint64_t, Index, Index) { return std::log(std::exp(1 / 0.24) - 1); }
      };
    };
    template <Expr Q, Selection Heads>
    static constexpr auto queries(Q q, Heads heads) {
      return round_to_storage((normalize_rows(q) + expert_bias(query_embedding{}, heads)) *
                              expert_bias(softplus(temperature{}), heads) * log(number<Keys>{}));
    }
    template <Extent P, Expr K>
    static constexpr auto keys(K k) {
      return merge_rows<P>(round_to_storage(normalize_rows(split_rows<P>(k))));
    }
  };
};

/// Layer norm of the queries and keys of each head, with gains and biases [H] that all heads share (DiT).
struct qk_norm : option::scores {
  template <AttentionMask Mask>
  using variant = Mask;

  template <Extent E, Extent H>
  struct of {
    struct gain_q : param<H> {
      using initializer = ones;
    };
    struct gain_k : param<H> {
      using initializer = ones;
    };
    struct bias_q : bias_param<H> {};
    struct bias_k : bias_param<H> {};
    template <Expr Q, Selection Heads>
    static constexpr auto queries(Q q, Heads) {
      return layer_norm(q, gain_q{}, bias_q{});
    }
    template <Extent P, Expr K>
    static constexpr auto keys(K k) {
      return merge_rows<P>(layer_norm(split_rows<P>(k), gain_k{}, bias_k{}));
    }
  };
};

/// A bias of the scores by relative position on an image of Height x Width tokens (TransNeXt): a network of one hidden
/// layer, [U, 2] -> [U, E], of log-spaced coordinates, one of U = (2 Height - 1) (2 Width - 1) for each pair of tokens.
/// @tparam PretrainedHeight, PretrainedWidth  the image of the pretrained network, to whose size coordinates are scaled
template <Index Height, Index Width, Index Hidden = 512, Index PretrainedHeight = Height, Index PretrainedWidth = Width>
struct relative_position_bias : option::relative_bias {
  static_assert(PretrainedHeight >= 2 && PretrainedWidth >= 2,
                "headmix: relative_position_bias needs two rows and two columns of tokens to scale coordinates by");
  struct Keys : size<Height * Width> {};
  struct Places : size<(2 * Height - 1) * (2 * Width - 1)> {};
  struct Units : size<Hidden> {};

  /// sign(c) log2(|c| + 1) / log2(8) of c = 8 (distance) / (pretrained size - 1), down and to the right.
  struct coordinates : constant<Places, size<2>> {
    static double element(Index place, Index axis) {
      Index const distance = axis == 0 ? place / (2 * Width - 1) - (Height - 1) : place % (2 * Width - 1) - (Width - 1);
      double const c = 8. * static_cast<double>(distance) /
                       static_cast<double>((axis == 0 ? PretrainedHeight : PretrainedWidth) - 1);
      return std::copysign(std::log2(std::abs(c) + 1) / 3, c);
    }
  };
  /// The row in the coordinate table of a pair of query and key, pair = query * Keys + key.
  struct places : selection<times<Keys, Keys>, size<1>, Places> {
    static Index element(Index pair, Index) {
      Index const query = pair / Keys::value, key = pair % Keys::value;
      return (query / Width - key / Width + Height - 1) * (2 * Width - 1) + query % Width - key % Width + Width - 1;
    }
  };

  template <Extent E>
  struct of {
    struct W_1 : param<size<2>, Units> {};
    struct b_1 : bias_param<Units> {};
    struct W_2 : param<Units, E> {};
    struct b_2 : bias_param<E> {};
    static constexpr auto table = relu(coordinates{} % W_1{} + b_1{}) % W_2{} + b_2{};
    static constexpr auto bias = bias_of_scores<Keys>(gather_rows(table, places{}));
  };
};

/// A score s becomes c tanh(s / c), c = Num / Den (Bello et al. 2017; Gemma 2).
template <long long Num, long long Den = 1>
struct soft_cap : score_map {
  static_assert(Num > 0 && Den > 0, "headmix: soft_cap<n, d> is n / d > 0, or soft_cap<dynamic>");
  template <Expr S>
  static constexpr auto f(S s) {
    return number<Num, Den>{} * tanh(number<Den, Num>{} * s);
  }
};
/// A soft cap with c > 0 in a leaf that is bound at run time.
template <>
struct soft_cap<dynamic, 1> : score_map {
  struct cap : positive_constant<size<1>> {};
  template <Expr S>
  static constexpr auto f(S s) {
    return cap{} * tanh(s / cap{});
  }
};

namespace detail {
/// A slope for each of E heads, by Slope::of(head, E), filled by the module.
template <class Slope, Extent E>
struct head_slopes : constant<E> {
  static double element(Index, Index head) requires(E::value != dynamic) { return Slope::of(head, E::value); }
  static double element(Index, Index head, Index heads) requires(E::value == dynamic) { return Slope::of(head, heads); }
};
}  // namespace detail

/// ALiBi as in the code of its authors (Press et al. 2022) and in published models: head i of E subtracts slope |t - s|
/// from the scores of positions t and s. With m the largest power of two up to E, the slopes are 2^(-8 (i + 1) / m) for
/// the first m heads, and for the others every second slope of 2 m heads, starting with the first: 2^(-4 (2 (i - m) +
/// 1) / m). For 8 heads they are 2^-1, ..., 2^-8, for 12 these and 2^-0.5, 2^-1.5, 2^-2.5, 2^-3.5.
struct alibi : score_map {
  /// The slope of head `head` of `heads`.
  static double of(Index head, Index heads) {
    auto const m = static_cast<double>(std::bit_floor(static_cast<std::size_t>(heads)));
    auto const i = static_cast<double>(head);
    return i < m ? std::exp2(-8 * (i + 1) / m) : std::exp2(-4 * (2 * (i - m) + 1) / m);
  }
  template <Extent E>
  struct slopes : detail::head_slopes<alibi, E> {};
  template <Expr S, Extent E>
  static constexpr auto f(S s, E) {
    return s - slopes<E>{} * abs(query_position{} - key_position{});
  }
};
/// ALiBi as in the text of its paper, for any number of heads: the slope of head i of E is 2^(-8 (i + 1) / E). Equal to
/// `alibi` if E is a power of two.
struct geometric_alibi : score_map {
  /// The slope of head `head` of `heads`.
  static double of(Index head, Index heads) {
    return std::exp2(-8 * static_cast<double>(head + 1) / static_cast<double>(heads));
  }
  template <Extent E>
  struct slopes : detail::head_slopes<geometric_alibi, E> {};
  template <Expr S, Extent E>
  static constexpr auto f(S s, E) {
    return s - slopes<E>{} * abs(query_position{} - key_position{});
  }
};

namespace option {

/// Scores q k^T / sqrt(d_h).
struct scaled_products {
  template <AttentionMask Mask>
  using variant = Mask;
  template <Extent, Extent>
  struct of {
    template <Expr Q, Selection Heads>
    static constexpr auto queries(Q q, Heads) {
      return q;
    }
    template <Extent, Expr K>
    static constexpr auto keys(K k) {
      return k;
    }
  };
};
struct no_relative_bias {};

}  // namespace option

namespace detail {
template <class Heads, class List>
struct maps_in;
template <class Heads, class... M>
struct maps_in<Heads, type_list<M...>> {
  using type = score_maps<Heads, M...>;
  using value = decltype(map_score<Heads, M...>(score_before{}));
  using by_score = derivative<score_before, value>;
  static constexpr bool by_head = depends_on_head<value>::value;
};
}  // namespace detail

/// The score options of a layer for E heads of width H.
template <Extent E, Extent H, class Options>
struct score_options {
  using Scores = typename Options::template get<option::scores>;
  using Bias = typename Options::template get<option::relative_bias>;
  using Variant = typename Scores::template variant<typename Options::template get<option::mask>>;
  using values = typename Scores::template of<E, H>;
  using maps = detail::maps_in<E, typename Options::template all<option::score_map>>;

  /// True if adding a vector to all keys shifts the scores of a query alike: scores are products of unmodified queries
  /// and keys, and the derivative of the maps by the score is 1.
  static constexpr bool shifted_by_keys =
      std::is_same_v<Scores, option::scaled_products> && std::is_same_v<typename maps::by_score, number<1>>;

  /// True if maps differ between heads.
  static constexpr bool mapped_by_head = maps::by_head;

  /// True if scores of equal queries and keys differ between heads.
  static constexpr bool differ_by_head = mapped_by_head || !std::is_same_v<Bias, option::no_relative_bias>;

  /// Queries of all heads in order, [T, E H], and keys [S, P H].
  template <Extent Heads, Expr Q>
  static constexpr auto queries(Q q) {
    if constexpr (std::is_same_v<Scores, option::scaled_products>) {
      return q;
    } else {
      return merge_rows<Heads>(values::queries(split_rows<Heads>(q), iota_cols<size<0>, Heads, Heads>(q)));
    }
  }
  template <Extent P, Expr K>
  static constexpr auto keys(K k) {
    return values::template keys<P>(k);
  }
  /// Attention with these scores; Where is empty, rows_of_heads or rows_of_kv_heads.
  template <Extent P, class ProbabilityDropout, Expr Q, Expr K, Expr V, class... Where>
  static constexpr auto attend(Q q, K k, V v, Where... where) {
    if constexpr (std::is_same_v<Bias, option::no_relative_bias>) {
      return attention<Variant, P, ProbabilityDropout>(q, k, v, where..., typename maps::type{});
    } else {
      return attention<Variant, P, ProbabilityDropout>(q, k, v, where..., Bias::template of<E>::bias,
                                                       typename maps::type{});
    }
  }
};

}  // namespace headmix
