#pragma once
// SPDX-License-Identifier: MIT
// Definitions of FeedForward, Smoe and MhMoe: loops over tokens, sub-tokens and experts.

#include "routers.hpp"

namespace headmix::definition {

/// BitNet b1.58: round(x s) / s of -128 .. 127, s = 127 / max |x|, with a straight-through gradient; a row.
inline Row rounded_to_8_bits(Row const& x) {
  double most = 1e-5;
  for (Number const& a : x) most = std::fabs(a.value) > most ? std::fabs(a.value) : most;
  Row y;
  for (Number const& a : x) {
    double const n = std::nearbyint(a.value * (127 / most));
    y.push_back(straight_through((n < -128 ? -128 : n > 127 ? 127 : n) / (127 / most), a));
  }
  return y;
}
/// BitNet b1.58: round(W s) / s of -1, 0, 1, s = 1 / mean |W|, with a straight-through gradient; a matrix.
inline Row rounded_to_ternary(Row const& w) {
  double mean = 0;
  for (Number const& a : w) mean += std::fabs(a.value) / static_cast<double>(w.size());
  mean = mean > 1e-5 ? mean : 1e-5;
  Row y;
  for (Number const& a : w) {
    double const n = std::nearbyint(a.value / mean);
    y.push_back(straight_through((n < -1 ? -1 : n > 1 ? 1 : n) * mean, a));
  }
  return y;
}

/// x W_e, of BitNet b1.58 if ternary.
inline Row linear(feed_forward_options const& f, Row const& x, Row const& stack, Count expert, Count columns) {
  auto const size = static_cast<Count>(x.size()) * columns;
  Row const w = part(stack, expert * size, size);
  return f.ternary ? product(rounded_to_8_bits(x), rounded_to_ternary(w), columns) : product(x, w, columns);
}
/// hidden(x W_up [, x W_gate]) W_down: SwiGLU (Shazeer 2020), GELU (Hendrycks and Gimpel 2016; its approximation by
/// tanh) or ReLU, with biases and dropout of the hidden layer.
/// @param suffix  of the names of parameters
/// @param slot  the row's number among all rows, and of its choices
inline Row feed_forward(feed_forward_options const& f, Values const& v, Row const& x, Count expert,
                        std::string const& suffix, Draws const& draws, std::size_t slot) {
  auto const biased = [&](Row const& a, char const* w, char const* b, Count columns) {
    Row y = linear(f, a, v[w + suffix], expert, columns);
    if (f.bias) add(y, part(v[b + suffix], expert * columns, columns));
    return y;
  };
  Row hidden = biased(x, "W_up", "b_up", f.hidden);
  if (f.activation == activation_kind::swiglu) {
    Row const gate = biased(x, "W_gate", "b_gate", f.hidden);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] = hidden[i] * gate[i] * sigmoid(gate[i]);
  }
  for (Number& a : hidden) {
    if (f.activation == activation_kind::gelu) a = a * normal_cdf(a);
    if (f.activation == activation_kind::relu) a = larger(a, 0);
    if (f.activation == activation_kind::gelu_tanh) {
      Number const u = Number(std::sqrt(2 / std::numbers::pi)) * (a + Number(0.044715) * a * a * a);
      a = Number(0.5) * a * (Number(1) + tanh(u));
    }
  }
  purpose const of = suffix.empty() ? purpose::hidden_dropout : purpose::shared_dropout;
  for (std::size_t j = 0; j < hidden.size(); ++j)
    hidden[j] = hidden[j] * Number(draws.keep(of, slot * hidden.size() + j, f.hidden_dropout));
  return biased(hidden, "W_down", "b_down", static_cast<Count>(x.size()));
}

