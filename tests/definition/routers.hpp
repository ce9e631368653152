#pragma once
// SPDX-License-Identifier: MIT
// Definitions of the routers and of their losses, row by row.

#include "options.hpp"

namespace headmix::definition {

/// What a router says of every row: experts and their weights; probabilities p and logits z of the routed experts, and
/// the chosen ones among them.
struct Route {
  std::vector<std::vector<Count>> index, chosen;
  std::vector<Row> gate, p, z, z_with_padding;
  Count experts = 0;
};

/// Logits x W_g, with noise eps (softplus(x W_noise) + floor) (Shazeer et al. 2017, equation 4).
inline Row logits_of(layer_options const& o, Values const& v, Draws const& draws, Row const& x, Count row) {
  Row z = product(x, v["W_g"], o.experts);
  if (!o.noise) return z;
  Row const deviation = product(x, v["W_noise"], o.experts);
  for (std::size_t e = 0; e < z.size(); ++e) {
    auto const number = static_cast<std::uint64_t>(row) * z.size() + e;
    z[e] += Number(draws.normal(purpose::gating_noise, number)) * (softplus(deviation[e]) + Number(o.noise_floor));
  }
  return z;
}
/// G(t) = top-k of p (MoA, equation 8); of these, the last `sampled` ones are drawn without replacement with
/// probabilities proportional to p + 1e-6 (MoA's code), by the largest log(p + 1e-6) + Gumbel.
inline std::vector<Count> choose(layer_options const& o, Draws const& draws, Row const& p, Count row) {
  std::vector<double> values;
  for (Number const& x : p) values.push_back(x.value);
  auto chosen = largest_columns(values, o.top_k - o.sampled);
  if (o.sampled == 0) return chosen;
  std::vector<double> lots;
  for (std::size_t e = 0; e < p.size(); ++e) {
    auto const number = static_cast<std::uint64_t>(row) * p.size() + e;
    lots.push_back(std::log(values[e] + 1e-6) + draws.gumbel(purpose::expert_sampling, number));
  }
  for (Count const e : chosen) lots[static_cast<std::size_t>(e)] = std::nan("");
  for (Count const e : largest_columns(lots, o.sampled)) chosen.push_back(e);
  return chosen;
}

inline Row at_columns(Row const& p, std::vector<Count> const& columns) {
  Row some;
  for (Count const e : columns) some.push_back(p.at(static_cast<std::size_t>(e)));
  return some;
}
inline Row divided(Row const& a, Number by) {
  Row y;
  for (Number const& x : a) y.push_back(x / by);
  return y;
}
inline std::vector<double> values_of(Row const& a) {
  std::vector<double> v;
  for (Number const& x : a) v.push_back(x.value);
  return v;
}

/// MoA's router (equations 7 to 9). `number` is a row's number among `all`, which has the rows of padding, too.
inline Route softmax_top_k(layer_options const& o, Values const& v, Draws const& draws, std::vector<Row> const& rows,
                           std::vector<Row> const& all, std::vector<Count> const& number) {
  Route r;
  r.experts = o.experts;
  bool padding = false;
  for (loss_kind const l : o.losses) padding = padding || l == loss_kind::z_with_padding;
  if (padding) {
    for (std::size_t i = 0; i < all.size(); ++i)
      r.z_with_padding.push_back(logits_of(o, v, draws, all[i], static_cast<Count>(i)));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row const z = padding ? r.z_with_padding[static_cast<std::size_t>(number[i])]
                          : logits_of(o, v, draws, rows[i], static_cast<Count>(i));
    Row const p = softmax(z);
    auto const chosen = choose(o, draws, p, static_cast<Count>(i));
    Row gate = at_columns(p, chosen);
    if (o.gating == gating_kind::detached) gate = divided(gate, detach(sum(gate)));  // (9)
    if (o.gating == gating_kind::renormalized) gate = divided(gate, sum(gate));      // JetMoE
    r.z.push_back(z), r.p.push_back(p), r.gate.push_back(gate);
    r.index.push_back(chosen), r.chosen.push_back(chosen);
  }
  return r;
}

/// MoH's router (equations 5 and 6), or its published code: 2 alpha, h_s s, and K_r p / sum p.
inline Route two_stage(layer_options const& o, Values const& v, std::vector<Row> const& rows) {
  Route r;
  r.experts = o.shared + o.routed;
  bool const groups = o.shared > 0 && o.routed > 0;
  for (Row const& x : rows) {
    Row alpha{1, 1}, shared(static_cast<std::size_t>(o.shared), Number(1));
    if (groups) alpha = softmax(product(x, v["W_h"], 2));
    if (groups && !o.paper_scaling) alpha = times(2, alpha);
    if (o.shared > 1) {
      shared = softmax(product(x, v["W_s"], o.shared));
      if (!o.paper_scaling) shared = times(static_cast<double>(o.shared), shared);
    }
    std::vector<Count> index, chosen;
    Row gate, z, p;
    for (Count i = 0; i < o.shared; ++i) {
      index.push_back(i);
      gate.push_back(alpha[0] * shared[static_cast<std::size_t>(i)]);
    }
    if (o.routed > 0) {
      z = product(x, v["W_r"], o.routed), p = softmax(z);
      chosen = largest_columns(values_of(p), o.top_k);
      Row routed = at_columns(p, chosen);
      if (!o.paper_scaling) routed = times(static_cast<double>(o.top_k), divided(routed, sum(routed)));
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        index.push_back(o.shared + chosen[i]);
        gate.push_back(alpha[1] * routed[i]);
      }
    }
    r.z.push_back(z), r.p.push_back(p), r.gate.push_back(gate);
    r.index.push_back(index), r.chosen.push_back(chosen);
  }
  return r;
}

