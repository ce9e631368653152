#pragma once
// SPDX-License-Identifier: MIT
// A MoA layer as an operator of PyTorch: a torch::autograd::Function over a program that reads and writes the tensors'
// memory. Strided tensors are not copied. Float64, CPU; first derivatives only.

#include <torch/autograd.h>
#include <torch/types.h>

#include <headmix/headmix.hpp>

namespace moa_op {

using Scalar = double;
constexpr auto dtype = torch::kFloat64;
/// All sizes are found from the tensors: one instantiation for every shape.
using Attention = headmix::Moa<headmix::dynamic, headmix::dynamic,
                               headmix::SoftmaxTopK<headmix::dynamic, headmix::dynamic>, headmix::causal>;
using Backend = headmix::Cpu<Scalar>;
/// In the order of the operator's arguments.
using Leaves =
    headmix::type_list<Attention::x, Attention::r::W_g, Attention::W_q, Attention::W_k, Attention::W_v, Attention::W_o>;

/// A matrix, or a stack of them, as it lies in memory. Undefined tensors become views of nothing.
inline headmix::view<Scalar> view_of(torch::Tensor const& t) {
  if (!t.defined()) return {};
  TORCH_CHECK(t.dim() == 2 || t.dim() == 3, "moa: expected 2 or 3 dimensions, found ", t.dim());
  TORCH_CHECK(t.dtype() == dtype && t.device().is_cpu(), "moa: expected a Float64 tensor on the CPU, found ",
              t.options());
  headmix::view<Scalar> v(t.data_ptr<Scalar>(), t.dim() == 3 ? t.size(0) : 1, t.size(-2), t.size(-1));
  v.stack_stride = t.dim() == 3 ? t.stride(0) : 0;
  v.row_stride = t.stride(-2);
  v.col_stride = t.stride(-1);
  return v;
}

/// One forward pass and what its backward passes read.
struct Run : torch::CustomClassHolder {
  Backend backend;
  headmix::Program<headmix::roots<std::remove_cv_t<decltype(Attention::y)>>, Backend> program{backend};
  torch::Tensor workspace;

  /// Binds the leaves; gradients may be missing, all or some.
  void bind(torch::autograd::variable_list const& values, torch::autograd::variable_list const& gradients) {
    std::size_t i = 0;
    headmix::for_each(Leaves{}, [&]<class L>() {
      program.bind(L{}, view_of(values[i]), view_of(gradients[i]));
      ++i;
    });
  }
};

struct Function : torch::autograd::Function<Function> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x, torch::Tensor W_g,
                               torch::Tensor W_q, torch::Tensor W_k, torch::Tensor W_v, torch::Tensor W_o,
                               std::int64_t sequences, std::int64_t experts_per_token) {
    torch::autograd::variable_list const values{x, W_g, W_q, W_k, W_v, W_o};
    auto run = c10::make_intrusive<Run>();
    run->bind(values, torch::autograd::variable_list(values.size()));
    run->program.bind_tokens({nullptr, sequences, x.size(0)});
    run->program.set(Attention::top_k{}, experts_per_token);
    // PyTorch aligns to 64 bytes, as headmix asks for.
    run->workspace = torch::empty(static_cast<std::int64_t>(run->program.workspace_bytes()), torch::kUInt8);
    run->program.bind_workspace(
        {reinterpret_cast<std::byte*>(run->workspace.data_ptr()), run->program.workspace_bytes()});
    auto const y = run->program.forward();
    ctx->save_for_backward(values);  // keeps their memory, and notices when somebody writes to it
    ctx->saved_data["run"] = c10::IValue::make_capsule(run);
    return torch::from_blob(const_cast<Scalar*>(y.data), {y.rows, y.cols}, {y.row_stride, y.col_stride}, x.options())
        .clone();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list dy) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "moa: second derivatives are not supported; use create_graph=false");
    auto const values = ctx->get_saved_variables();
    auto const run = c10::static_intrusive_pointer_cast<Run>(ctx->saved_data["run"].toCapsule());
    torch::autograd::variable_list gradients(values.size() + 2);  // none for the two numbers
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (ctx->needs_input_grad(i)) gradients[i] = torch::zeros(values[i].sizes(), values[i].options());
    }
    run->bind(values, gradients);
    run->program.backward(view_of(dy[0]));
    return gradients;
  }
};

/// y [B, T, D] of x [B, T, D] with W_g [D, E], W_q [E, D, H], W_k and W_v [D, H], W_o [E, H, D]; causal, every token
/// uses k experts. Sizes that disagree are a headmix::Error that names the tensor and both numbers.
inline torch::Tensor moa(torch::Tensor x, torch::Tensor W_g, torch::Tensor W_q, torch::Tensor W_k, torch::Tensor W_v,
                         torch::Tensor W_o, std::int64_t k) {
  TORCH_CHECK(x.dim() == 3, "moa: expected x of [B, T, D], found ", x.sizes());
  // A view where the rows lie at equal distances, else a copy.
  return Function::apply(x.reshape({-1, x.size(2)}), W_g, W_q, W_k, W_v, W_o, x.size(0), k).reshape(x.sizes());
}

}  // namespace moa_op
