// SPDX-License-Identifier: MIT
// MoA with a context, with padding of both inputs, and errors of its module.

#include "../test_program.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/layer/moa.hpp"

namespace moa_context_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moa options: gradients of cross-attention with padding of both inputs and every loss") {
  using L = Moa<5, 3, SoftmaxTopK<4, 2, gating::raw, loss::z_with_padding>, context_dim<3>, padded>;
  std::vector<std::uint8_t> const mask{1, 0, 1, 1, 1, 0}, memory_mask{0, 1, 0, 0, 0, 0, 1, 1};
  Padding const real(view<std::uint8_t const>(mask.data(), 2, 3));
  Padding const memory(view<std::uint8_t const>(memory_mask.data(), 2, 4));
  gradcheck_options options;
  options.token_sequences = real.sequences();
  options.context_sequences = memory.sequences();
  constexpr auto objective = []<class Z>(type_list<Z>) { return L::y + Z{}; };
  constexpr auto y = objective(L::losses{});
  auto const r = gradcheck(y, options, at<padded_tokens>(6), at<padded_context_tokens>(8));
  CAPTURE(r.text);
  CHECK(r.ok());
}
TEST_CASE("moa options: a module of a padded layer, and what it refuses") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, context_dim<3>, padded>;
  Module<L, Reference<double>> m(1);
  std::vector<double> x(36), memory(12), dy(36, 1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(2).normal(i);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = Random(3).normal(i);
  std::vector<std::uint8_t> const mask{1, 0, 1, 1, 1, 0}, memory_mask{1, 1, 1, 0};
  Padding const real(view<std::uint8_t const>(mask.data(), 2, 3));
  Padding const of_memory(view<std::uint8_t const>(memory_mask.data(), 2, 2));
  view<double const> const in(x.data(), 6, 6), other(memory.data(), 4, 3);
  auto const y = m.forward(in, real, other, of_memory);
  m.backward({dy.data(), 6, 6}, {0.1, 0.1});
  for (Index j = 0; j < 6; ++j) {
    CHECK((y(1, j) == 0 && y(5, j) == 0 && y(0, j) != 0));
    CHECK((m.input_gradient()(1, j) == 0 && m.input_gradient()(0, j) != 0));
  }
  for (Index j = 0; j < 3; ++j) CHECK((m.context_gradient()(3, j) == 0 && m.context_gradient()(0, j) != 0));
  CHECK_THROWS_WITH_AS(m.forward(in, uniform(2, 3), other, of_memory), doctest::Contains("the layer is padded"), Error);
  CHECK_THROWS_WITH_AS(m.forward(in, real, other, uniform(2, 2)), doctest::Contains("Padding of context"), Error);
  CHECK_THROWS_WITH_AS(m.forward({x.data(), 5, 6}, real, other, of_memory),
                       doctest::Contains("x has 5 rows, its Padding is about 6"), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(Padding(view<std::uint8_t const>(nullptr, 0, 3))),
                       doctest::Contains("no sequences"), Error);
}

}  // namespace moa_context_test
