#pragma once
// SPDX-License-Identifier: MIT
// A configuration of a layer as data, its inputs, and its results. No header of the library is included here.

#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "draws.hpp"
#include "number.hpp"

namespace headmix::definition {

using Count = std::ptrdiff_t;

enum class family { multi_head, moh, moa, mae, mh_moe };
/// full; causal; the latest n keys; the two latest keys and the first one; keys at a distance of at most one, where
/// queries and keys are numbered from 0 each.
enum class mask_kind { full, causal, window, first_and_latest, neighbours };
enum class scores_kind { products, cosine, layer_norm };
/// s -> c tanh(s / c); s - m_h |t - s| with the slopes of the authors' code, of the paper's text, or learned ones; s
/// times a learned number for each head; s + t s / 8 - h / 4.
enum class map_kind { soft_cap, alibi, geometric_alibi, learned_slope, learned_gain, place_and_head };
struct score_map_option {
  map_kind kind;
  double cap = 0;
};
enum class router_kind { none, softmax_top_k, two_stage, query_norm, loss_free };
enum class gating_kind { detached, raw, renormalized };
enum class loss_kind {
  load_balance,
  first_choice_balance,
  z,
  z_with_padding,
  head_balance,
  head_balance_unscaled,
  cv_squared
};
enum class pool_kind { all, prefix, window };
/// What a layer of Mae computes: the mixture, one expert for each sequence, or all with equal weights.
enum class program_kind { mixture, given, drawn, uniform, best, mean };
enum class activation_kind { swiglu, gelu, relu, gelu_tanh };

struct feed_forward_options {
  Count hidden = 0;  ///< 0: no network
  activation_kind activation = activation_kind::swiglu;
  bool ternary = false, bias = false;
  double hidden_dropout = 0;
};

struct layer_options {
  definition::family family = definition::family::multi_head;
  Count width = 6, heads = 4, head_dim = 4;

  // Attention.
  mask_kind mask = mask_kind::full;
  Count window = 3;
  bool query_bias = false, key_bias = false, value_bias = false, output_bias = false;
  Count kv_heads = 0;       ///< 0: one in Moa, else as many as heads
  Count context_width = 0;  ///< 0: self-attention
  Count value_width = 0;    ///< 0: values are of the keys' input
  bool padded = false;
  double rope_theta = 0;  ///< 0: none
  scores_kind scores = scores_kind::products;
  Count cosine_keys = 6;
  Count image_height = 0, image_width = 0, image_hidden = 4;  ///< of relative_position_bias; 0: none
  Count trained_height = 2, trained_width = 3;
  std::vector<score_map_option> maps = {};
  double probability_dropout = 0, output_dropout = 0;
  bool dense_projections = false;

  // Routers.
  router_kind router = router_kind::none;
  Count experts = 4, top_k = 2, shared = 0, routed = 0;  ///< top_k of the routed heads
  gating_kind gating = gating_kind::detached;
  bool noise = false;
  double noise_floor = 0.01;
  Count sampled = 0;
  bool paper_scaling = false, estimates_active = false;
  std::vector<loss_kind> losses = {};

  // Mae.
  Count left_out = 1, gate_dim = 256;
  pool_kind pool = pool_kind::all;
  Count pool_window = 2;
  program_kind program = program_kind::mixture;

  // MhMoe.
  Count split = 1;
  bool head = true, merge = true, head_bias = false, merge_bias = false, residual = false;
  feed_forward_options expert = {}, shared_expert = {};
  /// An expert takes at most top_k floor(capacity ceil(rows / experts)) rows; below 0: all of them.
  double capacity = -1;
  Count capacity_rows = -1;  ///< or so many
};

/// The rows of a sequence: those of x that are tokens, and those of the context, or again of x.
struct Sequence {
  std::vector<Count> queries, keys;
  Count past = -1;         ///< the position of the first query, where it is given
  Count given_expert = 0;  ///< of Mae
};

struct Inputs {
  std::vector<Row> x, context, values;  ///< rows with padding
  std::vector<Sequence> sequences;
  Draws draws;
};

/// Parameters and buffers by name, row-major.
struct Values {
  std::map<std::string, Row> all;

  Row const& operator[](std::string const& name) const {
    auto const found = all.find(name);
    if (found == all.end()) throw std::runtime_error("the definition has a parameter " + name + ", the layer has none");
    return found->second;
  }
};

struct Results {
  std::vector<Row> y;  ///< rows with padding
  Row losses;
  std::vector<std::vector<Count>> chosen;
};

/// x W for W [size of x, columns], which begins at `first`.
inline Row product(Row const& x, Row const& w, Count columns, Count first = 0) {
  Row y(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) {
      y[j] += x[i] * w.at(static_cast<std::size_t>(first) + i * y.size() + j);
    }
  }
  return y;
}
/// Numbers first .. first + n - 1.
inline Row part(Row const& a, Count first, Count n) { return Row(a.begin() + first, a.begin() + first + n); }
inline void add(Row& a, Row const& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b.at(i);
}
inline Row times(Number a, Row const& b) {
  Row y;
  for (Number const& x : b) y.push_back(a * x);
  return y;
}

}  // namespace headmix::definition
