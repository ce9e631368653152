// SPDX-License-Identifier: MIT
// The optional kernels that backend_conformance skips on a GPU (tests/testing/conformance_skips_test.cpp).

#include <doctest/doctest.h>

#include <string>

#include "headmix/backend/cuda.hpp"
#include "headmix/testing/backend_conformance.hpp"
#include "headmix/testing/emulated.hpp"
#include "headmix/testing/emulated_sm90.hpp"

namespace conformance_skips_test {

namespace {

using namespace headmix;

template <class B>
std::string skips_of() {
  std::string all;
  for (conformance_skip const& s : conformance_skips<B>()) all += (all.empty() ? "" : "; ") + s.kernel;
  return all;
}

TEST_CASE_TEMPLATE("conformance skips on a GPU what it has no kernels for", B, Cuda<float, Emulated>,
                   Cuda<double, Emulated>, Cuda<bfloat16, Emulated>) {
  CHECK(skips_of<B>() ==
        "attention_gradient in place; grouped_gemm_map; stored probabilities; prepared weights; packed_gemm");
}
TEST_CASE("conformance skips on Hopper what it has no kernels for") {
  CHECK(skips_of<Cuda<bfloat16, EmulatedSm90a>>() ==
        "attention_gradient in place; stored probabilities; prepared weights; packed_gemm");
}

}  // namespace

}  // namespace conformance_skips_test
