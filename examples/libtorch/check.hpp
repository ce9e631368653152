#pragma once
// SPDX-License-Identifier: MIT
// The layer in PyTorch's operations, inputs with various strides, and comparisons of the two layers.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <headmix/interop/torch.hpp>
#include <headmix/layer/moa.hpp>
#include <string>
#include <vector>

using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// All sizes come from the tensors, except the number of experts of a token.
using Attention = headmix::Moa<headmix::dynamic, headmix::dynamic,
                               headmix::SoftmaxTopK<headmix::dynamic, headmix::dynamic>, headmix::causal>;
using MoaOp = headmix::torch_layer<
    Attention, headmix::type_list<Attention::r::W_g, Attention::W_q, Attention::W_k, Attention::W_v, Attention::W_o>,
    headmix::type_list<Attention::top_k>, headmix::type_list<double>>;

constexpr std::int64_t B = 3, T = 17, D = 12, H = 8, E = 5, K = 2;

inline Tensor random(at::IntArrayRef sizes) { return torch::randn(sizes, torch::kFloat64); }

/// x and the parameters, each contiguous.
inline Tensors contiguous() {
  return {random({B, T, D}), random({D, E}), random({E, D, H}), random({D, H}), random({D, H}), random({E, H, D})};
}
/// Views of other tensors: x a block of columns, W_q one matrix for all experts, W_k and W_v halves of one matrix, W_g
/// and W_o transposed.
inline Tensors strided() {
  Tensor const keys_and_values = random({D, 2 * H});
  return {random({B, T, 3 * D}).narrow(2, D, D), random({E, D}).t(),
          random({D, E, H}).transpose(0, 1),     keys_and_values.narrow(1, 0, H),
          keys_and_values.narrow(1, H, H),       random({E, D, H}).transpose(1, 2)};
}
/// Time before batch: the rows of x are at unequal distances, so the operator copies them.
inline Tensors time_first() {
  Tensors in = contiguous();
  in[0] = random({T, B, D}).transpose(0, 1);
  return in;
}

/// The layer in PyTorch on x and the parameters `in`.
inline Tensor eager(Tensors const& in, std::int64_t k) {
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
inline Tensor headmix_moa(Tensors const& in, std::int64_t k) {
  return MoaOp::apply(in[0], at::TensorList(in).slice(1), {.sizes = {k}})[0];
}

using Objective = std::function<Tensor(Tensor const&)>;

/// The result, followed by the gradients of the objective by the inputs from `first` on.
inline Tensors run(Tensor (*layer)(Tensors const&, std::int64_t), Tensors in, Objective const& objective,
                   std::size_t first) {
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
inline bool equal(char const* name, Tensors const& in, Objective const& objective, std::size_t first = 0) {
  Tensors const expected = run(eager, in, objective, first), found = run(headmix_moa, in, objective, first);
  bool right = true;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double const error = (expected[i] - found[i]).abs().max().item<double>();
    right &= error < 1e-12 * std::max(1.0, expected[i].abs().max().item<double>());  // false for NaN
    largest = std::max(largest, error);
  }
  std::printf("%s: y and %zu gradients, largest difference %.1e\n", name, expected.size() - 1, largest);
  return right;
}

inline bool fails_with(char const* text, std::function<void()> const& f) {
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
