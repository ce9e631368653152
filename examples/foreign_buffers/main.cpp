// SPDX-License-Identifier: MIT
// headmix inside another engine: a MoA layer runs on activations, weights, gradients, workspace and threads of the
// engine. The program reads and writes them in place, and allocates nothing once they are bound.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>

#include "../common.hpp"
#include "allocations.hpp"
#include "check.hpp"

using namespace headmix;

int main() {
  // The engine's batches (offsets of the sequences, and the end), numbers and threads.
  std::vector<std::vector<Int>> const batches{{0, 200, 320, 480}, {0, 70, 310}, {0, 1, 1, 400}};
  constexpr Index most_tokens = 480;
  auto activations = example::random_numbers(most_tokens * Rows::width);
  auto checkpoint = example::random_numbers(weight_numbers, /*scale*/ 0.1, /*seed*/ 2);
  std::vector<float> activation_gradients(activations.size()), weight_gradients(checkpoint.size());
  auto const w = weights_in(checkpoint.data()), dw = weights_in(weight_gradients.data());
  constexpr Index nth = 3;
  host_threads threads(nth);  // at most

  // A program for the layer's result and losses. It refers to the backend, and the backend to the threads.
  Compute backend(threads);
  Program<Module<Layer, Compute>::layer_roots, Compute> program(backend);
  for (auto const& [name, value] : w) program.bind(name, value, dw.at(name));
  auto const bind_batch = [&](std::vector<Int> const& offsets) {
    Rows const values(activations.data(), offsets.back()), gradients(activation_gradients.data(), offsets.back());
    program.bind(Layer::x{}, values.x, gradients.x);
    program.bind_result(values.y);
    program.bind_tokens(ragged(offsets.data(), static_cast<Index>(offsets.size()) - 1));
  };
  bind_batch(batches[0]);  // the largest batch, so that the workspace suffices for all
  std::size_t const bytes = aligned(program.workspace_bytes());
  std::unique_ptr<void, decltype(&std::free)> const workspace(std::aligned_alloc(alignment, bytes), &std::free);
  program.bind_workspace({static_cast<std::byte*>(workspace.get()), bytes});

  Check check(w);
  long allocated = 0;
  auto const train = [&](std::vector<Int> const& offsets) {
    Rows const values(activations.data(), offsets.back()), gradients(activation_gradients.data(), offsets.back());
    copy(values.others, gradients.y);  // any numbers may serve as dy
    copy(gradients.y, gradients.x);    // a residual connection: dx begins as dy, and the program adds to it
    long const before = allocations();
    bind_batch(offsets);
    program.forward();
    program.backward(gradients.y, /*weights of the load-balance and z losses*/ {0.01, 0.001});
    allocated += allocations() - before;
    check.batch(offsets, values, gradients);
  };
  // On each thread of the engine: thread 0 runs the pass, and all threads run the tasks of its kernels.
  auto const engine = [&](Index ith) {
    for (auto const& offsets : batches) threads.run(ith, nth, [&] { train(offsets); });
  };
  std::vector<std::thread> others;
  try {
    for (Index ith = 1; ith < nth; ++ith) others.emplace_back(engine, ith);
  } catch (std::system_error const& e) {  // running threads wait for thread 0
    std::fprintf(stderr, "foreign_buffers: cannot start %td threads: %s\n", nth, e.what());
    std::_Exit(2);
  }
  engine(0);
  for (auto& thread : others) thread.join();
  check.weights(dw);

  std::printf("x and y: %td columns of rows of %td; 5 weights in one block of %td numbers, 4 of them with strides\n", D,
              Rows::width, weight_numbers);
  std::printf("%zu bytes of workspace, %td threads of the engine, %ld allocations in %zu forward and backward passes\n",
              bytes, nth, allocated, batches.size());
  std::printf("relative error against a Module on copies: y %.1e, dx %.1e, dW %.1e\n", static_cast<double>(check.y),
              static_cast<double>(check.dx), static_cast<double>(check.dw));
  if (!check.untouched) std::puts("gradients were written outside of x");
  return allocated == 0 && check.untouched && check.y < 1e-5f && check.dx < 1e-5f && check.dw < 1e-5f ? 0 : 1;
}
