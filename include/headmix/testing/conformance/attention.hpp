#pragma once
// SPDX-License-Identifier: MIT
// Attention and its gradients against the reference.

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/expr/pointwise.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/testing/conformance/before_memory.hpp"
#include "headmix/testing/conformance/bench.hpp"

namespace headmix {

/// A user's mask: without a range, and with positions that see no key.
struct mask_with_holes {
  HEADMIX_HD static bool sees(Index t, Index s) { return t % 4 != 1 && s <= t + 2 && s % 3 != 1; }
};

namespace detail::conformance {

struct attention_case {
  std::vector<Int> queries, keys;  ///< offsets of the sequences
  Index rows_per_token, heads, kv_heads, head_dim;
  bool chosen = false;  ///< tokens choose heads
  Index group = 1;      ///< a token may choose a head so many times
};

/// Features of an attention case beyond the plain one.
struct attention_variant {
  bool bias = false, dropout = false, gate = false, even = false;
  bool separate = false;  ///< queries are numbered from 0
  bool odd = false;       ///< some numbers are not finite
  bool unwanted[4] = {};  ///< not computed: the log-sum-exp, d_q, d_k, d_v
};

/// A score times an operand of its head.
using scaled_scores =
    lowered_score_map<type_list<score_step::operand<0>, score_step::score, score_step::apply<ops::multiply, 0, 1>>,
                      kind_list<kind::real>, 2, 0, 1>;

template <class B, class Map = no_score_map>
struct attention_bench {
  using T = typename B::scalar;
  using W = accumulator_t<T>;

  attention_bench(bench<B>& of, attention_case const& c, attention_variant const& how)
      : b(of),
        variant(how),
        queries(b, c.queries),
        keys(b, c.keys),
        rows(c.queries.back() * c.rows_per_token),
        q_cols((c.chosen ? 1 : c.heads) * c.head_dim),
        lse_cols(c.chosen ? 1 : c.heads),
        longest((std::max)(longest_of(c.keys), how.separate ? longest_of(c.queries) : 1)),
        index(b,
              c.chosen ? choices_of_groups(c.queries.back(), c.rows_per_token, c.heads, c.group) : std::vector<Int>{},
              c.chosen ? c.queries.back() : 0, c.rows_per_token),
        slots(b, 1, rows),
        lists(b, 1, (static_cast<Index>(c.queries.size()) - 1) * c.heads + 1),
        key(b, words_of(randomness(3, 1, 2, 5)), 1, 6),
        q(b, rows, q_cols, layout::gaps),
        k(b, c.keys.back(), c.kv_heads * c.head_dim, layout::gaps),
        v(b, c.keys.back(), c.kv_heads * c.head_dim, layout::gaps),
        bias(b, longest * longest, c.heads),
        d_o(b, rows, q_cols),
        gate(b, rows, 1),
        of_heads(b, 1, c.heads) {
    if (c.chosen) b.reference.sort_by_expert(slots.host(), lists.host(), view<Int const>(index.host()), queries.host());
    slots.send();
    lists.send();
    for (bool const device : {false, true}) {
      attention_extents& e = device ? on_device : on_host;
      e = {device ? queries.device() : queries.host(),
           device ? keys.device() : keys.host(),
           c.rows_per_token,
           c.heads,
           c.kv_heads,
           c.head_dim,
           {}};
      e.separate_positions = how.separate;
      if (how.even) e.queries.offsets = e.keys.offsets = nullptr;
      if (c.chosen) {
        e.chosen = {device ? slots.device().data : slots.host().data, device ? lists.device().data : lists.host().data,
                    c.group};
      }
    }
    double const scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
    scores_device.scale = scores_host.scale = scale;
    if (how.bias) {
      scores_device.bias = bias.in(), scores_host.bias = bias.host();
      scores_device.bias_keys = scores_host.bias_keys = longest;
    }
    if constexpr (Map::operands == 1) {
      scores_device.operands = score_operands<T>(of_heads.in());
      scores_host.operands = score_operands<double>(view<double const>(of_heads.host()));
    }
    if (how.odd) set_odd_numbers();
    if (how.dropout) {
      dropout_device = dropout_with(key.device().data);
      dropout_host = dropout_with(key.host().data);
    }
  }
  static attention_dropout dropout_with(Int const* words) { return {words, random_stream::attention_dropout, 0.3}; }
  static std::vector<Int> words_of(randomness const& r) { return {r.word, r.word + 6}; }
  static Index longest_of(std::vector<Int> const& offsets) {
    Index n = 1;
    for (std::size_t s = 1; s < offsets.size(); ++s) n = (std::max)(n, Index{offsets[s] - offsets[s - 1]});
    return n;
  }

