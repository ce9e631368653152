#pragma once
// SPDX-License-Identifier: MIT
// Attention problems without memory, as programs pass them to scratch functions.

#include "headmix/contract/attention_problem.hpp"

namespace headmix::detail::conformance {

/// Extents and strides of a problem, with null data.
template <class T, class Map>
attention_forward<T, Map> before_memory(attention_forward<T, Map> p) {
  p.q.data = p.k.data = p.v.data = nullptr;
  p.o.data = nullptr;
  p.lse.data = nullptr;
  p.probabilities.data = nullptr;
  p.scores.bias.data = nullptr;
  if (p.extents.chosen.given) p.extents.chosen = {nullptr, nullptr, p.extents.chosen.per_token};
  return p;
}
template <class T, class Map>
attention_backward<T, Map> before_memory(attention_backward<T, Map> p) {
  p.q.data = p.k.data = p.v.data = p.o.data = p.d_o.data = nullptr;
  p.d_q.data = p.d_k.data = p.d_v.data = nullptr;
  p.lse.data = nullptr;
  p.probabilities.data = nullptr;
  p.scores.bias.data = nullptr;
  if (p.extents.chosen.given) p.extents.chosen = {nullptr, nullptr, p.extents.chosen.per_token};
  return p;
}

}  // namespace headmix::detail::conformance