/// MH-MoE, equations (2) to (4): y = Concat(sum of G(s)_p E_p(s)) W_merge over the sub-tokens s of Split(x W_head).
inline Results mh_moe(layer_options const& o, Values const& v, Inputs const& in) {
  std::vector<Count> tokens;
  for (Sequence const& s : in.sequences) tokens.insert(tokens.end(), s.queries.begin(), s.queries.end());
  Count const part_width = o.width / o.split;
  auto const sub_tokens = [&](Row const& x) {
    Row h = o.head ? product(x, v["W_head"], o.width) : x;
    if (o.head_bias) add(h, v["b_head"]);
    std::vector<Row> parts;
    for (Count j = 0; j < o.split; ++j) parts.push_back(part(h, j * part_width, part_width));
    return parts;
  };
  std::vector<Row> s, with_padding;
  std::vector<Count> number;
  for (Count const t : tokens) {
    for (Row const& one : sub_tokens(in.x[static_cast<std::size_t>(t)])) {
      number.push_back(t * o.split + static_cast<Count>(s.size()) % o.split);
      s.push_back(one);
    }
  }
  bool reads_padding = false;
  for (loss_kind const l : o.losses) reads_padding = reads_padding || l == loss_kind::z_with_padding;
  for (std::size_t t = 0; reads_padding && t < in.x.size(); ++t) {
    for (Row const& one : sub_tokens(in.x[t])) with_padding.push_back(one);
  }
  Route const r = o.router == router_kind::two_stage   ? two_stage(o, v, s)
                  : o.router == router_kind::loss_free ? loss_free(o, v, s)
                                                       : softmax_top_k(o, v, in.draws, s, with_padding, number);
  // GShard: all first choices are numbered in the order of rows, then all second ones.
  auto const rows = static_cast<Count>(s.size());
  Count const choices = rows > 0 ? static_cast<Count>(r.index[0].size()) : 0;
  Count most = o.capacity_rows;
  if (o.capacity >= 0) {
    Count const even = (rows + r.experts - 1) / r.experts;
    most = choices * static_cast<Count>(std::floor(o.capacity * static_cast<double>(even) + 1e-9));
  }
  std::vector<std::vector<bool>> kept(s.size(), std::vector<bool>(static_cast<std::size_t>(choices), true));
  std::vector<Count> taken(static_cast<std::size_t>(r.experts));
  for (std::size_t c = 0; c < static_cast<std::size_t>(choices); ++c) {
    for (std::size_t i = 0; i < s.size(); ++i) {
      Count const n = taken[static_cast<std::size_t>(r.index[i][c])]++;
      kept[i][c] = most < 0 || n < most;
    }
  }
  Results all;
  all.y.assign(in.x.size(), Row(static_cast<std::size_t>(o.width)));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    Row const& x = in.x[static_cast<std::size_t>(tokens[t])];
    Row merged;
    for (Count j = 0; j < o.split; ++j) {
      std::size_t const i = t * static_cast<std::size_t>(o.split) + static_cast<std::size_t>(j);
      Row e(static_cast<std::size_t>(part_width));
      for (std::size_t c = 0; c < static_cast<std::size_t>(choices); ++c) {
        if (!kept[i][c]) continue;
        std::size_t const slot = i * static_cast<std::size_t>(choices) + c;
        add(e, times(r.gate[i][c], feed_forward(o.expert, v, s[i], r.index[i][c], "", in.draws, slot)));
      }
      if (o.residual) add(e, s[i]);
      merged.insert(merged.end(), e.begin(), e.end());
    }
    Row y = o.merge ? product(merged, v["W_merge"], o.width) : merged;
    if (o.merge_bias) add(y, v["b_merge"]);
    if (o.shared_expert.hidden > 0) add(y, feed_forward(o.shared_expert, v, x, 0, "_s", in.draws, t));
    if (o.output_bias) add(y, v["b_o"]);
    for (std::size_t j = 0; j < y.size(); ++j)
      y[j] = y[j] * Number(in.draws.keep(purpose::output_dropout, t * y.size() + j, o.output_dropout));
    all.y[static_cast<std::size_t>(tokens[t])] = y;
  }
  all.chosen = r.index;
  for (loss_kind const l : o.losses) all.losses.push_back(loss_of(l, r));
  return all;
}

}  // namespace headmix::definition
