// SPDX-License-Identifier: MIT
// The operator over the CUDA backend without a GPU: the kernels run on the emulator, on tensors of the CPU. The results
// and gradients of the operator for the CPU are the expected ones.

#include <cstdio>
#include <cstdlib>
#include <headmix/backend/cuda.hpp>
#include <headmix/interop/torch.hpp>
#include <headmix/layer/moa.hpp>
#include <headmix/layer/moh.hpp>
#include <headmix/testing/emulated.hpp>

namespace {

using namespace headmix;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// torch_cuda over the emulator.
struct torch_emulated {
  static constexpr at::DeviceType type = at::kCPU;
  static constexpr c10::DispatchKey autocast = c10::DispatchKey::AutocastCPU;
  struct guard {
    explicit guard(at::Device) {}
  };
  template <class Scalar>
  struct place {
    Cuda<Scalar, Emulated> backend;
    bool inside = true;
    void enter() { inside = true; }
    void leave() { inside = false; }
    [[nodiscard]] static at::Tensor memory(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }
  };
};

bool right = true;
void expect(bool holds, char const* layer, char const* what) {
  if (!holds) std::printf("FAILED: %s: %s\n", layer, what);
  right &= holds;
}
bool close(Tensor const& found, Tensor const& expected) {
  return found.sizes() == expected.sizes() &&
         (found - expected).abs().max().item<double>() < 1e-5 * (1 + expected.abs().max().item<double>());
}

struct inputs {
  Tensor x;
  torch_options options;
};

/// The results, and the gradients of x, the parameters and the context.
template <class Op>
Tensors results_of(Tensors p, inputs in, std::uint64_t seed) {
  at::manual_seed(seed);
  Tensors wanted{in.x = in.x.clone().requires_grad_()};
  for (auto& w : p) wanted.push_back(w = w.detach().requires_grad_());
  if (in.options.context) {
    in.options.context = in.options.context->clone().requires_grad_();
    wanted.push_back(*in.options.context);
  }
  Tensors results = Op::apply(in.x, p, in.options);
  Tensor objective = results[0].square().sum();
  for (std::size_t i = 1; i < results.size(); ++i) objective = objective + 0.1 * static_cast<double>(i) * results[i];
  for (auto const& g : torch::autograd::grad({objective}, wanted)) results.push_back(g);
  return results;
}

template <class L>
void compare(char const* name, inputs const& in) {
  using Cpu_op = torch_layer<L, void, type_list<>, type_list<float>>;
  using Cuda_op = torch_layer<L, void, type_list<>, type_list<float>, torch_emulated>;
  Tensors const p = Cpu_op::parameters(3, torch::kFloat32), q = Cuda_op::parameters(3, torch::kFloat32);
  expect(Cpu_op::names() == Cuda_op::names(), name, "the same parameters");
  for (std::size_t i = 0; i < p.size(); ++i) expect(torch::equal(p[i], q[i]), name, "the same initial parameters");
  Tensors const expected = results_of<Cpu_op>(p, in, 7), found = results_of<Cuda_op>(p, in, 7);
  expect(expected.size() == found.size(), name, "as many results and gradients");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    bool const same = close(found[i], expected[i]);
    if (!same) std::printf("  result %zu:\n", i);
    expect(same, name, "the numbers of the CPU");
  }
  Tensors const again = results_of<Cuda_op>(p, in, 7);
  for (std::size_t i = 0; i < found.size(); ++i) expect(torch::equal(found[i], again[i]), name, "the same bits");
}

using Chosen = Moa<24, 8, SoftmaxTopK<4, 2>, causal>;
using Drawn = Moh<32, 8, TwoStage<1, 3, 1>, causal, alibi, output_dropout<1, 4>>;
using Crossed = Moh<32, 8, TwoStage<1, 3, 1>, context_dim<20>>;

}  // namespace

int main() {
  at::manual_seed(1);
  compare<Chosen>("MoA with two losses", {torch::randn({2, 5, 24}), {}});
  compare<Drawn>("MoH with dropout, sequences of different lengths",
                 {torch::randn({9, 32}), {.offsets = torch::tensor({0, 4, 4, 9}, torch::kInt32)}});
  compare<Crossed>("MoH over a context", {torch::randn({2, 3, 32}), {.context = torch::randn({2, 6, 20})}});
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
