// SPDX-License-Identifier: MIT
// headmix inside somebody else's engine: a MoA layer runs on activations, weights, gradients, workspace and threads
// that the engine owns. The program reads and writes them where they lie, and once they are bound nothing allocates.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <headmix/headmix.hpp>
#include <memory>
#include <vector>

#include "allocations.hpp"
#include "crew.hpp"

namespace {

using namespace headmix;

constexpr Index D = 32, H = 16, E = 6, K = 2;
using Heads = Moa<D, H, SoftmaxTopK<E, K>, causal>;
using Compute = Cpu<float, Crew>;
/// What to compute: the layer's result and its losses. For expressions of your own: `roots<result, losses...>`.
using Roots = Module<Heads, Compute>::layer_roots;

/// The layer's weights as they lie in the engine's checkpoint, or the gradients in a buffer of the same layout.
struct Weights {
  static constexpr Index size = D * E + D * E * H + D * 2 * H + E * D * H;
  view<float> W_g, W_q, W_k, W_v, W_o;

  explicit Weights(float* blob) {
    W_g = {blob, D, E};
    blob += W_g.size();
    W_q = {blob, E, D, H};  // the experts' queries are one matrix, [D, E H]
    W_q.row_stride = E * H;
    W_q.stack_stride = H;
    blob += W_q.size();
    view<float> const keys_and_values(blob, D, 2 * H);
    W_k = keys_and_values.middle_cols(0, H);
    W_v = keys_and_values.middle_cols(H, H);
    blob += keys_and_values.size();
    W_o = view<float>(blob, E, D, H).transposed();  // stored as [out, in]
  }
  [[nodiscard]] std::array<view<float>, 5> all() const { return {W_g, W_q, W_k, W_v, W_o}; }
};

/// One row per token: another layer's values, x, and room for y; or the gradients of the same.
struct Rows {
  static constexpr Index width = 3 * D;
  view<float> others, x, y;

  Rows(float* buffer, Index tokens) {
    view<float> const all(buffer, tokens, width);
    others = all.middle_cols(0, D);
    x = all.middle_cols(D, D);
    y = all.middle_cols(2 * D, D);
  }
};

/// f(a_i, b_i) for all elements of two views of the same extents.
template <class A, class B, class F>
void for_each_pair(view<A> a, view<B> b, F f) {
  for (Index e = 0; e < a.count; ++e) {
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < a.cols; ++j) f(a[e](i, j), b[e](i, j));
    }
  }
}
void copy(view<float const> from, view<float> to) {
  for_each_pair(from, to, [](float a, float& b) { b = a; });
}
/// Relative; not a number where anything is.
float error(view<float const> found, view<float const> expected) {
  float difference = 0, size = 0;
  for_each_pair(found, expected, [&](float a, float b) {
    difference += std::abs(a - b);
    size += std::abs(b);
  });
  return difference / size;
}
std::vector<float> random_numbers(Index n, double size, std::uint64_t seed) {
  std::vector<float> numbers(static_cast<std::size_t>(n));
  Random const random(seed);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(size * (2 * random.uniform(i) - 1));
  return numbers;
}

}  // namespace

