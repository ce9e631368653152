#pragma once
// SPDX-License-Identifier: MIT
// Definitions of MultiHead, Moh, Moa and Mae: loops over tokens, heads and keys.

#include <algorithm>

#include "routers.hpp"

namespace headmix::definition {

/// Keys and values of a sequence, one row of kv_heads head_dim numbers for each position.
struct KeysAndValues {
  std::vector<Row> k, v;
};

class Attention {
 public:
  Attention(layer_options const& options, Values const& values, Inputs const& inputs)
      : o(options), v(values), in(inputs) {
    for (std::size_t b = 0; b < in.sequences.size(); ++b) {
      for (Count const row : in.sequences[b].queries) {
        tokens.push_back({row, static_cast<Count>(b)});
        rows.push_back(in.x[static_cast<std::size_t>(row)]);
        row_numbers.push_back(row);
      }
    }
    kv_heads = o.kv_heads > 0 ? o.kv_heads : o.family == family::moa ? 1 : o.heads;
    for (Sequence const& s : in.sequences) keys.push_back(keys_of(s));
  }

  Results run() {
    switch (o.family) {
      case family::multi_head:
        return multi_head();
      case family::moh:
        return moh();
      case family::moa:
        return moa();
      default:
        return mae();
    }
  }

 private:
  struct Token {
    Count row, sequence;
  };
  layer_options const& o;
  Values const& v;
  Inputs const& in;
  std::vector<Token> tokens;
  std::vector<Row> rows;           ///< of the tokens
  std::vector<Count> row_numbers;  ///< of the tokens, among the rows of x
  Count kv_heads;
  std::vector<KeysAndValues> keys;

  [[nodiscard]] bool separate() const { return o.mask == mask_kind::full || o.mask == mask_kind::neighbours; }
  /// The position of the first query of a sequence: given; 0; or such that the last query is at the last key.
  [[nodiscard]] Count first_position(Sequence const& s) const {
    if (s.past >= 0) return s.past;
    if (o.context_width == 0 || separate()) return 0;
    return static_cast<Count>(s.keys.size()) - static_cast<Count>(s.queries.size());
  }
  [[nodiscard]] Count position_of(std::size_t token) const {
    Sequence const& s = in.sequences[static_cast<std::size_t>(tokens[token].sequence)];
    auto const at = std::find(s.queries.begin(), s.queries.end(), tokens[token].row) - s.queries.begin();
    return first_position(s) + at;
  }
  [[nodiscard]] bool sees(Count t, Count s) const {
    switch (o.mask) {
      case mask_kind::full:
        return true;
      case mask_kind::causal:
        return s <= t;
      case mask_kind::window:
        return s <= t && t - s < o.window;
      case mask_kind::first_and_latest:
        return s <= t && (t - s < 2 || s == 0);
      default:
        return t - s < 2 && s - t < 2;
    }
  }

  /// Su et al. 2021 on pairs (i, i + d_h / 2), which turn by t theta^(-2 i / d_h).
  [[nodiscard]] Row rotated(Row const& a, Count t) const {
    if (o.rope_theta == 0) return a;
    Row y(a.size());
    std::size_t const half = a.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      double const angle =
          static_cast<double>(t) * std::pow(o.rope_theta, -2 * static_cast<double>(i) / static_cast<double>(a.size()));
      double const c = std::cos(angle), s = std::sin(angle);
      y[i] = Number(c) * a[i] - Number(s) * a[i + half];
      y[i + half] = Number(s) * a[i] + Number(c) * a[i + half];
    }
    return y;
  }
  [[nodiscard]] static Row unit(Row const& a) {
    Number s;
    for (Number const& x : a) s += x * x;
    return divided(a, larger(root(s), 1e-12));
  }
  [[nodiscard]] static Row normalized(Row const& a, Row const& gain, Row const& bias) {
    Number const n = static_cast<double>(a.size()), mean = sum(a) / n;
    Number variance;
    for (Number const& x : a) variance += (x - mean) * (x - mean) / n;
    Row y;
    for (std::size_t i = 0; i < a.size(); ++i)
      y.push_back((a[i] - mean) / root(variance + Number(1e-5)) * gain.at(i) + bias.at(i));
    return y;
  }

