// SPDX-License-Identifier: MIT
// The calls of the Cuda backend's host side to the CUDA runtime, recorded by a stub (stub.hpp): no GPU is needed.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <vector>

#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/graph.cuh"
#include "stub.hpp"
#include "units.hpp"

using namespace headmix;

/// Two of its blocks run together.
struct pair_of_blocks {
  static constexpr int threads = 32, shared_bytes = 0, cluster = 2;
  static constexpr bool cooperative = false;
  template <class Device>
  HEADMIX_DEVICE void operator()(Device&) const {}
};

/// A kernel with one number as operand.
struct one_operand {
  static constexpr int threads = 32, shared_bytes = 0;
  static constexpr bool cooperative = false;
  double number;
  template <class Device>
  HEADMIX_DEVICE void operator()(Device&) const {}
};

namespace {

/// Nothing is alive but what was before.
struct nothing_leaks {
  stub::runtime const before = stub::state();
  ~nothing_leaks() {
    stub::runtime const& now = stub::state();
    CHECK(now.allocations == before.allocations);
    CHECK(now.streams == before.streams);
    CHECK(now.handles == before.handles);
    CHECK(now.graphs == before.graphs);
  }
};
/// Runs f once without a failure, then with each of its calls failing; it must say so and leave nothing behind.
template <class F>
void check_every_failure(F const& f) {
  nothing_leaks const check;
  int const first = stub::state().calls;
  f();
  int const calls = stub::state().calls - first;
  CHECK(calls > 0);
  for (int n = 0; n < calls; ++n) {
    CAPTURE(n);
    nothing_leaks const check_each;
    stub::state().failure_after = n;
    CHECK_THROWS_AS(f(), Error);
    stub::state().failure_after = -1;
  }
}

}  // namespace

TEST_CASE("each unit's function of a kernel is allowed its shared memory") {
  Sm80::queue const queue;
  std::size_t const before = stub::state().launches.size();
  launch_in_one_unit(queue);
  launch_in_another_unit(queue);
  launch_in_one_unit(queue);
  auto const& launches = stub::state().launches;
  REQUIRE(launches.size() == before + 3);
  for (std::size_t i = before; i < launches.size(); ++i) {
    CHECK(launches[i].shared_bytes == wide_kernel::shared_bytes);
    CHECK(launches[i].threads == wide_kernel::threads);
    CHECK(launches[i].stream == queue.stream());
  }
  CHECK(launches[before + 1].blocks == 2);
}

TEST_CASE("a kernel with more shared memory than the device has is refused") {
  stub::state().shared_bytes = 60 << 10;
  Sm80::queue const queue;
  CHECK(queue.shared_bytes() == 60 << 10);
  std::size_t const before = stub::state().launches.size();
  CHECK_THROWS_WITH_AS(
      launch_in_one_unit(queue),
      doctest::Contains("wide_kernel takes 65536 bytes of shared memory, a block of this device has 61440"), Error);
  CHECK(stub::state().launches.size() == before);
  stub::state().shared_bytes = 227 << 10;
}

TEST_CASE("a queue is of the device that was current where it was made") {
  cudaSetDevice(1);
  Sm80::queue const queue;
  CHECK(queue.device() == 1);
  launch_in_one_unit(queue);
  cudaSetDevice(0);
  std::size_t const before = stub::state().launches.size();
  CHECK_THROWS_WITH_AS(
      launch_in_one_unit(queue),
      doctest::Contains("wide_kernel is put into a queue of device 1 while device 0 is current: call cudaSetDevice(1)"),
      Error);
  float number = 0;
  view<float> const one(&number, 1, 1);
  CHECK_THROWS_WITH_AS(queue.gemm(one, view<float const>(one), view<float const>(one), false),
                       doctest::Contains("a product is put into a queue of device 1"), Error);
  CHECK(stub::state().launches.size() == before);
}

TEST_CASE("a queue with a handle of the caller makes none and leaves it") {
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  Sm80::memory const memory(std::size_t{1} << 20);
  int const handles = stub::state().handles;
  {
    Sm90a::queue const queue(nullptr, memory.bytes(), handle);
    CHECK(stub::state().handles == handles);
    CHECK(queue.workspace().data() == memory.bytes().data());
    float number = 2, product = 0;
    view<float> const one(&number, 1, 1), y(&product, 1, 1);
    CHECK(queue.gemm(y, view<float const>(one), view<float const>(one), false));
    CHECK(product == 4);
  }
  CHECK(stub::state().handles == handles);
  cublasDestroy(handle);
}

TEST_CASE("a queue's own stream does not wait for the default stream") {
  std::size_t const before = stub::state().stream_flags.size();
  Sm80::queue const queue;
  REQUIRE(stub::state().stream_flags.size() == before + 1);
  CHECK(stub::state().stream_flags.back() == cudaStreamNonBlocking);
}