/// MoH's router of pretrained models (equations 8 to 10; the published code divides lengths by their deviation):
/// `queries` are those of all heads. Weights are 1 and, of routed heads that were not chosen, 0; their gradient is that
/// of the probability. With estimates_active, heads that were not chosen get none.
inline Route query_norm(layer_options const& o, std::vector<Row> const& queries) {
  Route r;
  r.experts = o.shared + o.routed;
  for (Row const& q : queries) {
    Row length;
    for (Count h = o.shared; h < r.experts; ++h) {
      Number s;
      for (Number const& a : part(q, h * o.head_dim, o.head_dim)) s += a * a;
      length.push_back(root(s));
    }
    double const n = static_cast<double>(o.routed);
    Number const mean = sum(length) / Number(n);
    Number squares;
    for (Number const& a : length) squares += (a - mean) * (a - mean);
    Number const deviation = larger(root(squares / Number(n - 1)), 1e-6);
    Row const p = softmax(divided(length, deviation));
    auto const chosen = largest_columns(values_of(p), o.top_k);
    std::vector<Count> index;
    Row gate;
    for (Count i = 0; i < o.shared; ++i) index.push_back(i), gate.push_back(1);
    std::vector<Count> listed = chosen;  // the best one first
    if (!o.estimates_active) {
      listed.clear();
      for (Count i = 0; i < o.routed; ++i) listed.push_back(i);
    }
    for (Count const i : listed) {
      bool is_chosen = false;
      for (Count const c : chosen) is_chosen = is_chosen || c == i;
      index.push_back(o.shared + i);
      gate.push_back(straight_through(is_chosen ? 1 : 0, p[static_cast<std::size_t>(i)]));
    }
    r.p.push_back(p), r.gate.push_back(gate);
    r.index.push_back(index), r.chosen.push_back(chosen);
  }
  return r;
}

/// DeepSeek-V3, equations 13 to 16: the experts with the largest p + b, p = sigmoid(x W_g), with the weights p / sum p.
inline Route loss_free(layer_options const& o, Values const& v, std::vector<Row> const& rows) {
  Route r;
  r.experts = o.experts;
  for (Row const& x : rows) {
    Row p = product(x, v["W_g"], o.experts);
    for (Number& a : p) a = sigmoid(a);
    std::vector<double> scores = values_of(p);
    for (std::size_t e = 0; e < scores.size(); ++e) scores[e] += v["selection_bias"].at(e).value;
    auto const chosen = largest_columns(scores, o.top_k);
    Row const some = at_columns(p, chosen);
    r.p.push_back(p), r.gate.push_back(divided(some, sum(some)));
    r.index.push_back(chosen), r.chosen.push_back(chosen);
  }
  return r;
}

/// A router's loss. P_i is the mean probability of expert i over the rows, f_i the share of the rows that chose it.
inline Number loss_of(loss_kind kind, Route const& r) {
  auto const rows = static_cast<double>(r.p.size());
  if (kind == loss_kind::z || kind == loss_kind::z_with_padding) {  // MoA (16)
    auto const& z = kind == loss_kind::z ? r.z : r.z_with_padding;
    Number s;
    for (Row const& row : z) {
      Number const l = log_sum_exp(row);
      s += l * l;
    }
    return s / Number(static_cast<double>(z.size()));
  }
  if (kind == loss_kind::cv_squared) {  // Shazeer et al. (7), MoA's code
    Row importance(static_cast<std::size_t>(r.experts));
    for (std::size_t t = 0; t < r.gate.size(); ++t) {
      for (std::size_t i = 0; i < r.gate[t].size(); ++i)
        importance[static_cast<std::size_t>(r.index[t][i])] += r.gate[t][i];
    }
    importance = divided(importance, sum(importance));
    auto const n = static_cast<double>(r.experts);
    Number const mean = sum(importance) / Number(n);
    Number variance;
    for (Number const& g : importance) variance += (g - mean) * (g - mean);
    return variance / Number(n - 1) / (mean * mean + Number(1e-10));
  }
  std::size_t const experts = r.p.at(0).size();
  Row P(experts);
  std::vector<double> f(experts), first(experts);
  double choices = 0;
  for (std::size_t t = 0; t < r.p.size(); ++t) {
    for (std::size_t e = 0; e < experts; ++e) P[e] += r.p[t][e] / Number(rows);
    first[static_cast<std::size_t>(r.chosen[t].at(0))] += 1 / rows;
    for (Count const e : r.chosen[t]) f[static_cast<std::size_t>(e)] += 1 / rows, choices += 1 / rows;
  }
  auto const E = static_cast<double>(experts);
  Number l;
  for (std::size_t e = 0; e < experts; ++e) {
    switch (kind) {
      case loss_kind::load_balance:
        l += Number(E * f[e] / choices) * P[e] / sum(P);
        break;  // MoA (13)-(15)
      case loss_kind::first_choice_balance:
        l += Number(E * first[e]) * P[e];
        break;  // MH-MoE's code
      case loss_kind::head_balance:
        l += Number(E * f[e]) * P[e];
        break;  // MoH's code
      default:
        l += Number(f[e]) * P[e];
        break;  // MoH (7)
    }
  }
  return l;
}

}  // namespace headmix::definition
