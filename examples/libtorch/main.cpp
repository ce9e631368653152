// SPDX-License-Identifier: MIT
// Layers as operators of PyTorch: MoA with all sizes from the tensors, in double, compared with PyTorch's operations
// (equal values, and equal gradients of x and every parameter); and MoH in float, with losses, dropout, sequences of
// different lengths, and parameters that PyTorch updates.

// [readme]
#include <headmix/headmix.hpp>
#include <headmix/interop/torch.hpp>

using Heads =
    headmix::Moh<64, 16, headmix::TwoStage<1, 3, 1>, headmix::causal, headmix::rope<>, headmix::output_dropout<1, 10>>;
using MohOp = headmix::torch_layer<Heads>;
TORCH_LIBRARY(mine, library) { MohOp::define(library, "mine::moh"); }
// [/readme]

#include <ATen/DLConvertor.h>

#include <cstdlib>
#include <headmix/interop/dlpack.hpp>

#include "check.hpp"

/// Registered by name; a shared library provides torch.ops.headmix.moa in Python.
TORCH_LIBRARY(headmix, library) { MoaOp::define(library, "headmix::moa"); }

namespace {

bool right = true;
void expect(bool holds, char const* what) {
  if (!holds) std::printf("FAILED: %s\n", what);
  right &= holds;
}

void moa_like_pytorch() {
  Tensor const weights = random({B, T, D});
  Objective const weighted = [&](Tensor const& y) { return (weights * y).sum(); };
  right &= equal("contiguous tensors", contiguous(), weighted);
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
  expect(torch::equal(gradient(false), gradient(false)), "a graph that was kept may be used again");
  right &= fails_with("second derivatives are not supported", [&] { gradient(true); });
  // The gradients of W_g from both losses of the router, against differences.
  in = contiguous();
  Tensor const w = in[1].clone(), d = random({D, E});
  auto const losses = [&](Tensor const& W_g) {
    Tensors parameters(in.begin() + 1, in.end());
    parameters[0] = W_g;
    auto const out = MoaOp::apply(in[0], parameters, {.sizes = {K}});
    return 0.3 * out.at(1) + 0.7 * out.at(2);
  };
  Tensor const found = (torch::autograd::grad({losses(w.requires_grad_())}, {w})[0] * d).sum();
  Tensor const expected = (losses(w.detach() + 1e-6 * d) - losses(w.detach() - 1e-6 * d)) / 2e-6;
  expect((found - expected).abs().item<double>() < 1e-7, "the losses have gradients");
  in[3] = random({D + 1, H});
  right &= fails_with("W_k has 13 rows, expected 12", [&] { headmix_moa(in, K); });
  in[3] = random({D, H}).to(torch::kFloat32);
  right &= fails_with("W_k: expected numbers of type Double on the CPU, found Float", [&] { headmix_moa(in, K); });
  in.pop_back();
  right &= fails_with("parameters: expected 5 (W_g, W_q, W_k, W_v, W_o), found 4", [&] { headmix_moa(in, K); });
  in = contiguous();
  in[0] = in[0].to(torch::kFloat32);
  right &= fails_with("x: expected numbers of type Double, found Float", [&] { headmix_moa(in, K); });
}

void moh_like_a_module() {
  constexpr std::int64_t sequences = 3, length = 9, tokens = sequences * length;
  Tensor const x = torch::randn({sequences, length, 64}), dy = torch::randn({sequences, length, 64});
  Tensors const p = MohOp::parameters(/*seed*/ 5, torch::kFloat32);
  headmix::Module<Heads, headmix::Cpu<float>> m(5);
  m.set_randomness(headmix::randomness::off());
  auto const to_torch = [](headmix::view<float const> v, at::IntArrayRef shape) {
    return torch::from_blob(const_cast<float*>(v.data), shape).clone();
  };
  Tensor const expected =
      to_torch(m.forward(headmix::from_torch<float const>(x.view({tokens, 64})), headmix::uniform(sequences, length)),
               x.sizes());
  m.backward(headmix::from_torch<float const>(dy.view({tokens, 64})), {0.3});
  Tensor const input = x.detach().clone().requires_grad_();
  auto const out = MohOp::apply(input, p, {.training = false});
  expect(out.size() == 2 && torch::equal(out[0], expected), "y has the bits of a module's, on PyTorch's threads");
  expect(out[1].item<double>() == m.loss<0>(), "the loss is the module's");
  ((dy * out[0]).sum() + 0.3 * out[1]).backward();
  expect(torch::equal(input.grad(), to_torch(m.input_gradient(), x.sizes())), "the gradient of x is the module's");
  for (std::size_t i = 0; i < p.size(); ++i) {
    expect(m.parameters()[i].name == MohOp::names()[i] &&
               torch::equal(p[i].grad(), to_torch(m.parameters()[i].gradient, p[i].sizes())),
           "gradients of parameters are the module's");
  }
  // The rows as sequences of different lengths.
  Tensor const offsets = torch::tensor({0, 9, 9, 27}, torch::kInt32);
  Tensor const ragged = MohOp::apply(x.view({tokens, 64}), p, {.offsets = offsets, .training = false})[0];
  expect(torch::equal(ragged.slice(0, 0, 9), expected[0]) && !torch::equal(ragged.slice(0, 18, 27), expected[2]),
         "sequences begin at the offsets");
  right &= fails_with("x: expected [tokens, D] with offsets", [&] { MohOp::apply(x, p, {.offsets = offsets}); });

  // A loader may overwrite its buffer of offsets before the backward pass.
  auto const gradient = [&](bool overwrite) {
    Tensor const rows = x.view({tokens, 64}).detach().clone().requires_grad_(), buffer = offsets.clone();
    Tensor const y = MohOp::apply(rows, p, {.offsets = buffer, .training = false})[0];
    if (overwrite) buffer.copy_(torch::tensor({0, 1 << 20, 1 << 25, 27}, torch::kInt32));
    return torch::autograd::grad({(y * y).sum()}, {rows})[0];
  };
  expect(torch::equal(gradient(false), gradient(true)), "offsets may be overwritten between the passes");
  Tensor const apart = torch::stack({offsets, offsets}, 1).select(1, 0);
  expect(torch::equal(MohOp::apply(x.view({tokens, 64}), p, {.offsets = apart, .training = false})[0], ragged),
         "offsets may have a stride");
  right &= fails_with("offsets: expected a tensor [sequences + 1]", [&] {
    MohOp::apply(x.view({tokens, 64}), p, {.offsets = offsets.slice(0, 0, 1)});
  });

  // The registered operator of the backward pass, called as by a tracer.
  using Forward = Tensors(Tensor const&, at::TensorList, c10::optional<Tensor> const&, c10::optional<Tensor> const&,
                          c10::optional<Tensor> const&, c10::optional<Tensor> const&, at::IntArrayRef);
  using Backward = Tensors(Tensor const&, at::TensorList, Tensor const&, at::TensorList, c10::optional<Tensor> const&,
                           at::IntArrayRef);
  auto const part = [](char const* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); };
  torch::NoGradGuard const no_graph;
  Tensors const made = part("mine::moh_forward").typed<Forward>().call(x, p, {}, {}, {}, {}, {});
  auto const backward = [&](Tensors const& gradients, Tensors const& parameters, std::vector<std::int64_t> needed) {
    part("mine::moh_backward").typed<Backward>().call(made.back(), gradients, x, parameters, {}, needed);
  };
  std::vector<std::int64_t> const all(1 + p.size(), 1);
  backward({dy, torch::zeros({})}, p, all);
  right &= fails_with("dy: expected 2 tensors, for y and each loss, found 1", [&] { backward({dy}, p, all); });
  right &= fails_with("parameters: expected 6 (W_h, W_r, W_q, W_k, W_v, W_o), found 1",
                      [&] { backward({dy, torch::zeros({})}, {p[0]}, all); });
  right &= fails_with("needed: expected 7 numbers, for x, the parameters and the context, found 2",
                      [&] { backward({dy, torch::zeros({})}, p, {1, 1}); });

