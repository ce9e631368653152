// SPDX-License-Identifier: MIT
// CUB's launches for the order by expert and for the counts of a router, compared with ours. Compiling this file shows
// that nvcc's generated code, which refers to ::cuda as `cuda`, works with `using namespace headmix`.
#include <doctest/doctest.h>

#include "cuda/cub_order.cuh"
#include "headmix/backend/cuda.hpp"
#include "stub.hpp"

using namespace headmix;

namespace {

/// CUB asks which architecture it was compiled for.
void compile_for_this() {
  int newest = 0;
  for (int const architecture : {__CUDA_ARCH_LIST__}) newest = architecture > newest ? architecture : newest;
  stub::state().compiled_for = newest / 10;
}
/// Kernels that f launches, and other operations of a stream.
template <class F>
int operations_of(F const& f) {
  auto const now = [] { return static_cast<int>(stub::state().launches.size()) + stub::state().memsets; };
  int const before = now();
  f();
  return now() - before;
}

constexpr Index tokens = 16384, chosen = 8, slots = tokens * chosen;

}  // namespace

TEST_CASE("the order by expert takes fewer launches than CUB's radix sort") {
  compile_for_this();
  Sm80::queue const queue;
  for (auto const& [experts, ours] : {std::array{32, 3}, {1023, 3}, {1024, 7}}) {
    CAPTURE(experts);
    Sm80::memory const memory((2 * slots + experts + 1) * sizeof(Int));
    view<Int> const perm(memory.as<Int>(), 1, slots), begins(perm.data + slots, 1, experts + 1);
    view<Int const> const index(begins.data + experts + 1, tokens, chosen);
    testing::order_by_cub by_cub(slots);
    by_cub(queue, perm, begins, index);  // brings its temporary memory
    CHECK(operations_of([&] { cuda_kernels::sort_by_expert(queue, perm, begins, index, uniform(1, tokens)); }) == ours);
    int const of_cub = operations_of([&] { by_cub(queue, perm, begins, index); });
    MESSAGE(experts, " experts: ", ours, " launches, ", of_cub, " kernels and memsets with CUB");
    CHECK(of_cub > ours);
  }
}

TEST_CASE("a router counts and orders its choices in two launches behind its own, fewer than CUB's") {
  compile_for_this();
  constexpr Index width = 1024, experts = 32;
  Cuda<bfloat16, Sm80> backend;
  Sm80::memory const numbers(tokens * (width + 2 * experts * 2) * sizeof(bfloat16) + width * experts * 2),
      others((2 * slots + 2 * experts + 2) * sizeof(Int));
  auto* const x = numbers.as<bfloat16>();
  auto* const w = x + tokens * width;
  auto* const z = reinterpret_cast<float*>(w + width * experts);
  Int *const index = others.as<Int>(), *const order = index + slots, *const begins = order + slots;
  route_problem<bfloat16> r;
  r.x = {x, tokens, width};
  r.w = {w, width, experts};
  r.z = {z, tokens, experts};
  r.p = r.z;
  r.index = {index, tokens, chosen};
  CHECK(operations_of([&] { backend.route(r, {}); }) == 1);
  r.p_sum = {z, 1, experts};
  r.chosen_sum = {z, 1, experts};
  r.order = {order, 1, slots};
  r.begins = {begins, 1, experts + 1};
  Sm80::memory const scratch(backend.route_scratch(r));
  CHECK(operations_of([&] { backend.route(r, scratch.bytes()); }) == 3);

  Sm80::memory temporary(1);
  testing::order_by_cub by_cub(slots);
  auto const by = [&] {
    testing::count_by_cub(backend.queue(), begins + experts + 1, index, slots, experts, temporary);
    by_cub(backend.queue(), r.order, r.begins, r.index);
  };
  by();
  int const of_cub = operations_of(by);
  MESSAGE("counts and order of a router's choices: 2 launches, ", of_cub, " kernels and memsets with CUB");
  CHECK(of_cub > 2);
}
