// SPDX-License-Identifier: MIT
// The device functions: distribution of tiles over threads as in the emulator, products of the library, graphs.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "cuda/device/calibration.hpp"
#include "cuda/device_array.hpp"
#include "headmix/backend/cuda/graph.cuh"
#include "headmix/backend/cuda/sm80.cuh"
#include "headmix/backend/reference.hpp"
#include "headmix/testing/device_conformance.hpp"

using namespace headmix;
using headmix::testing::device_array, headmix::testing::random_numbers, headmix::testing::relative_error;

TEST_CASE("cuda: the emulator's layouts are the device's") {
  using headmix::testing::calibration;
  Sm80::queue queue;
  device_array<bfloat16, Sm80> const input(queue, headmix::testing::calibration_input());
  device_array<std::uint32_t, Sm80> const output(queue, calibration::threads * calibration::words_per_thread);
  queue.launch(calibration{input.data(), output.data()}, 1);
  auto const found = output.get(), expected = headmix::testing::emulated_calibration();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i / calibration::words_per_thread);  // the thread
    CAPTURE(i % calibration::words_per_thread);  // its word
    CHECK(found[i] == expected[i]);
  }
}

TEST_CASE("cuda: the device conforms to the archetype") {
  static_assert(DevicePolicy<Sm80> && !WarpgroupDevice<Sm80>);
  Sm80::queue queue;
  auto const found = device_conformance<Sm80>(queue);
  CHECK_MESSAGE(found.ok(), found.text());
}

TEST_CASE("cuda: exp2 and log2 are accurate to about 2^-22") {
  Sm80::queue queue;
  constexpr Index n = 40001;
  device_array<float, Sm80> const exp2(queue, n), log2(queue, n);
  headmix::testing::approximations const kernel{-100.0F, 5.0F / 1024, n, exp2.data(), log2.data()};
  queue.launch(kernel, cuda_kernels::blocks_for(n, kernel.threads));
  auto const e = exp2.get(), l = log2.get();
  double worst_exp2 = 0, worst_log2 = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    float const x = kernel.first + static_cast<float>(i) * kernel.step;
    worst_exp2 = std::fmax(worst_exp2, std::fabs(e[i] / std::exp2(static_cast<double>(x)) - 1));
    double const exact = std::log2(std::fabs(static_cast<double>(x)));
    if (x != 0) worst_log2 = std::fmax(worst_log2, std::fabs(l[i] - exact) / std::fmax(1.0, std::fabs(exact)));
  }
  CHECK(worst_exp2 < 1e-6);
  CHECK(worst_log2 < 1e-6);
}

// Every pair of layouts that the library takes; the plain kernels do the others.
TEST_CASE_TEMPLATE("cuda: the library's products", T, float, double, bfloat16) {
  Sm80::queue queue;
  constexpr Index m = 37, n = 29, depth = 53;
  for (int form = 0; form < 8; ++form) {
    for (bool const accumulate : {false, true}) {
      auto const matrix = [](auto* data, Index rows, Index cols, bool transposed) {
        return transposed ? view(data, cols, rows).transposed() : view(data, rows, cols);
      };
      auto const a = random_numbers<T>(m * depth, 1), b = random_numbers<T>(depth * n, 2),
                 y = random_numbers<T>(m * n, 3);
      device_array<T, Sm80> const on_a(queue, a), on_b(queue, b), on_y(queue, y);
      auto wide_a = headmix::testing::converted<double>(a), wide_b = headmix::testing::converted<double>(b),
           wide_y = headmix::testing::converted<double>(y);
      view<T const> const left = matrix(on_a.data(), m, depth, form & 1),
                          right = matrix(on_b.data(), depth, n, form & 2);
      CHECK(queue.gemm(matrix(on_y.data(), m, n, form & 4), left, right, accumulate));
      view<double const> const wide_left = matrix(wide_a.data(), m, depth, form & 1),
                               wide_right = matrix(wide_b.data(), depth, n, form & 2);
      Reference<double>{}.gemm(matrix(wide_y.data(), m, n, form & 4), wide_left, wide_right, accumulate);
      CHECK(relative_error(on_y.get(), wide_y) < (std::is_same_v<T, bfloat16> ? 1e-2 : 1e-5));
    }
  }
}

struct add_one {
  static constexpr int threads = 32;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  float* y;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    float* const mine = y + device.block() * threads + device.thread();
    device.store(mine, device.load(mine) + 1);
  }
};

TEST_CASE("cuda: a graph runs what was recorded, as often as it is launched") {
  Sm80::queue queue;
  device_array<float, Sm80> const numbers(queue, 64);
  float* const data = numbers.data();
  view<float const> const one(data, 1, 1);
  queue.launch(add_one{data}, 2);
  CHECK(queue.gemm(view<float>(data + 32, 1, 1), one, one, true));  // 1 + 1
  cuda_graph graph(queue, [&] {
    queue.launch(add_one{data}, 2);
    CHECK(queue.gemm(view<float>(data + 32, 1, 1), one, one, false));
  });
  CHECK(numbers.get()[0] == 1.0F);
  for (int i = 0; i < 3; ++i) graph.launch();
  CHECK(numbers.get()[0] == 4.0F);
  CHECK(numbers.get()[63] == 4.0F);
  CHECK(numbers.get()[32] == 16.0F);
}

TEST_CASE("cuda: a recording that fails leaves the stream usable") {
  Sm80::queue queue;
  device_array<float, Sm80> const numbers(queue, 64);
  CHECK_THROWS_AS(cuda_graph(queue, [&] { fail("a mistake"); }), Error);
  queue.launch(add_one{numbers.data()}, 2);
  CHECK(numbers.get()[5] == 1.0F);
}

TEST_CASE("cuda: errors name the kernel") {
  Sm80::queue queue;
  queue.launch(add_one{nullptr}, 0);  // nothing to do
  CHECK_THROWS_WITH_AS(queue.launch(add_one{nullptr}, Index{1} << 40), doctest::Contains("headmix: add_one"), Error);
}
