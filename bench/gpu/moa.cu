// SPDX-License-Identifier: MIT
// Whole layers: MoA and, as its yardstick, dense attention of the same activated width, both of headmix. Forward, and
// forward with backward; call by call and as a CUDA graph. --check: instead, 20 passes that must agree bit by bit.
#include "layer.cuh"
#include "shapes.hpp"

using namespace bench;

namespace {
using shape = shape_a;

template <class Mask>
void time_both(headmix::segments sizes, double mixture, double dense, double attention, Ceilings const& c) {
  time_layer<shape::Mixture<Mask>, shape::d>(shape::mixture_name<Mask>(), sizes, mixture, attention, c);
  time_layer<shape::Dense<Mask>, shape::d>(shape::dense_name<Mask>(), sizes, dense, attention, c);
}
}  // namespace

int main(int argc, char** argv) {
  try {
    headmix::segments const sizes = headmix::uniform(shape::sequences, shape::length);
    if (checks(argc, argv)) {
      static headmix::Int const offsets[] = {0, 700, 700, 1777};
      bool ok = repeats<shape::Mixture<headmix::full>, shape::d>("MoA, B=8, T=2048", sizes);
      ok &= repeats<shape::Mixture<headmix::causal>, shape::d>("MoA, causal, ragged", headmix::ragged(offsets, 3));
      return ok ? 0 : 1;
    }
    Ceilings const c = ceilings_of(argc, argv);
    constexpr Index d = shape::d, h = shape::h, k = shape::k;
    double const n = static_cast<double>(shape::tokens), giga = 1e-9;
    double const attention = 4 * n * k * shape::length * h * giga;
    double const mixture = 2 * n * d * (shape::experts + 2 * h + 2 * k * h) * giga,
                 dense = 2 * n * d * 4 * k * h * giga;
    time_both<headmix::full>(sizes, mixture, dense, attention, c);
    time_both<headmix::causal>(sizes, mixture, dense, attention / 2, c);
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
