// SPDX-License-Identifier: MIT
// Whole layers: MoA and, as its yardstick, dense attention of the same activated width, both of headmix. Forward, and
// forward with backward; call by call and as a CUDA graph. --check: instead, 20 passes that must agree bit by bit.
#include "layer.cuh"

using namespace bench;

namespace {
constexpr Index sequences = 8, length = 2048, tokens = sequences * length, d = 1024, h = 128, k = 8, experts = 32;

template <class Mask>
using Mixture = headmix::Moa<d, h, headmix::SoftmaxTopK<experts, k>, Mask>;
template <class Mask>
using Dense = headmix::MultiHead<d, k, h, Mask>;
}  // namespace

int main(int argc, char** argv) {
  try {
    headmix::segments const sizes = headmix::uniform(sequences, length);
    if (checks(argc, argv)) {
      static headmix::Int const offsets[] = {0, 700, 700, 1777};
      bool ok = repeats<Mixture<headmix::full>, d>("MoA, B=8, T=2048", sizes);
      ok &= repeats<Mixture<headmix::causal>, d>("MoA, causal, ragged", headmix::ragged(offsets, 3));
      return ok ? 0 : 1;
    }
    Ceilings const c = ceilings_of(argc, argv);
    double const n = static_cast<double>(tokens), giga = 1e-9;
    double const attention = 4 * n * k * length * h * giga;
    double const mixture = 2 * n * d * (experts + 2 * h + 2 * k * h) * giga, dense = 2 * n * d * 4 * k * h * giga;
    time_layer<Mixture<headmix::full>, d>("MoA 8 of 32 x 128, all keys", sizes, mixture, attention, c);
    time_layer<Mixture<headmix::causal>, d>("MoA 8 of 32 x 128, causal", sizes, mixture, attention / 2, c);
    time_layer<Dense<headmix::full>, d>("dense 8 x 128, all keys", sizes, dense, attention, c);
    time_layer<Dense<headmix::causal>, d>("dense 8 x 128, causal", sizes, dense, attention / 2, c);
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
