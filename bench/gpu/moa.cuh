#pragma once
// SPDX-License-Identifier: MIT
// Whole layers: MoA and dense attention of the same activated width, both of headmix, over sequences of 2048 and of
// 8192 tokens. Forward, and forward with backward; call by call and as a CUDA graph.
#include "layer.cuh"
#include "shapes.hpp"

namespace bench {

template <class Shape, class Mask>
void time_moa(Index length, double seen, Ceilings const& c) {
  headmix::segments const sizes = headmix::uniform(Shape::tokens / length, length);
  constexpr Index d = Shape::d, h = Shape::h, k = Shape::k;
  double const n = static_cast<double>(Shape::tokens), giga = 1e-9;
  double const attention = 4 * n * k * static_cast<double>(length) * h * seen * giga;
  double const mixture = 2 * n * d * (Shape::experts + 2 * h + 2 * k * h) * giga, dense = 2 * n * d * 4 * k * h * giga;
  time_layer<typename Shape::template Mixture<Mask>, d>(Shape::template mixture_name<Mask>(length), sizes, mixture,
                                                        attention, c);
  time_layer<typename Shape::template Dense<Mask>, d>(Shape::template dense_name<Mask>(length), sizes, dense, attention,
                                                      c);
}

/// The program. --check: instead, 20 passes that must agree bit by bit.
template <class Shape>
int moa_program(int argc, char** argv) {
  try {
    if (checks(argc, argv)) {
      static headmix::Int const offsets[] = {0, 700, 700, 1777};
      bool ok = repeats<typename Shape::template Mixture<headmix::full>, Shape::d>(
          "MoA, B=8, T=2048", headmix::uniform(Shape::sequences, Shape::length));
      ok &= repeats<typename Shape::template Mixture<headmix::causal>, Shape::d>("MoA, causal, ragged",
                                                                                 headmix::ragged(offsets, 3));
      return ok ? 0 : 1;
    }
    Ceilings const c = ceilings_of(argc, argv);
    for (Index const length : {Shape::length, Shape::long_length}) {
      time_moa<Shape, headmix::full>(length, 1, c);
      time_moa<Shape, headmix::causal>(length, 0.5, c);
    }
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace bench