  /// Non-finite numbers that some rows see and others do not, also in sequences of one token; and a position whose
  /// scores are all minus infinity.
  void set_odd_numbers() {
    constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    Index const n = k.host().rows, in_token = rows / n;
    k.set(n / 2 - 1, 0, nan);
    v.set(n - 6, 1, nan);
    v.set(n * 3 / 5, 0, infinity);
    q.set(n / 5 * in_token, 0, nan);
    d_o.set((n - 14) * in_token, 1, nan);
    if (!variant.bias) return;
    for (Index s = 0; s < longest; ++s) bias.host()(4 * longest + s, 0) = -infinity;
    bias.set(2 * longest + 7, 0, nan);
    bias.set(6 * longest + 3, 1, nan);
  }

  template <class Mask>
  void check(std::string const& text) {
    operand<B, T> o(b, rows, q_cols), gated(b, rows, q_cols);
    operand<B, W> lse(b, rows, lse_cols);
    attention_forward<T, Map> f{on_device,    q.in(),         k.in(),        v.in(), o.device(),
                                lse.device(), dropout_device, scores_device, {}};
    attention_forward<double, Map> const expected{on_host,    q.host(),     k.host(),    v.host(), o.host(),
                                                  lse.host(), dropout_host, scores_host, {}};
    headmix::backend_memory<B> stored;
    if constexpr (StoresProbabilities<B>) {
      f.probabilities = {nullptr, rows * lse_cols, 0};
      f.probabilities.cols = b.backend.attention_columns(before_memory(f));
      f.probabilities.row_stride = f.probabilities.cols;
      stored = headmix::backend_memory<B>(static_cast<std::size_t>(f.probabilities.size()) * sizeof(T));
      if (f.probabilities.cols > 0) f.probabilities.data = stored.template as<T>();
      b.stored_probabilities |= f.probabilities.size() > 0;
    }
    b.reference.template attention<Mask>(expected, {});
    auto const scratch = b.scratch(b.backend.attention_scratch(before_memory(f)));
    if (variant.gate) {
      if constexpr (FusedGatedAttention<B>) {
        b.begin("gated_attention", text);
        for (Index i = 0; i < rows; ++i) {
          for (Index j = 0; j < q_cols; ++j) gated.host()(i, j) = gate.host()(i, 0) * o.host()(i, j);
        }
        b.run([&] { b.backend.template gated_attention<Mask>(f, gated.device(), gate.in(), scratch); });
        gated.check("gated");
      }
    } else {
      b.begin("attention", text);
      b.run([&] { b.backend.template attention<Mask>(f, scratch); });
    }
    o.check_stretches("o", stretch());
    lse.check("log-sum-exp");
    if (variant.unwanted[0]) {
      operand<B, T> alone(b, rows, q_cols);
      f.o = alone.device();
      f.lse.data = nullptr;
      f.probabilities = {};
      copy(alone, o);
      b.run([&] { b.backend.template attention<Mask>(f, scratch); });
      alone.check("o without log-sum-exp");
    }
    o.send();  // gradients are compared for correct values
    lse.send();
    check_gradient<Mask>(text, o, lse, f.probabilities);
  }

