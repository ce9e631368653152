// SPDX-License-Identifier: MIT
// The result of a layer on the CPU as one number: a unit for one instruction set. PART is the function's name.

#include <cstdint>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/digest.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

std::uint64_t PART();
std::uint64_t PART() {
  constexpr Index rows = 70, width = 40;
  std::vector<float> x(static_cast<std::size_t>(rows * width)), dy = x;
  Random const random(3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(random.normal(i));
    dy[i] = static_cast<float>(random.normal(i + x.size()));
  }
  Module<Moa<width, 24, SoftmaxTopK<6, 2>, causal>, Cpu<float>> m(1);
  std::uint64_t digest = detail::fnv1a_basis;
  auto const add = [&](view<float const> v) {
    for (Index i = 0; i < v.size(); ++i) digest = detail::fnv1a(digest, __builtin_bit_cast(std::uint32_t, v.data[i]));
  };
  add(m.forward({x.data(), rows, width}));
  m.backward({dy.data(), rows, width}, {1, 1});
  add(m.input_gradient());
  for (auto const& p : m.parameters()) add(p.gradient);
  return digest;
}
