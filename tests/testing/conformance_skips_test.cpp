// SPDX-License-Identifier: MIT
// The optional kernels that backend_conformance skips, for each CPU backend: detects a backend that loses a kernel, for
// example by a signature that no longer satisfies its concept. For the GPU: tests/cuda/conformance_skips_test.cpp.

#include <doctest/doctest.h>

#include <string>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/testing/backend_conformance.hpp"

namespace conformance_skips_test {

namespace {

using namespace headmix;

/// Gradients of operands of score maps in the scalar, where the contract has float.
struct Narrow : Cpu<bfloat16> {
  template <AttentionMask Mask, class Map>
  void attention_operand_gradient(operand_gradients<bfloat16, Map::operands> const&,
                                  attention_backward<bfloat16, Map> const&, std::span<std::byte>) {}
};
static_assert(BackendPolicy<Narrow>);

template <class B>
std::string skips_of() {
  std::string all;
  for (conformance_skip const& s : conformance_skips<B>()) all += (all.empty() ? "" : "; ") + s.kernel;
  return all;
}

TEST_CASE_TEMPLATE("conformance skips on the CPU what is fused on a GPU, and nothing else", B, Cpu<float>, Cpu<double>,
                   Cpu<bfloat16>, Cpu<float, thread_pool, products::bfloat16>) {
  CHECK(skips_of<B>() == "route; gated_attention; each_row; gemm_stack; grouped_gemm_map; grouped_sum_pair");
}
TEST_CASE("conformance says why a kernel is not checked, also one whose operands are of other types") {
  bool found = false;
  for (conformance_skip const& s : conformance_skips<Narrow>()) {
    if (s.kernel != "attention with score maps") continue;
    found = true;
    CHECK(s.reason == "the backend is no MapsScores (contract/optional_kernels.hpp)");
  }
  CHECK(found);
}

}  // namespace

}  // namespace conformance_skips_test
