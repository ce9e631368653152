// SPDX-License-Identifier: MIT
// Programs do not allocate after binding: operator new of this executable counts.

#include <doctest/doctest.h>

#include "../count_allocations.hpp"
#include "../test_program.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/layer/moa.hpp"

namespace allocation_test {

using namespace headmix;
using namespace headmix::test;

namespace {
using layer = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
using program = roots<type_of<decltype(layer::y)>, type_of<decltype(layer::r::load)>, type_of<decltype(layer::r::z_2)>>;
}  // namespace

TEST_CASE("program: after binding neither forward nor backward allocates") {
  TestProgram<program, training, float> p(at<tokens>(11));
  p.forward();
  long const before = allocations;
  REQUIRE(before > 0);
  for (int i = 0; i < 3; ++i) {
    p.program.forward();
    p.program.backward(p.dy, {0.01, 0.001});
  }
  CHECK(allocations == before);
}
TEST_CASE("decoder: a step allocates nothing, and neither do beams and rewinding") {
  Decoder<layer, Cpu<float>> decoder({.sequences = 2, .tokens = 200, .page = 16}, 1);
  std::vector<float> const x(20 * 6, 0.5f);
  auto const rows = [&x](Index n) { return view<float const>(x.data(), n, 6); };
  Index const beams[] = {1, 1};
  decoder.prefill(rows(20));
  decoder.step(rows(2));
  long const before = allocations;
  for (int i = 0; i < 50; ++i) {
    decoder.step(rows(2));
    decoder.reorder(beams);
    if (i % 10 == 9) decoder.rewind(0, 7);
  }
  CHECK(allocations == before);
}
TEST_CASE("program: the first forward pass allocates no more than the later ones") {
  TestProgram<program, training, float> p(at<tokens>(11));
  p.workspace = AlignedBuffer(p.program.workspace_bytes());
  long const before = allocations;
  p.program.bind_workspace(p.workspace.bytes());
  p.program.forward();
  CHECK(allocations == before);
}
TEST_CASE("program: memory of other extents is bound, planned and run without allocating") {
  TestProgram<program, training, float> p(at<tokens>(11));
  p.forward();
  auto x = p.in(layer::x{});
  auto dx = p.gradient(layer::x{});
  long const before = allocations;
  p.program.set(tokens{}, 7);
  p.program.bind(layer::x{}, x.middle_rows(0, 7), dx.middle_rows(0, 7));
  p.program.forward();
  p.program.backward(p.dy.middle_rows(0, 7), {0, 0});
  CHECK(allocations == before);
}
TEST_CASE("operator new: counts") {
  long const before = allocations;
  std::vector<int> v(10);
  CHECK(v[3] == 0);
  CHECK(allocations > before);
}

}  // namespace allocation_test
