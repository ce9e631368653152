// SPDX-License-Identifier: MIT
// A user's operation with its own kernels, on a device and on the CPU.

#include <doctest/doctest.h>

#include <vector>

#include "../../examples/custom_op/running_sum.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;

namespace {

struct Sums {
  struct x : input<tokens, size<5>> {};
  struct W : param<size<5>, size<5>> {};
  static constexpr auto y = make<running_sum<>>(x{} % W{});
  using losses = type_list<>;
  using observed = type_list<>;
};

/// y, then the gradient by x, of 200 rows.
template <class Backend>
std::vector<float> results() {
  Module<Sums, Backend> m(1);
  std::vector<float> x(1000), all(2000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
  backend_memory<Backend> memory(x.size() * sizeof(float));
  upload(m.backend(), memory.template as<float>(), x.data(), x.size());
  view<float const> const rows(memory.template as<float>(), 200, 5);
  download(m.backend(), all.data(), m.forward(rows).data, 1000);
  m.backward(rows);
  download(m.backend(), all.data() + 1000, m.input_gradient().data, 1000);
  return all;
}

}  // namespace

TEST_CASE("cuda: an operation with kernels of its own for each backend") {
  auto const host = results<Cpu<float>>(), device = results<Cuda<float, Emulated>>();
  for (std::size_t i = 0; i < host.size(); ++i) {
    REQUIRE(static_cast<double>(device[i]) == doctest::Approx(static_cast<double>(host[i])).epsilon(1e-5));
  }
  CHECK(host[4] != 0);
}
