// SPDX-License-Identifier: MIT
#include "expert_use.hpp"

namespace lm {
namespace {

/// Adds the number of rows that chose each of the `count` experts or heads; all rows use the first `shared`.
void add_loads(HostMatrix<Int> const& chosen, Index count, Index shared, std::vector<double>& loads) {
  loads.resize(static_cast<std::size_t>(count));
  for (Int const e : chosen.numbers) loads[static_cast<std::size_t>(shared + e)] += 1;
  for (Index e = 0; e < shared; ++e) loads[static_cast<std::size_t>(e)] += static_cast<double>(chosen.rows);
}
/// Row i chose for byte i / parts, where a byte has this number of sub-tokens.
void add_bytes(HostMatrix<Int> const& chosen, Index first, Index parts, Int const* bytes,
               headmix::ExpertCounts& counts) {
  for (Index i = 0; i < chosen.rows; ++i)
    for (Index k = 0; k < chosen.cols; ++k)
      counts.add(bytes[i / parts], first + chosen.numbers[static_cast<std::size_t>(i * chosen.cols + k)]);
}
/// Adds the entropy of the gate of mae, and the bytes of its experts.
void add_gate(HostMatrix<float> const& gate, Int const* bytes, double& entropy, headmix::ExpertCounts& counts) {
  view<float const> const g(gate.numbers.data(), gate.rows, gate.cols);
  entropy += headmix::gate_entropy(g) * static_cast<double>(g.rows);
  for (Index i = 0; i < g.rows; ++i) {
    for (Index e = 0; e < g.cols; ++e) counts.add(bytes[i], e, static_cast<double>(g(i, e)));
  }
}

}  // namespace

void observe(Options const& o, std::size_t layer, HostMatrix<Int> const& chosen, HostMatrix<float> const& gate,
             HostMatrix<Int> const& ffn_chosen, Int const* bytes, ExpertUse& use) {
  auto const layers = static_cast<std::size_t>(o.layers);
  use.loads.resize(layers);
  use.ffn_loads.resize(layers);
  auto const counts = [&](std::vector<headmix::ExpertCounts>& of_layers, Index experts) -> headmix::ExpertCounts& {
    of_layers.resize(layers, headmix::ExpertCounts(256, experts));
    return of_layers[layer];
  };
  auto const& c = chosen.numbers;
  if (o.attention == Attention::moh) {
    add_loads(chosen, o.heads, o.shared_heads, use.loads[layer]);
    add_bytes(chosen, o.shared_heads, 1, bytes, counts(use.bytes, o.heads));
  } else if (!c.empty()) {
    add_loads(chosen, o.experts, 0, use.loads[layer]);
  }
  if (o.attention == Attention::moa) {
    add_bytes(chosen, 0, 1, bytes, counts(use.bytes, o.experts));
  }
  if (gate.rows > 0) {
    use.gate_entropy.resize(layers);
    add_gate(gate, bytes, use.gate_entropy[layer], counts(use.bytes, o.experts));
  }
  // The pass of mae with single experts is a second pass over the same bytes.
  bool const second = o.attention == Attention::mae && !c.empty();
  if (!second && !ffn_chosen.numbers.empty()) {
    add_loads(ffn_chosen, o.ffn_experts, 0, use.ffn_loads[layer]);
    add_bytes(ffn_chosen, 0, o.ffn == Ffn::mh_moe ? o.split : 1, bytes, counts(use.ffn_bytes, o.ffn_experts));
  }
}

}  // namespace lm
