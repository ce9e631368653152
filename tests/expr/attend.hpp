#pragma once
// SPDX-License-Identifier: MIT
// Attention as plain loops: the reference of the attention tests.

#include <cmath>
#include <vector>

#include "headmix/core/view.hpp"

namespace headmix::test {

/// Operands of an attention. If heads are chosen, `index` [tokens, per_token] has the head, of `heads`, of each row of
/// q.
struct attended {
  view<double> q, k, v;
  segments queries, keys;
  Index per_token = 1, kv_heads = 1;
  view<Int> index = {};
  Index heads = 0;
  bool scaled = true;
  view<double> bias = {};
  Index bias_keys = 0;
};

/// softmax(scores) v of every row, by sequence; zeros for a row without a head or without visible keys.
template <class Mask>
std::vector<double> attend(attended const& a) {
  Index const d = a.k.cols / a.kv_heads, in_row = a.q.cols / d, heads = a.index.data ? a.heads : in_row;
  std::vector<double> o(static_cast<std::size_t>(a.q.size()));
  for (Index b = 0; b < a.queries.count; ++b) {
    for (Index row = a.queries.begin(b) * a.per_token; row < a.queries.end(b) * a.per_token; ++row) {
      Index const token = row / a.per_token;
      Index const position = token - a.queries.begin(b) + a.keys.length(b) - a.queries.length(b);
      for (Index i = 0; i < in_row; ++i) {
        Index const head = a.index.data ? a.index(token, row % a.per_token) : i;
        Index const from = head * a.kv_heads / heads * d, first = a.keys.begin(b);
        if (head < 0) continue;
        double total = 0;
        std::vector<double> p;
        for (Index s = 0; s < a.keys.length(b); ++s) {
          double score = 0;
          for (Index c = 0; c < d; ++c) score += a.q(row, i * d + c) * a.k(first + s, from + c);
          if (a.scaled) score /= std::sqrt(static_cast<double>(d));
          if (a.bias.data) score += a.bias(position * a.bias_keys + s, head);
          p.push_back(Mask::sees(position, s) ? std::exp(score) : 0);
          total += p.back();
        }
        for (Index c = 0; c < d; ++c) {
          double sum = 0;
          for (Index s = 0; s < a.keys.length(b); ++s)
            sum += total > 0 ? p[static_cast<std::size_t>(s)] / total * a.v(first + s, from + c) : 0;
          o[static_cast<std::size_t>(row * a.q.cols + i * d + c)] = sum;
        }
      }
    }
  }
  return o;
}

}  // namespace headmix::test
