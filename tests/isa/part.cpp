// SPDX-License-Identifier: MIT
// What kernels of the CPU make, as a number: a unit for one instruction set. PART is the function's name.

#include <cstdint>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/expr/pointwise.hpp"

using namespace headmix;

std::uint64_t PART();
std::uint64_t PART() {
  constexpr Index rows = 70, depth = 90, cols = 150, experts = 3, choices = 2;
  Random const random(3);
  auto const numbers = [&](Index n, std::uint64_t first) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(random.normal(first + i));
    return v;
  };
  std::uint64_t digest = 1469598103934665603u;
  auto const add = [&](std::vector<float> const& v) {
    for (float const x : v) digest = (digest ^ __builtin_bit_cast(std::uint32_t, x)) * 1099511628211u;
  };
  auto a = numbers(rows * depth, 0), b = numbers(experts * depth * cols, 100000);
  std::vector<float> c(static_cast<std::size_t>(rows * cols)), y(static_cast<std::size_t>(rows * choices * cols));
  view<float const> const va(a.data(), rows, depth), vb(b.data(), depth, cols), vw(b.data(), experts, depth, cols);
  view<float> const vc(c.data(), rows, cols), vy(y.data(), rows * choices, cols);
  Cpu<float> cpu;
  for (bool const transposed : {false, true}) {
    cpu.gemm(vc, va, transposed ? view<float const>(b.data(), cols, depth).transposed() : vb, false);
    add(c);
  }
  using leaf_tree = tree_leaf<float, false, false>;
  using tanh_tree = tree_node<float, ops::tanh, leaf_tree>;
  cpu.map(vc, tree_node<float, ops::multiply, tanh_tree, leaf_tree>{{{vc}}, {vc}}, false);
  add(c);
  cpu.row_sum(vc.middle_cols(0, 1), lazy<tanh_tree>{{{vc}}, rows, cols}, false);
  cpu.softmax(vc, view<float const>(vc));
  add(c);
  std::vector<Int> index(static_cast<std::size_t>(rows * choices)), perm(index.size()), offsets(experts + 1);
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<Int>((i / 3 + i % 2) % experts);
  view<Int> const order(perm.data(), 1, rows * choices), begins(offsets.data(), 1, experts + 1);
  cpu.sort_by_expert(order, begins, view<Int const>(index.data(), rows, choices), uniform(1, rows));
  AlignedBuffer products(cpu.grouped_gemm_scratch(vy, va, vw));
  cpu.grouped_gemm(vy, va, vw, order, begins, choices, products.bytes());
  add(y);
  std::vector<float> dw(b.size());
  view<float> const vdw(dw.data(), experts, depth, cols);
  AlignedBuffer outer(cpu.grouped_outer_scratch(vdw, va, vy));
  cpu.grouped_outer(vdw, va, vy, order, begins, choices, 1, false, outer.bytes());
  add(dw);
  return digest;
}
