// SPDX-License-Identifier: MIT
// The gradients of MAE by differences.

#include <array>

#include "../test_program.hpp"
#include "headmix/layer/mae.hpp"

namespace mae_gradient_test {

using namespace headmix;
using namespace headmix::test;

namespace {

std::array<Int, 5> const offsets{0, 3, 3, 4, 9};

gradcheck_options ragged_options() {
  gradcheck_options o;
  o.token_sequences = ragged(offsets.data(), 4);
  return o;
}
template <class L>
void check_layer() {
  check_gradient(L::y);
  auto const r = gradcheck(L::y, ragged_options(), at<tokens>(9));
  CAPTURE(r.text);
  CHECK(r.ok());
}
using Cross = Mae<5, 3, 2, gate_dim<3>, context_dim<4>, pool::prefix>;

}  // namespace

TEST_CASE("mae: gradients of the mixture") {
  check_layer<Mae<6, 4, 2, gate_dim<3>, output_bias>>();
  check_layer<Mae<6, 4, 2, gate_dim<3>, causal, left_out_heads<2>>>();
  check_layer<Mae<6, 4, 2, gate_dim<3>, causal, left_out_heads<3>, pool::window<3>, rope<>>>();
}
TEST_CASE("mae: gradients of one expert for each sequence") {
  check_layer<Mae<6, 4, 2, gate_dim<3>, left_out_heads<2>, output_bias, rope<>>::expert<choice::best>>();
  check_layer<Mae<6, 4, 2, gate_dim<3>, causal>::expert<choice::drawn>>();
}
TEST_CASE("mae: gradients with keys from a context") {
  std::array<Int, 5> const memory{0, 2, 5, 6, 8};
  gradcheck_options o = ragged_options();
  o.context_sequences = ragged(memory.data(), 4);
  auto const soft = gradcheck(Cross::y, o, at<tokens>(9), at<context_tokens>(8));
  CAPTURE(soft.text);
  CHECK(soft.ok());
  auto const one = gradcheck(Cross::expert<choice::best>::y, o, at<tokens>(9), at<context_tokens>(8));
  CAPTURE(one.text);
  CHECK(one.ok());
}

}  // namespace mae_gradient_test
