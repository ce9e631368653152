// SPDX-License-Identifier: MIT
// headmix's MoA as an operator of PyTorch (moa.hpp), compared with PyTorch's own operations: the same values, and the
// same gradients by x and every parameter.

#include <torch/library.h>

#include <cstdlib>

#include "check.hpp"

/// Found by name; in a shared library it is torch.ops.headmix.moa for Python.
TORCH_LIBRARY(headmix, library) { library.def("moa", &moa_op::moa); }

int main() {
  at::manual_seed(1);
  Tensor const weights = random({B, T, D});
  Objective const weighted = [&](Tensor const& y) { return (weights * y).sum(); };
  bool right = equal("contiguous tensors", contiguous(), weighted);
  right &= equal("strided tensors", strided(), weighted);
  right &= equal("x with time first", time_first(), weighted);
  right &= equal("one number as dy, with strides of 0", contiguous(), [](Tensor const& y) { return y.sum(); });
  right &= equal("W_o alone", contiguous(), weighted, 5);

  Tensors in = contiguous();
  in[0].requires_grad_();
  Tensor const y = headmix_moa(in, K);
  auto const gradient = [&](bool create_graph) {
    return torch::autograd::grad({weighted(y)}, {in[0]}, {}, /*retain_graph*/ true, create_graph)[0];
  };
  right &= torch::equal(gradient(false), gradient(false));  // a graph that was kept may be used again
  right &= fails_with("second derivatives are not supported", [&] { gradient(true); });
  in[3] = random({D + 1, H});
  right &= fails_with("W_k has 13 rows, expected 12", [&] { headmix_moa(in, K); });
  in[3] = random({D, H}).to(torch::kFloat32);
  right &= fails_with("expected a Float64 tensor", [&] { headmix_moa(in, K); });
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
