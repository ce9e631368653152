// SPDX-License-Identifier: MIT
// Misaligned memory: an error that names it, for all memory that the caller passes.

#include <doctest/doctest.h>

#include "../error_of.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

namespace alignment_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("alignment: of inputs, gradients, leaves and offsets") {
  using L = Moa<4, 2, SoftmaxTopK<3, 2>, causal>;
  Module<L, Cpu<float>> m(1);
  alignas(8) std::byte memory[200] = {};
  auto const far = [&](std::size_t bytes) { return reinterpret_cast<float*>(memory + bytes); };
  view<float const> const x(far(0), 4, 4), misplaced(far(2), 4, 4);
  CHECK(says(error_of([&] { m.forward(misplaced); }),
             "x: expected memory aligned to 4 bytes, found an address that is 2 "));
  m.forward(x);
  CHECK(says(error_of([&] { m.backward(misplaced); }), "dy: expected memory aligned to 4 bytes"));
  m.backward(x);
  CHECK(says(error_of([&] { m.program().bind(L::x{}, x, view<float>(far(65), 4, 4)); }),
             "the gradient of x: expected memory aligned to 4 bytes, found an address that is 1 "));
  auto const* const offsets = reinterpret_cast<Int const*>(memory + 1);
  CHECK(says(error_of([&] {
               m.forward(x, segments{offsets, 1, 4});
             }),
             "the offsets of tokens: expected memory aligned"));
  segments later = uniform(1, 4);
  later.past = offsets;
  CHECK(says(error_of([&] { m.forward(x, later); }), "the positions of tokens: expected memory aligned"));
  m.forward(view<float const>(far(2), 0, 4));  // an empty view
  Decoder<L, Cpu<bfloat16>> d({.tokens = 8}, 1);
  CHECK(says(error_of([&] {
               d.prefill({reinterpret_cast<bfloat16*>(memory + 1), 4, 4});
             }),
             "x: expected memory aligned to 2"));
  CHECK(d.pages().free_pages() == 1);
}

}  // namespace alignment_test