  KeysAndValues keys_of(Sequence const& s) const {
    KeysAndValues all;
    Count const width = kv_heads * o.head_dim;
    for (std::size_t n = 0; n < s.keys.size(); ++n) {
      auto const row = static_cast<std::size_t>(s.keys[n]);
      Row const& x = (o.context_width > 0 ? in.context : in.x)[row];
      Row k = product(x, v["W_k"], width);
      Row values = product(o.value_width > 0 ? in.values[row] : x, v["W_v"], width);
      if (o.key_bias) add(k, v["b_k"]);
      if (o.value_bias) add(values, v["b_v"]);
      Row of_heads;
      for (Count h = 0; h < kv_heads; ++h) {
        Row one = part(k, h * o.head_dim, o.head_dim);
        if (o.scores == scores_kind::cosine) one = unit(one);
        if (o.scores == scores_kind::layer_norm) one = normalized(one, v["gain_k"], v["bias_k"]);
        one = rotated(one, static_cast<Count>(n));
        of_heads.insert(of_heads.end(), one.begin(), one.end());
      }
      all.k.push_back(of_heads), all.v.push_back(values);
    }
    return all;
  }
  /// A query of a head of MultiHead and Moh as products take it.
  [[nodiscard]] Row prepared(Row q, Count head, Count position) const {
    if (o.scores == scores_kind::cosine) {
      q = unit(q);
      add(q, part(v["query_embedding"], head * o.head_dim, o.head_dim));
      Number const tau = v["temperature"].at(static_cast<std::size_t>(head));
      q = times(softplus(tau) * Number(std::log(static_cast<double>(o.cosine_keys))), q);
    }
    if (o.scores == scores_kind::layer_norm) q = normalized(q, v["gain_q"], v["bias_q"]);
    return rotated(q, position);
  }

  /// TransNeXt's bias: a network of one hidden layer of log-spaced coordinates of a query relative to a key, positions
  /// of an image in the order of its rows.
  [[nodiscard]] Number relative_bias(Count query, Count key, Count head, Count heads) const {
    auto const log_spaced = [](Count distance, Count trained) {
      double const c = 8. * static_cast<double>(distance) / static_cast<double>(trained - 1);
      return (c < 0 ? -1 : 1) * std::log2(std::abs(c) + 1) / std::log2(8.);
    };
    double const down = log_spaced(query / o.image_width - key / o.image_width, o.trained_height);
    double const right = log_spaced(query % o.image_width - key % o.image_width, o.trained_width);
    Number b = v["b_2"].at(static_cast<std::size_t>(head));
    for (Count u = 0; u < o.image_hidden; ++u) {
      auto const unit_number = static_cast<std::size_t>(u);
      Number const hidden = v["b_1"].at(unit_number) + Number(down) * v["W_1"].at(unit_number) +
                            Number(right) * v["W_1"].at(static_cast<std::size_t>(o.image_hidden + u));
      b += larger(hidden, 0) * v["W_2"].at(static_cast<std::size_t>(u * heads + head));
    }
    return b;
  }
  /// The slopes of the authors' code of ALiBi: of the closest power of two m of heads, 2^(-8 i / m) for i = 1 .. m, and
  /// for more heads every second one of 2 m heads.
  [[nodiscard]] static double slope(Count head, Count heads) {
    Count m = 1;
    while (2 * m <= heads) m *= 2;
    if (head < m) return std::pow(2, -8. * static_cast<double>(head + 1) / static_cast<double>(m));
    return std::pow(2, -8. * static_cast<double>(2 * (head - m) + 1) / static_cast<double>(2 * m));
  }
  [[nodiscard]] Number mapped(Number s, Count t, Count key, Count head, Count heads) const {
    double const distance = static_cast<double>(t < key ? key - t : t - key);
    auto const h = static_cast<std::size_t>(head);
    for (score_map_option const& map : o.maps) {
      switch (map.kind) {
        case map_kind::soft_cap:
          s = Number(map.cap) * tanh(s / Number(map.cap));
          break;
        case map_kind::alibi:
          s = s - Number(slope(head, heads) * distance);
          break;
        case map_kind::geometric_alibi:
          s = s - Number(std::pow(2, -8. * static_cast<double>(head + 1) / static_cast<double>(heads)) * distance);
          break;
        case map_kind::learned_slope:
          s = s - v["slope"].at(h) * Number(distance);
          break;
        case map_kind::learned_gain:
          s = s * v["gain"].at(h);
          break;
        case map_kind::place_and_head:
          s = s + Number(static_cast<double>(t * key) / 8 - static_cast<double>(head) / 4);
          break;
      }
    }
    return s;
  }