  auto const op = c10::Dispatcher::singleton().findSchemaOrThrow("mine::moh", "").typed<decltype(MohOp::call)>();
  auto const drawn = [&](std::uint64_t seed) {
    at::manual_seed(seed);
    return op.call(x, p, {}, {}, {}, {}, /*training*/ true)[0].detach();
  };
  expect(torch::equal(drawn(1), drawn(1)) && !torch::equal(drawn(1), drawn(2)), "PyTorch's seed decides on dropout");
}

void moh_learns() {
  Tensor const x = torch::randn({2, 8, 64}), target = torch::randn({2, 8, 64});
  Tensors p = MohOp::parameters(1, torch::kFloat32);
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    auto const out = MohOp::apply(x, p, {.training = false});
    Tensor const objective = (out[0] - target).square().mean() + 0.01 * out[1];
    last = objective.item<double>();
    if (step == 0) first = last;
    objective.backward();
    torch::NoGradGuard const no_graph;
    for (auto& w : p) {
      w.sub_(w.grad());
      w.mutable_grad().reset();
    }
  }
  std::printf("objective %.4f, after ten steps %.4f\n", first, last);
  expect(last < first, "autograd's gradients make the objective smaller");
  auto const out = MohOp::apply(x, p);
  {
    torch::NoGradGuard const no_graph;
    p[0].add_(1);
  }
  right &= fails_with("modified by an inplace operation", [&] { out[0].sum().backward(); });
}

/// Tensors by DLPack, with the dlpack.h of PyTorch.
void dlpack_both_ways() {
  Tensor const t = torch::arange(24, torch::kFloat32).view({2, 3, 4}).narrow(2, 1, 2);
  headmix::dlpack_ptr<DLManagedTensor> const given(at::toDLPack(t));
  auto const v = headmix::from_dlpack<float>(*given, "t");
  expect(v.rows == 6 && v.cols == 2 && v.row_stride == 4 && v(5, 1) == 22, "a tensor of PyTorch is a view");
  right &= fails_with("t: expected numbers of type float64, found float32",
                      [&] { static_cast<void>(headmix::from_dlpack<double>(*given, "t")); });
  headmix::AlignedBuffer buffer(6 * sizeof(double));
  headmix::view<double> const w(buffer.as<double>(), 2, 3);
  w(1, 2) = 7;
  Tensor const taken = at::fromDLPack(headmix::to_dlpack<DLManagedTensor>(w.transposed(), std::move(buffer)).release());
  expect(taken.sizes() == at::IntArrayRef({3, 2}) && taken[2][1].item<double>() == 7 && taken.sum().item<double>() == 7,
         "a view is a tensor of PyTorch, which owns its memory");
}

}  // namespace

int main() {
  at::manual_seed(1);
  moa_like_pytorch();
  moh_like_a_module();
  moh_learns();
  dlpack_both_ways();
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
