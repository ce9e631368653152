// SPDX-License-Identifier: MIT
// What the host's side of the Cuda backend asks of the CUDA runtime, seen by a stub of it (stub.hpp): no GPU is needed.
#include <doctest/doctest.h>

#include <memory>
#include <optional>

#include "headmix/backend/cuda/graph.cuh"
#include "stub.hpp"
#include "units.hpp"

using namespace headmix;

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