  /// softmax(scores) v of a query of head `head` of `heads`, which reads key/value head `kv_head`; 0 without a key.
  /// @param draw_row  the row of the query, by which dropout is drawn
  [[nodiscard]] Row attend(Row const& q, std::size_t token, Count head, Count heads, Count kv_head,
                           Count draw_row) const {
    auto const& [k, values] = keys[static_cast<std::size_t>(tokens[token].sequence)];
    Count const t = position_of(token), first = kv_head * o.head_dim;
    double const scale = o.scores == scores_kind::cosine ? 1 : 1 / std::sqrt(static_cast<double>(o.head_dim));
    std::vector<Count> seen;
    Row scores;
    for (Count s = 0; s < static_cast<Count>(k.size()); ++s) {
      if (!sees(t, s)) continue;
      Number a;
      for (std::size_t j = 0; j < q.size(); ++j)
        a += q[j] * k[static_cast<std::size_t>(s)].at(static_cast<std::size_t>(first) + j);
      a = a * Number(scale);
      if (o.image_height > 0) a += relative_bias(t, s, head, heads);
      seen.push_back(s), scores.push_back(mapped(a, t, s, head, heads));
    }
    Row y(q.size());
    if (seen.empty()) return y;
    Row const p = softmax(scores);
    for (std::size_t n = 0; n < seen.size(); ++n) {
      double const keep = in.draws.keep_probability(static_cast<std::uint64_t>(draw_row),
                                                    static_cast<std::uint64_t>(seen[n]), o.probability_dropout);
      add(y, times(p[n] * Number(keep), part(values[static_cast<std::size_t>(seen[n])], first, o.head_dim)));
    }
    return y;
  }

  /// The queries of all heads of a token, before normalisation and rotation.
  [[nodiscard]] Row queries_of(std::size_t token) const {
    Row q = product(rows[token], v["W_q"], o.heads * o.head_dim);
    if (o.query_bias) add(q, v["b_q"]);
    return q;
  }
  /// The sum over heads of c_h H_h W_O^h, H_h = Attention(x W_Q^h, X W_K^h, X W_V^h).
  [[nodiscard]] Row sum_of_heads(std::size_t token, std::vector<Count> const& heads, Row const& weights,
                                 std::vector<Count> const& draw_rows) const {
    Row const q = queries_of(token);
    Row y(static_cast<std::size_t>(o.width));
    for (std::size_t n = 0; n < heads.size(); ++n) {
      Count const h = heads[n];
      Row const one = attend(prepared(part(q, h * o.head_dim, o.head_dim), h, position_of(token)), token, h, o.heads,
                             h * kv_heads / o.heads, draw_rows[n]);
      add(y, times(weights[n], product(one, part(v["W_o"], h * o.head_dim * o.width, o.head_dim * o.width), o.width)));
    }
    return y;
  }
  [[nodiscard]] std::vector<Count> all_heads() const {
    std::vector<Count> all;
    for (Count h = 0; h < o.heads; ++h) all.push_back(h);
    return all;
  }