int main() {
  // ---- what the engine has: batches (where each sequence begins, and where the last one ends), numbers, threads ----
  std::vector<std::vector<Int>> const batches{{0, 200, 320, 480}, {0, 70, 310}, {0, 1, 1, 400}};
  constexpr Index most_tokens = 480;
  auto activations = random_numbers(most_tokens * Rows::width, 1, 1),
       checkpoint = random_numbers(Weights::size, 0.2, 2);
  std::vector<float> activation_gradients(activations.size()), weight_gradients(checkpoint.size());
  Weights const w(checkpoint.data()), dw(weight_gradients.data());
  Crew crew(3);

  // ---- a program on it: it refers to the backend, the backend to the threads ----
  Compute backend(crew);
  Program<Roots, Compute> program(backend);
  program.bind(Heads::r::W_g{}, w.W_g, dw.W_g);
  program.bind(Heads::W_q{}, w.W_q, dw.W_q);
  program.bind(Heads::W_k{}, w.W_k, dw.W_k);
  program.bind(Heads::W_v{}, w.W_v, dw.W_v);
  program.bind(Heads::W_o{}, w.W_o, dw.W_o);
  auto const bind_batch = [&](std::vector<Int> const& offsets) {
    Rows const rows(activations.data(), offsets.back()), gradients(activation_gradients.data(), offsets.back());
    program.bind(Heads::x{}, rows.x, gradients.x);
    program.bind_tokens(ragged(offsets.data(), static_cast<Index>(offsets.size()) - 1));
  };
  bind_batch(batches[0]);  // the largest one, so that the workspace is large enough for all
  std::size_t const bytes = aligned(program.workspace_bytes());
  std::unique_ptr<void, decltype(&std::free)> const workspace(std::aligned_alloc(alignment, bytes), &std::free);
  program.bind_workspace({static_cast<std::byte*>(workspace.get()), bytes});

  // ---- the same layer as a Module, which owns its memory, on one thread ----
  Crew alone(1);
  Module<Heads, Compute> module(/*seed*/ 1, Compute(alone));
  std::array const parameters{module.get<Heads::r::W_g>(), module.get<Heads::W_q>(), module.get<Heads::W_k>(),
                              module.get<Heads::W_v>(), module.get<Heads::W_o>()};
  for (std::size_t i = 0; i < parameters.size(); ++i) copy(w.all()[i], parameters[i].value);
  std::vector<float> x_numbers(most_tokens * D), dy_numbers(most_tokens * D);

  // ---- both, over all batches; the gradients of the weights are summed ----
  long allocated = 0;
  float y_error = 0, dx_error = 0, dw_error = 0;
  for (auto const& offsets : batches) {
    Index const tokens = offsets.back();
    Rows const rows(activations.data(), tokens), gradients(activation_gradients.data(), tokens);
    copy(rows.others, gradients.y);  // anything may serve as dy
    copy(gradients.y, gradients.x);  // a residual connection: dx begins as dy, and the program adds to it

    long const before = allocations();
    bind_batch(offsets);
    auto const y = program.forward();
    program.backward(gradients.y, /*weights of the load-balance and z losses*/ {0.01, 0.001});
    allocated += allocations() - before;

    view<float> const x(x_numbers.data(), tokens, D), dy(dy_numbers.data(), tokens, D);
    copy(rows.x, x);
    copy(gradients.y, dy);
    y_error += error(y, module.forward(x, ragged(offsets.data(), static_cast<Index>(offsets.size()) - 1)));
    module.backward(dy, {0.01, 0.001});
    for_each_pair(module.input_gradient(), dy, [](float dx, float& sum) { sum += dx; });
    dx_error += error(gradients.x, dy);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) dw_error += error(dw.all()[i], parameters[i].gradient);
  bool untouched = true;  // what lies between the columns of x
  view<float> const others = Rows(activation_gradients.data(), most_tokens).others;
  for_each_pair(others, others, [&](float a, float) { untouched &= a == 0; });

  std::printf("x is %td columns of rows of %td; 5 weights lie in one block of %td numbers, 4 of them with strides\n", D,
              Rows::width, Weights::size);
  std::printf("%zu bytes of workspace and %td threads of the engine\n", bytes, crew.concurrency());
  std::printf("allocations during %zu forward and backward passes: %ld\n", batches.size(), allocated);
  std::printf("relative error against a Module on copies: y %.1e, dx %.1e, dW %.1e\n", static_cast<double>(y_error),
              static_cast<double>(dx_error), static_cast<double>(dw_error));
  if (!untouched) std::puts("gradients were written outside of x");
  bool const right = allocated == 0 && untouched && y_error < 1e-5f && dx_error < 1e-5f && dw_error < 1e-5f;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