 private:
  [[nodiscard]] Index stretch() const { return variant.odd ? on_host.head_dim : 1; }
  /// The gradient with d_o aliasing d, and d_q aliasing d_o.
  template <class Mask>
  void check_in_place(std::string const& text, attention_backward<T, Map> g, std::span<std::byte> scratch,
                      operand<B, T> const& d, operand<B, T> const& d_q) {
    if (g.d_q.data == nullptr) return;
    b.begin("gated_attention_gradient", text, " in place");
    operand<B, T> all(b, rows, q_cols);
    copy(all, d);
    all.send();
    copy(all, d_q);
    g.d_q = all.device();
    b.run([&] {
      b.backend.template gated_attention_gradient<Mask>(g, gate.in(), all.in(), all.device(), view<W>{}, scratch);
    });
    all.check_stretches("d_q", stretch(), 10);
  }
  /// The gradient with d_q aliasing d_o.
  template <class Mask>
  void check_plain_in_place(std::string const& text, attention_backward<T, Map> g, std::span<std::byte> scratch,
                            operand<B, T> const& d_q) {
    if (g.d_q.data == nullptr) return;
    b.begin("attention_gradient", text, " in place");
    operand<B, T> all(b, rows, q_cols, layout::gaps);
    copy(all, d_o);
    all.send();
    copy(all, d_q);
    g.d_o = all.in();
    g.d_q = all.device();
    b.run([&] { b.backend.template attention_gradient<Mask>(g, scratch); });
    all.check_stretches("d_q", stretch(), 10);
  }
  void copy(operand<B, T>& to, operand<B, T> const& from) const {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < q_cols; ++j) to.host()(i, j) = from.host()(i, j);
    }
  }
  template <class Mask>
  void check_gradient(std::string const& text, operand<B, T>& o, operand<B, W>& lse, view<T const> probabilities) {
    operand<B, T> d(b, rows, q_cols);
    for (Index i = 0; variant.gate && i < rows; ++i) {
      for (Index j = 0; j < q_cols; ++j) d_o.host()(i, j) = gate.host()(i, 0) * d.host()(i, j);
    }
    operand<B, T> d_q(b, rows, q_cols), d_k(b, k.host().rows, k.host().cols), d_v(b, v.host().rows, v.host().cols);
    operand<B, T> d_bias(b, bias.host().rows, bias.host().cols);
    auto const wanted = [this](auto view_of, int which) {
      if (variant.unwanted[which]) view_of.data = nullptr;
      return view_of;
    };
    attention_backward<T, Map> const g{on_device,
                                       q.in(),
                                       k.in(),
                                       v.in(),
                                       o.in(),
                                       d_o.in(),
                                       lse.in(),
                                       wanted(d_q.device(), 1),
                                       wanted(d_k.device(), 2),
                                       wanted(d_v.device(), 3),
                                       dropout_device,
                                       scores_device,
                                       probabilities};
    attention_backward<double, Map> const expected{on_host,
                                                   q.host(),
                                                   k.host(),
                                                   v.host(),
                                                   o.host(),
                                                   d_o.host(),
                                                   lse.host(),
                                                   wanted(d_q.host(), 1),
                                                   wanted(d_k.host(), 2),
                                                   wanted(d_v.host(), 3),
                                                   dropout_host,
                                                   scores_host,
                                                   {}};
    b.reference.template attention_gradient<Mask>(expected, {});
    auto const scratch = b.scratch(b.backend.template attention_gradient_scratch<Mask>(before_memory(g)));
    operand<B, W> d_gate(b, rows, 1);
    if (variant.gate) {
      if constexpr (FusedGatedAttention<B>) {
        b.begin("gated_attention_gradient", text);
        for (Index i = 0; i < rows; ++i) {
          d_gate.host()(i, 0) = 0;
          for (Index j = 0; j < q_cols; ++j) d_gate.host()(i, 0) += d.host()(i, j) * o.host()(i, j);
        }
        b.run([&] {
          b.backend.template gated_attention_gradient<Mask>(g, gate.in(), d.in(), d_o.device(), d_gate.device(),
                                                            scratch);
        });
        d_o.check("d_o");
      }
    } else {
      b.begin("attention_gradient", text);
      b.run([&] { b.backend.template attention_gradient<Mask>(g, scratch); });
    }
    // Sums of values that may have been rounded to the scalar.
    double const in_scalar = 10 * b.template tolerance<T>() / b.template tolerance<W>();
    d_q.check_stretches("d_q", stretch(), 10);
    d_k.check_stretches("d_k", stretch(), 10);
    d_v.check_stretches("d_v", stretch(), 10);
    d_gate.check("d_gate", in_scalar);
    if constexpr (FusedGatedAttention<B>) {
      if (variant.gate) check_in_place<Mask>(text, g, scratch, d, d_q);
    }
    if constexpr (AttentionGradientInPlace<B>) {
      if (!variant.gate) check_plain_in_place<Mask>(text, g, scratch, d_q);
    }
    if constexpr (Map::operands == 1) {
      b.begin("attention_operand_gradient", text);
      operand<B, W> d_of_heads(b, 1, of_heads.host().cols);
      attention_backward<T, Map> alone = g;
      alone.d_q.data = alone.d_k.data = alone.d_v.data = nullptr;
      b.reference.template attention_operand_gradient<Mask>(operand_gradients<double, 1>{{d_of_heads.host()}}, expected,
                                                            {});
      auto const room = b.scratch(b.backend.attention_operand_gradient_scratch(before_memory(alone)));
      b.run([&] {
        b.backend.template attention_operand_gradient<Mask>(operand_gradients<W, 1>{{d_of_heads.device()}}, alone,
                                                            room);
      });
      d_of_heads.check("d_operand", in_scalar);
    }
    if (!variant.bias) return;
    b.begin("attention_bias_gradient", text);
    attention_backward<T, Map> with_bias = g;
    with_bias.d_q.data = with_bias.d_k.data = with_bias.d_v.data = nullptr;
    b.reference.template attention_bias_gradient<Mask>(d_bias.host(), expected, {});
    auto const more = b.scratch(b.backend.attention_bias_gradient_scratch(before_memory(with_bias)));
    b.run([&] { b.backend.template attention_bias_gradient<Mask>(d_bias.device(), with_bias, more); });
    d_bias.check("d_bias", 10);
  }

