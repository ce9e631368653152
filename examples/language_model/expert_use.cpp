// SPDX-License-Identifier: MIT
#include "expert_use.hpp"

namespace lm {
namespace {

/// How many rows chose each of the `count` experts or heads, of which all use the first `shared`.
void add_loads(HostMatrix<Int> const& chosen, Index count, Index shared, std::vector<double>& loads) {
  loads.resize(static_cast<std::size_t>(count));
  for (Int const e : chosen.numbers) loads[static_cast<std::size_t>(shared + e)] += 1;
  for (Index e = 0; e < shared; ++e) loads[static_cast<std::size_t>(e)] += static_cast<double>(chosen.rows);
}
/// Of the gate of mae: entropy, and the bytes that experts had.
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
  auto const bytes_of_experts = [&]() -> headmix::ExpertCounts& {
    use.bytes.resize(layers, headmix::ExpertCounts(256, o.experts));
    return use.bytes[layer];
  };
  auto const& c = chosen.numbers;
  if (o.attention == Attention::moh) {
    add_loads(chosen, o.heads, o.shared_heads, use.loads[layer]);
  } else if (!c.empty()) {
    add_loads(chosen, o.experts, 0, use.loads[layer]);
  }
  if (o.attention == Attention::moa) {
    bytes_of_experts().add({bytes, chosen.rows, 1}, {c.data(), chosen.rows, chosen.cols});
  }
  if (gate.rows > 0) {
    use.gate_entropy.resize(layers);
    add_gate(gate, bytes, use.gate_entropy[layer], bytes_of_experts());
  }
  // The pass of mae with single experts is a second one over the same bytes.
  bool const second = o.attention == Attention::mae && !c.empty();
  if (!second && !ffn_chosen.numbers.empty()) add_loads(ffn_chosen, o.ffn_experts, 0, use.ffn_loads[layer]);
}

}  // namespace lm