TEST_CASE("kernels overlap the launches before them where their code waits") {
  for (int const compiled_for : {80, 90}) {
    CAPTURE(compiled_for);
    stub::state().compiled_for = compiled_for;
    Sm80::queue const queue;
    launch_in_one_unit(queue);
    CHECK(stub::state().launches.back().overlaps == (compiled_for >= 90));
  }
}

TEST_CASE("blocks of a cluster are launched as one") {
  for (int const compiled_for : {80, 90}) {
    CAPTURE(compiled_for);
    stub::state().compiled_for = compiled_for;
    Sm80::queue const queue;
    queue.launch(pair_of_blocks{}, 6);
    stub::launch const found = stub::state().launches.back();
    CHECK(found.cluster == 2);
    CHECK(found.blocks == 6);
    CHECK(found.overlaps == (compiled_for >= 90));
    CHECK_THROWS_AS(queue.launch(pair_of_blocks{}, 5), Error);
    launch_in_one_unit(queue);
    CHECK(stub::state().launches.back().cluster == 1);
  }
}

TEST_CASE("operands that the GPU's code lays out otherwise are an error") {
  Sm80::queue const queue;
  stub::state().operand_bytes = 24;
  CHECK_THROWS_WITH_AS(queue.launch(one_operand{}, 1),
                       doctest::Contains("one_operand has 24 bytes of operands in the GPU's code, and 8 here"), Error);
  stub::state().operand_bytes = sizeof(one_operand);
  queue.launch(one_operand{}, 1);
  stub::state().operand_bytes = 0;
}

TEST_CASE("a graph keeps what it replays") {
  nothing_leaks const check;
  std::optional<cuda_graph> graph;
  {
    Sm80::queue const queue;
    graph.emplace(queue, [] {});
  }
  CHECK(stub::state().streams == check.before.streams + 1);
  CHECK(stub::state().allocations == check.before.allocations + 1);
  graph->launch();
  cuda_graph moved = std::move(*graph);
  graph.reset();
  moved.launch();
}

/// y (+)= a b by cuBLAS, with operands that lie row after row or column after column, against plain loops.
template <class T, class A>
void check_product(Index count, bool accumulate, int transposed) {
  CAPTURE(count);
  CAPTURE(accumulate);
  CAPTURE(transposed);
  constexpr Index rows = 3, inner = 5, cols = 4;
  std::vector<A> a(rows * inner), b(static_cast<std::size_t>(count * inner * cols));
  std::vector<T> y(static_cast<std::size_t>(count * rows * cols), T(0.5f));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = A(static_cast<float>(i % 7) - 3);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = A(static_cast<float>(i % 5) - 2);
  auto const matrix = [&]<class U>(U* p, Index n, Index r, Index c, int bit) {
    return (transposed >> bit & 1) != 0 ? view<U>(p, n, c, r).transposed() : view<U>(p, n, r, c);
  };
  view<T> const to = matrix(y.data(), count, rows, cols, 0);
  view<A const> const left = matrix(a.data(), 1, rows, inner, 1), right = matrix(b.data(), count, inner, cols, 2);
  Cuda<A, Sm80> backend;
  int const products = stub::state().products;
  if (count == 1) {
    backend.gemm(to, left, right, accumulate);
  } else {
    backend.gemm_stack(to, left, right, accumulate);
  }
  CHECK(stub::state().products == products + 1);
  for (Index e = 0; e < count; ++e) {
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) {
        double sum = accumulate ? 0.5 : 0;
        for (Index k = 0; k < inner; ++k) {
          sum += static_cast<double>(left(i, k)) * static_cast<double>(right[e](k, j));
        }
        CHECK(static_cast<double>(to[e](i, j)) == sum);
      }
    }
  }
}
TEST_CASE("products of cuBLAS are those of our matrices, and of stacks") {
  for (int transposed = 0; transposed < 8; ++transposed) {
    for (bool const accumulate : {false, true}) {
      for (Index const count : {1, 3}) {
        check_product<float, float>(count, accumulate, transposed);
        check_product<double, double>(count, accumulate, transposed);
        check_product<bfloat16, bfloat16>(count, accumulate, transposed);
        check_product<float, bfloat16>(count, accumulate, transposed);
      }
    }
  }
}

TEST_CASE("what fails leaves nothing behind") {
  SUBCASE("a queue") {
    check_every_failure([] { Sm80::queue const queue; });
  }
  SUBCASE("memory") {
    check_every_failure([] { Sm80::memory const memory(100); });
  }
  SUBCASE("a graph") {
    Sm80::queue const queue;
    check_every_failure([&] { cuda_graph const graph(queue, [] {}); });
  }
  SUBCASE("a launch") {
    Sm80::queue const queue;
    check_every_failure([&] { launch_in_one_unit(queue); });
  }
}