  bench<B>& b;
  attention_variant variant;
  sequences_of<B> queries, keys;
  Index rows, q_cols, lse_cols, longest;
  int_operand<B> index, slots, lists, key;
  operand<B, T> q, k, v, bias, d_o;
  operand<B, W> gate;
  operand<B, T> of_heads;
  attention_extents on_device, on_host;
  attention_scores<T, Map> scores_device;
  attention_scores<double, Map> scores_host;
  attention_dropout dropout_device, dropout_host;
};

template <class Mask, class Map, class B>
void check_attention_case(bench<B>& b, attention_case const& c, attention_variant const& how) {
  attention_bench<B, Map>(b, c, how).template check<Mask>(
      message(type_name<Mask>(), Map::identity ? ", " : ", mapped, ", c.queries.back(), " queries of ",
              c.rows_per_token, " rows, ", c.keys.back(), " keys, ", c.queries.size() - 1, " sequences, ", c.heads,
              " heads on ", c.kv_heads, " of ", c.head_dim, c.chosen ? ", chosen" : "", c.group > 1 ? " in groups" : "",
              how.bias ? ", bias" : "", how.dropout ? ", dropout" : "", how.even ? ", even" : "",
              how.separate ? ", separate positions" : "", how.odd ? ", some not finite" : ""));
}
/// @tparam Maps  also score maps, if the backend has them
template <class B, class Mask, bool Maps>
void check_attention(bench<B>& b) {
  auto const run = [&](attention_case const& c, attention_variant const& how = {}) {
    check_attention_case<Mask, no_score_map>(b, c, how);
  };
  attention_case const ragged{{0, 13, 30, 31, 50}, {0, 13, 30, 31, 50}, 3, 4, 2, 5},
      even{{0, 21, 42, 63}, {0, 21, 42, 63}, 1, 2, 1, 8}, heads{{0, 0, 20, 33}, {0, 0, 20, 33}, 2, 4, 2, 6, true};
  run({{0, 1}, {0, 1}, 1, 1, 1, 4});              // a single row
  run({{0, 0, 5, 5}, {0, 0, 7, 9}, 1, 2, 1, 3});  // empty sequences, keys without queries
  run({{0, 3, 10}, {0, 40, 75}, 1, 4, 2, 8});     // decoder steps: fewer queries than keys
  run({{0, 30}, {0, 11}, 1, 1, 1, 6});            // more queries than keys: the first see nothing when causal
  run({{0, 8}, {0, 0}, 2, 1, 1, 4});              // no keys at all
  run({{0, 0}, {0, 0}, 1, 2, 2, 4});              // nothing at all
  run({{0, 20}, {0, 20}, 1, 2, 2, 100});          // wide heads
  run(ragged);
  run(heads);
  run({{0, 0, 20, 33}, {0, 0, 20, 33}, 3, 2, 2, 6, true, 3});  // heads of key/value heads
  run({{0, 21, 42, 63}, {0, 21, 42, 63}, 4, 1, 1, 8, true, 4}, {.even = true});
  run({{0, 20, 90}, {0, 30, 60}, 3, 2, 2, 64, true, 4}, {.separate = true});
  run(even, {.even = true});
  run(ragged, {.bias = true});
  run(heads, {.bias = true});
  run({{0, 3, 10}, {0, 40, 75}, 1, 4, 2, 8}, {.bias = true});
  run({{0, 3, 34}, {0, 20, 41}, 1, 4, 2, 8}, {.bias = true, .separate = true});
  run({{0, 3, 34}, {0, 20, 41}, 2, 4, 2, 6, true}, {.bias = true, .separate = true});
  run({{0, 20, 90}, {0, 30, 60}, 1, 2, 1, 64}, {.separate = true});
  run({{0, 20, 90}, {0, 30, 60}, 2, 4, 2, 64, true}, {.separate = true});
  run(ragged, {.dropout = true});
  run(heads, {.dropout = true});
  for (int i = 0; i < 4; ++i) {
    attention_variant some;
    some.unwanted[i] = true;
    if (i > 0) some.unwanted[i % 3 + 1] = true;
    run(ragged, some);
  }
  run(ragged, {.bias = true, .odd = true});
  run(heads, {.odd = true});
  run({{0, 20, 90}, {0, 20, 90}, 1, 1, 1, 64}, {.odd = true});
  run({{0, 3, 4}, {0, 3, 4}, 1, 16, 16, 64, true});  // short sequences, and many heads of which a token has one
  if constexpr (FusedGatedAttention<B>) {
    // A row has one gate, so each row of q is for one head.
    run({{0, 13, 30, 31, 50}, {0, 13, 30, 31, 50}, 3, 1, 1, 5}, {.gate = true});
    run(heads, {.gate = true});
  }
  if constexpr (Maps && MapsScores<B>) {
    for (attention_case const& c : {ragged, heads, attention_case{{0, 8}, {0, 0}, 2, 1, 1, 4}}) {
      check_attention_case<Mask, scaled_scores>(b, c, {});
      check_attention_case<Mask, scaled_scores>(b, c, {.bias = true, .dropout = true});
    }
    check_attention_case<Mask, scaled_scores>(b, ragged, {.bias = true, .dropout = true, .odd = true});
  }
  if (!b.options().large) return;
  run({{0, 301}, {0, 301}, 2, 1, 1, 16});  // several blocks and tiles of a list
  run({{0, 700}, {0, 700}, 1, 1, 1, 8});
  run({{0, 64, 128, 192}, {0, 64, 128, 192}, 1, 4, 4, 32});
}

}  // namespace detail::conformance
}  // namespace headmix
