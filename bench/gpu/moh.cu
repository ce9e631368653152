// SPDX-License-Identifier: MIT
// Whole layers: MoH with 12 or 8 of 16 heads active, 4 of them shared, with and without dense projections, and
// multi-head attention with all heads. FLOPs are those of the chosen heads.
#include "layer.cuh"

namespace {

using namespace bench;
constexpr Index sequences = 8, length = 2048, tokens = sequences * length, d = 1024, h = 64, heads = 16, shared = 4;

/// A router with `chosen` of the routed heads.
template <Index chosen, class Mask, class... Options>
using Mixture = headmix::Moh<d, h, headmix::TwoStage<shared, heads - shared, chosen>, Mask, Options...>;
template <class Mask>
using Dense = headmix::MultiHead<d, heads, h, Mask>;

std::string all_heads(std::string const& mask) { return "multi-head 16 x 64, " + mask; }

template <Index chosen, class Mask, class... Options>
void add_mixture(std::vector<TimedRow>& rows, std::string const& mask, double seen) {
  double const n = static_cast<double>(tokens), giga = 1e-9;
  constexpr Index active = shared + chosen;
  double const products = 2 * n * d * (heads + 2 + 2 * heads * h + 2 * active * h) * giga;
  add_layer<Mixture<chosen, Mask, Options...>, d>(
      rows,
      "MoH " + std::to_string(active) + " of 16 x 64, " + mask + (sizeof...(Options) > 0 ? ", dense projections" : ""),
      headmix::uniform(sequences, length), products, 4 * n * active * length * h * seen * giga, all_heads(mask));
}
template <class Mask>
void add_all(std::vector<TimedRow>& rows, std::string const& mask, double seen) {
  double const n = static_cast<double>(tokens), giga = 1e-9;
  add_layer<Dense<Mask>, d>(rows, all_heads(mask), headmix::uniform(sequences, length),
                            2 * n * d * 4 * heads * h * giga, 4 * n * heads * length * h * seen * giga);
  add_mixture<8, Mask>(rows, mask, seen);
  add_mixture<8, Mask, headmix::dense_projections>(rows, mask, seen);
}

}  // namespace

std::vector<TimedRow> bench::timed_rows() {
  std::vector<TimedRow> rows;
  add_all<headmix::causal>(rows, "causal", 0.5);
  add_mixture<4, headmix::causal>(rows, "causal", 0.5);
  add_mixture<4, headmix::causal, headmix::dense_projections>(rows, "causal", 0.5);
  add_all<headmix::full>(rows, "all keys", 1);
  return rows;
}
bool bench::passes_repeat() {
  static headmix::Int const offsets[] = {0, 700, 700, 1777};
  bool ok = repeats<Mixture<8, headmix::full>, d>("MoH, B=8, T=2048", headmix::uniform(sequences, length));
  ok &= repeats<Mixture<8, headmix::causal>, d>("MoH, causal, ragged", headmix::ragged(offsets, 3));
  ok &= repeats<Mixture<8, headmix::causal, headmix::dense_projections>, d>("MoH, causal, ragged, dense projections",
                                                                            headmix::ragged(offsets, 3));
  return ok;
}