  /// y with zeros for padding, after dropout.
  [[nodiscard]] Results finished(std::vector<Row> const& y_of_tokens) const {
    Results r;
    r.y.assign(in.x.size(), Row(static_cast<std::size_t>(o.width)));
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      Row y = y_of_tokens[t];
      for (std::size_t j = 0; j < y.size(); ++j)
        y[j] = y[j] * Number(in.draws.keep(purpose::output_dropout, t * y.size() + j, o.output_dropout));
      r.y[static_cast<std::size_t>(tokens[t].row)] = y;
    }
    return r;
  }

  /// Vaswani et al. 2017, section 3.2.2.
  [[nodiscard]] Results multi_head() const {
    std::vector<Row> y;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      std::vector<Count> draw_rows;
      for (Count h = 0; h < o.heads; ++h) draw_rows.push_back(static_cast<Count>(t) * o.heads + h);
      y.push_back(sum_of_heads(t, all_heads(), Row(static_cast<std::size_t>(o.heads), Number(1)), draw_rows));
      if (o.output_bias) add(y.back(), v["b_o"]);
    }
    return finished(y);
  }

  /// A router over the tokens.
  [[nodiscard]] Route route() const {
    switch (o.router) {
      case router_kind::softmax_top_k:
        return softmax_top_k(o, v, in.draws, rows, in.x, row_numbers);
      case router_kind::two_stage:
        return two_stage(o, v, rows);
      case router_kind::loss_free:
        return loss_free(o, v, rows);
      default: {
        std::vector<Row> q;
        for (std::size_t t = 0; t < tokens.size(); ++t) q.push_back(queries_of(t));
        return query_norm(o, q);
      }
    }
  }
  void add_losses(Results& y, Route const& r) const {
    for (loss_kind const l : o.losses) y.losses.push_back(loss_of(l, r));
  }

  /// MoH (4): y = sum of g_i H_i W_O^i over the active heads.
  [[nodiscard]] Results moh() const {
    Route const r = route();
    bool const lists_all = (o.router == router_kind::two_stage && o.routed == 0) ||
                           (o.router == router_kind::query_norm && !o.estimates_active);
    std::vector<Row> y;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      auto const& heads = r.index[t];
      auto const n = static_cast<Count>(heads.size()), token = static_cast<Count>(t);
      std::vector<Count> draw_rows;
      for (Count i = 0; i < n; ++i) {
        Count const h = heads[static_cast<std::size_t>(i)];
        if (lists_all)
          draw_rows.push_back(token * o.heads + h);
        else
          draw_rows.push_back((o.dense_projections ? token * o.heads + h : token * n + i) * o.heads);
      }
      y.push_back(sum_of_heads(t, heads, r.gate[t], draw_rows));
      if (o.output_bias) add(y.back(), v["b_o"]);
    }
    Results all = finished(y);
    all.chosen = o.router == router_kind::two_stage || o.router == router_kind::query_norm ? r.chosen : r.index;
    add_losses(all, r);
    return all;
  }

  /// MoA (6), (10)-(12): y_t = sum of w_{t,i} (o_{t,i} W^o_i + b^o_i); an expert has kv_heads heads, head j reads
  /// key/value head j. Score maps count head j of expert i as number j E + i.
  [[nodiscard]] Results moa() const {
    Route const r = route();
    Count const width = kv_heads * o.head_dim, heads = kv_heads * r.experts;
    bool by_head = false;
    for (score_map_option const& map : o.maps) by_head = by_head || map.kind != map_kind::soft_cap;
    std::vector<Row> y;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      auto const& experts = r.index[t];
      Row y_t(static_cast<std::size_t>(o.width));
      for (std::size_t n = 0; n < experts.size(); ++n) {
        Count const e = experts[n], slot = static_cast<Count>(t * experts.size() + n);
        Row q = product(rows[t], part(v["W_q"], e * o.width * width, o.width * width), width);
        if (o.query_bias) add(q, part(v["b_q"], e * width, width));
        Row o_t;
        for (Count j = 0; j < kv_heads; ++j) {
          Row const one = attend(rotated(part(q, j * o.head_dim, o.head_dim), position_of(t)), t, j * r.experts + e,
                                 heads, j, by_head ? (slot * kv_heads + j) * heads : slot * kv_heads + j);
          o_t.insert(o_t.end(), one.begin(), one.end());
        }
        Row result = product(o_t, part(v["W_o"], e * width * o.width, width * o.width), o.width);
        if (o.output_bias) add(result, part(v["b_o"], e * o.width, o.width));
        add(y_t, times(r.gate[t][n], result));
      }
      y.push_back(y_t);
    }
    Results all = finished(y);
    all.chosen = r.index;
    add_losses(all, r);
    return all;
  }

  /// The sets of heads that experts of Mae leave out, in lexicographic order.
  [[nodiscard]] std::vector<std::vector<Count>> left_out_sets() const {
    std::vector<std::vector<Count>> sets;
    for (Count i = 0; i < o.heads; ++i) {
      if (o.left_out == 1) sets.push_back({i});
      for (Count j = i + 1; o.left_out == 2 && j < o.heads; ++j) sets.push_back({i, j});
    }
    return sets;
  }
  /// MAE (7): softmax(W_2 tanh(W_1 mean + b_1) + b_2).
  [[nodiscard]] Row gate_of(Row const& mean, std::size_t experts) const {
    Row hidden = product(mean, v["W_1"], o.gate_dim);
    add(hidden, v["b_1"]);
    for (Number& a : hidden) a = tanh(a);
    Row z = product(hidden, v["W_2"], static_cast<Count>(experts));
    add(z, v["b_2"]);
    return softmax(z);
  }
  /// The rows that the gate of query n of a sequence sees: all, those so far, or those of the latest places. Places of
  /// padding count.
  [[nodiscard]] Row pooled(Sequence const& s, std::size_t n) const {
    Row mean(static_cast<std::size_t>(o.width));
    double count = 0;
    for (std::size_t i = 0; i < s.queries.size(); ++i) {
      bool const so_far = i <= n, latest = so_far && s.queries[n] - s.queries[i] < o.pool_window;
      if (o.pool == pool_kind::all || (o.pool == pool_kind::prefix && so_far) ||
          (o.pool == pool_kind::window && latest)) {
        add(mean, in.x[static_cast<std::size_t>(s.queries[i])]);
        ++count;
      }
    }
    return count > 0 ? divided(mean, count) : mean;
  }

  /// MAE (5), (6): an expert is h / (h - t) times the sum of its heads' H_j W_j; the mixture weights experts by the
  /// gate of the sequence, or of the position.
  [[nodiscard]] Results mae() const {
    auto const sets = left_out_sets();
    double const scale = static_cast<double>(o.heads) / static_cast<double>(o.heads - o.left_out);
    bool by_head = !o.maps.empty();
    Results all;
    std::vector<Row> y;
    std::size_t token = 0;
    for (std::size_t b = 0; b < in.sequences.size(); ++b) {
      Sequence const& s = in.sequences[b];
      Count expert = 0;
      if (o.program != program_kind::mixture && o.program != program_kind::mean) {
        expert = o.program == program_kind::given ? s.given_expert : chosen_expert(s, b, sets.size());
        all.chosen.push_back({expert});
      }
      for (std::size_t n = 0; n < s.queries.size(); ++n, ++token) {
        auto const t = static_cast<Count>(token);
        std::vector<Count> heads, draw_rows;
        Row weights;
        if (o.program == program_kind::mixture || o.program == program_kind::mean) {
          Row c(static_cast<std::size_t>(o.heads));
          Row const g = o.program == program_kind::mean ? Row(sets.size(), 1 / static_cast<double>(sets.size()))
                                                        : gate_of(pooled(s, n), sets.size());
          for (std::size_t i = 0; i < sets.size(); ++i) {
            for (Count h = 0; h < o.heads; ++h) {
              if (!contains(sets[i], h)) c[static_cast<std::size_t>(h)] += Number(scale) * g[i];
            }
          }
          heads = all_heads(), weights = c;
          for (Count h = 0; h < o.heads; ++h) draw_rows.push_back(t * o.heads + h);
        } else {
          for (Count h = 0; h < o.heads; ++h) {
            if (contains(sets[static_cast<std::size_t>(expert)], h)) continue;
            auto const j = static_cast<Count>(heads.size());
            heads.push_back(h), weights.push_back(scale);
            draw_rows.push_back((t * (o.heads - o.left_out) + j) * (by_head ? o.heads : 1));
          }
        }
        y.push_back(sum_of_heads(token, heads, weights, draw_rows));
        if (o.output_bias) add(y.back(), v["b_o"]);
      }
    }
    auto const chosen = all.chosen;
    all = finished(y);
    all.chosen = chosen;
    return all;
  }
  [[nodiscard]] static bool contains(std::vector<Count> const& set, Count h) {
    return std::find(set.begin(), set.end(), h) != set.end();
  }
  /// Of the gate of the sequence, or the mean of the gates of its positions: the largest one, or one drawn.
  [[nodiscard]] Count chosen_expert(Sequence const& s, std::size_t sequence, std::size_t experts) const {
    std::vector<double> lots(experts);
    if (o.program != program_kind::uniform) {
      Row g(experts);
      std::size_t const n = s.queries.size(), gates = o.pool == pool_kind::all ? 1 : n;
      for (std::size_t i = 0; i < gates; ++i)
        add(g, times(1 / static_cast<double>(gates), gate_of(pooled(s, i), experts)));
      for (std::size_t e = 0; e < experts; ++e) lots[e] = std::log(g[e].value);
    }
    for (std::size_t e = 0; e < experts && o.program != program_kind::best; ++e)
      lots[e] += in.draws.gumbel(purpose::expert_sampling, sequence * experts + e);
    return largest_columns(lots, 1)[0];
  }
};

}  // namespace headmix::definition
