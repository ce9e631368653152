#pragma once
// SPDX-License-Identifier: MIT
// Whole layers: MoA and dense attention of the same activated width, over sequences of 2048 and of 8192 tokens.
#include "layer.cuh"
#include "shapes.hpp"

namespace bench {

template <class Shape, class Mask>
void add_moa(std::vector<TimedRow>& rows, Index length, double seen) {
  headmix::segments const sizes = headmix::uniform(Shape::tokens / length, length);
  constexpr Index d = Shape::d, h = Shape::h, k = Shape::k;
  double const n = static_cast<double>(Shape::tokens), giga = 1e-9;
  double const attention = 4 * n * k * static_cast<double>(length) * h * seen * giga;
  double const mixture = 2 * n * d * (Shape::experts + 2 * h + 2 * k * h) * giga, dense = 2 * n * d * 4 * k * h * giga;
  std::string const dense_name = Shape::template dense_name<Mask>(length);
  add_layer<typename Shape::template Dense<Mask>, d>(rows, dense_name, sizes, dense, attention);
  add_layer<typename Shape::template Mixture<Mask>, d>(rows, Shape::template mixture_name<Mask>(length), sizes, mixture,
                                                       attention, dense_name);
}
template <class Shape>
std::vector<TimedRow> moa_rows() {
  std::vector<TimedRow> rows;
  for (Index const length : {Shape::length, Shape::long_length}) {
    add_moa<Shape, headmix::full>(rows, length, 1);
    add_moa<Shape, headmix::causal>(rows, length, 0.5);
  }
  return rows;
}
template <class Shape>
bool moa_repeats() {
  static headmix::Int const offsets[] = {0, 700, 700, 1777};
  bool const uniform = repeats<typename Shape::template Mixture<headmix::full>, Shape::d>(
      "MoA, B=8, T=2048", headmix::uniform(Shape::sequences, Shape::length));
  bool const ragged = repeats<typename Shape::template Mixture<headmix::causal>, Shape::d>("MoA, causal, ragged",
                                                                                           headmix::ragged(offsets, 3));
  return uniform && ragged;
}

}  // namespace bench
