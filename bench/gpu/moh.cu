// SPDX-License-Identifier: MIT
// Whole layers: MoH with 12 or 8 of 16 heads active, 4 of them shared, with and without dense projections, and
// multi-head attention with all heads. FLOPs are those of the chosen heads. Forward, and forward with backward; call by
// call and as a CUDA graph. --check: instead, 20 passes that must agree bit by bit.
#include "layer.cuh"

using namespace bench;

namespace {
constexpr Index sequences = 8, length = 2048, tokens = sequences * length, d = 1024, h = 64, heads = 16, shared = 4;

/// A router with `chosen` of the routed heads.
template <Index chosen, class Mask, class... Options>
using Mixture = headmix::Moh<d, h, headmix::TwoStage<shared, heads - shared, chosen>, Mask, Options...>;
template <class Mask>
using Dense = headmix::MultiHead<d, heads, h, Mask>;

std::string all_heads(std::string const& mask) { return "multi-head 16 x 64, " + mask; }

template <Index chosen, class Mask, class... Options>
void time_mixture(std::string const& mask, double seen, Ceilings const& c) {
  double const n = static_cast<double>(tokens), giga = 1e-9;
  constexpr Index active = shared + chosen;
  double const products = 2 * n * d * (heads + 2 + 2 * heads * h + 2 * active * h) * giga;
  time_layer<Mixture<chosen, Mask, Options...>, d>(
      "MoH " + std::to_string(active) + " of 16 x 64, " + mask + (sizeof...(Options) > 0 ? ", dense projections" : ""),
      headmix::uniform(sequences, length), products, 4 * n * active * length * h * seen * giga, c, all_heads(mask));
}
template <class Mask>
void time_all(std::string const& mask, double seen, Ceilings const& c) {
  time_mixture<8, Mask>(mask, seen, c);
  time_mixture<8, Mask, headmix::dense_projections>(mask, seen, c);
  double const n = static_cast<double>(tokens), giga = 1e-9;
  time_layer<Dense<Mask>, d>(all_heads(mask), headmix::uniform(sequences, length), 2 * n * d * 4 * heads * h * giga,
                             4 * n * heads * length * h * seen * giga, c);
}
}  // namespace

int main(int argc, char** argv) {
  try {
    if (checks(argc, argv)) {
      static headmix::Int const offsets[] = {0, 700, 700, 1777};
      bool ok = repeats<Mixture<8, headmix::full>, d>("MoH, B=8, T=2048", headmix::uniform(sequences, length));
      ok &= repeats<Mixture<8, headmix::causal>, d>("MoH, causal, ragged", headmix::ragged(offsets, 3));
      ok &= repeats<Mixture<8, headmix::causal, headmix::dense_projections>, d>(
          "MoH, causal, ragged, dense projections", headmix::ragged(offsets, 3));
      return ok ? 0 : 1;
    }
    Ceilings const c = ceilings_of(argc, argv);
    time_all<headmix::full>("all keys", 1, c);
    time_all<headmix::causal>("causal", 0.5, c);
    time_mixture<4, headmix::causal>("causal", 0.5, c);
    time_mixture<4, headmix::causal, headmix::dense_projections>("causal", 0.5, c);
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
