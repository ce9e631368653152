// SPDX-License-Identifier: MIT
// headmix's MoA against PyTorch's own operations: the same values, and the same gradients by x and every parameter.

#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "moa.hpp"

/// Found by name; in a shared library it is torch.ops.headmix.moa for Python.
TORCH_LIBRARY(headmix, library) { library.def("moa", &moa_op::moa); }

namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// The layer in PyTorch; arguments as moa_op::moa.
Tensor eager(Tensors const& in, std::int64_t k) {
  Tensor const &x = in[0], &W_g = in[1], &W_q = in[2], &W_k = in[3], &W_v = in[4], &W_o = in[5];
  auto const [p, index] = x.matmul(W_g).softmax(-1).topk(k);
  Tensor const gate = p / p.sum(-1, true).detach();
  Tensor const q = torch::einsum("btd,btkdh->btkh", {x, W_q.index({index})});
  Tensor const scores = torch::einsum("btkh,bsh->bkts", {q, x.matmul(W_k)}) / std::sqrt(double(W_k.size(1)));
  Tensor const later = torch::ones({x.size(1), x.size(1)}, torch::kBool).triu(1);
  Tensor const a = scores.masked_fill(later, -INFINITY).softmax(-1);
  Tensor const o = torch::einsum("bkts,bsh->btkh", {a, x.matmul(W_v)});
  return torch::einsum("btk,btkh,btkhd->btd", {gate, o, W_o.index({index})});
}
Tensor headmix_moa(Tensors const& in, std::int64_t k) {
  static auto const op =
      c10::Dispatcher::singleton().findSchemaOrThrow("headmix::moa", "").typed<decltype(moa_op::moa)>();
  return op.call(in[0], in[1], in[2], in[3], in[4], in[5], k);
}

constexpr std::int64_t B = 3, T = 17, D = 12, H = 8, E = 5, K = 2;

Tensor random(at::IntArrayRef sizes) { return torch::randn(sizes, moa_op::dtype); }

/// x and the parameters, each on its own.
Tensors contiguous() {
  return {random({B, T, D}), random({D, E}), random({E, D, H}), random({D, H}), random({D, H}), random({E, H, D})};
}
/// Cut out of other tensors: x a column block, W_q one matrix for all experts, W_k and W_v halves of one matrix, W_g
/// and W_o transposed.
Tensors strided() {
  Tensor const keys_and_values = random({D, 2 * H});
  return {random({B, T, 3 * D}).narrow(2, D, D), random({E, D}).t(),
          random({D, E, H}).transpose(0, 1),     keys_and_values.narrow(1, 0, H),
          keys_and_values.narrow(1, H, H),       random({E, D, H}).transpose(1, 2)};
}
/// Time before batch: the rows of x do not lie at equal distances, so moa() copies them.
Tensors time_first() {
  Tensors in = contiguous();
  in[0] = random({T, B, D}).transpose(0, 1);
  return in;
}

using Objective = std::function<Tensor(Tensor const&)>;

/// The result and, after it, the gradients of the objective by the inputs from `first` on.
Tensors run(Tensor (*layer)(Tensors const&, std::int64_t), Tensors in, Objective const& objective, std::size_t first) {
  Tensors wanted;
  for (std::size_t i = first; i < in.size(); ++i) {
    in[i] = in[i].detach().requires_grad_();  // the same memory and strides
    wanted.push_back(in[i]);
  }
  Tensor const y = layer(in, K);
  Tensors results = torch::autograd::grad({objective(y)}, wanted);
  results.insert(results.begin(), y.detach());
  return results;
}
bool equal(char const* name, Tensors const& in, Objective const& objective, std::size_t first = 0) {
  Tensors const expected = run(eager, in, objective, first), found = run(headmix_moa, in, objective, first);
  bool right = true;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double const error = (expected[i] - found[i]).abs().max().item<double>();
    right &= error < 1e-12 * std::max(1.0, expected[i].abs().max().item<double>());  // false for what is not a number
    largest = std::max(largest, error);
  }
  std::printf("%s: y and %zu gradients, largest difference %.1e\n", name, expected.size() - 1, largest);
  return right;
}

bool fails_with(char const* text, std::function<void()> const& f) {
  try {
    f();
  } catch (std::exception const& e) {
    if (std::string(e.what()).find(text) != std::string::npos) return true;
    std::printf("expected an error with '%s', found: %s\n", text, e.what());
    return false;
  }
  std::printf("expected an error with '%s', found none\n", text);
  return false;
}

}  // namespace

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
