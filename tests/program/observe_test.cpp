// SPDX-License-Identifier: MIT
// Times of calls, and the first non-finite number.

#include "headmix/program/observe.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "../error_of.hpp"
#include "headmix/headmix.hpp"

namespace observe_test {
namespace {

using namespace headmix;
using test::error_of;

using Layer = MultiHead<8, 2, 4, causal>;
std::vector<float> numbers(Index n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(Random(5).normal(i));
  return v;
}

TEST_CASE("observe: each call that runs takes time, and computes what it computes without observation") {
  Module<Layer, Cpu<float>> m(1), twin(1);
  auto const x = numbers(48), dy = numbers(48);
  std::vector<double> const forward = seconds_of_calls(m, [&] { m.forward({x.data(), 6, 8}); });
  Listing l = listing(m);
  REQUIRE(forward.size() == l.calls.size());
  CHECK(std::accumulate(forward.begin(), forward.end(), 0.0) > 0);
  for (std::size_t c = l.forward_calls; c < forward.size(); ++c) CHECK(forward[c] == 0);
  std::vector<double> const backward = seconds_of_calls(m, [&] { m.backward({dy.data(), 6, 8}); });
  CHECK(std::accumulate(backward.begin(), backward.end(), 0.0) > 0);
  for (std::size_t c = 0; c < l.forward_calls; ++c) CHECK(backward[c] == 0);

  auto const y = twin.forward({x.data(), 6, 8});
  twin.backward({dy.data(), 6, 8});
  auto const found = m.forward({x.data(), 6, 8});
  for (Index i = 0; i < 48; ++i) CHECK(found.data[i] == y.data[i]);
  for (Index i = 0; i < 48; ++i) CHECK(m.input_gradient().data[i] == twin.input_gradient().data[i]);

  CHECK(l.text().find(" ms") == std::string::npos);
  l.add_seconds(forward);
  CHECK(l.text().find(" ms") != std::string::npos);
  CHECK(l.json().find("\"seconds\": ") != std::string::npos);
  CHECK(error_of([&] { l.add_seconds({1}); }) ==
        "headmix: listing: expected the seconds of 14 calls, found those of 1");
}

TEST_CASE("observe: the first number that is not finite, with its call, value and place") {
  Module<Layer, Cpu<float>> m(1);
  auto x = numbers(48);
  auto dy = numbers(48);
  check_finite(m, [&] {
    m.forward({x.data(), 6, 8});
    m.backward({dy.data(), 6, 8});
  });
  dy[19] = std::numeric_limits<float>::infinity();
  CHECK(
      error_of([&] { check_finite(m, [&] {
                       m.backward({dy.data(), 6, 8});
                     }); }) ==
      "headmix: call 5, matmul(transpose(attention#3), d(matmul#4)): d(W_o) is not finite at [0, 0, 3], in a value of "
      "extents [8, 8]");
  m.zero_gradients();
  x[19] = std::numeric_limits<float>::quiet_NaN();
  CHECK(error_of([&] {
          check_finite(m, [&] { m.forward({x.data(), 6, 8}); });
        }) == "headmix: call 0, matmul(x, W_q): matmul#0 is not finite at [0, 2, 0], in a value of extents [6, 8]");
  CHECK(error_of([&] { m.backward({dy.data(), 6, 8}); }).find("the last forward() failed") != std::string::npos);
  m.forward({x.data(), 6, 8});  // not observed
}

TEST_CASE("observe: several programs, one in the other, and each on its own thread") {
  Module<Layer, Cpu<float>, inference> a(1), b(2);
  auto const x = numbers(48);
  std::vector<double> of_b;
  auto const of_a = seconds_of_calls(a, [&] {
    of_b = seconds_of_calls(b, [&] {
      a.forward({x.data(), 6, 8});
      b.forward({x.data(), 6, 8});
    });
  });
  CHECK(std::accumulate(of_a.begin(), of_a.end(), 0.0) > 0);
  CHECK(std::accumulate(of_b.begin(), of_b.end(), 0.0) > 0);
  CHECK(error_of([&] {
          (void)seconds_of_calls(a, [&] {
            std::string error;
            std::thread([&] { error = error_of([&] { a.forward({x.data(), 6, 8}); }); }).join();
            throw Error(error);
          });
        }) == "headmix: a program is observed on another thread than its passes run on");
  a.forward({x.data(), 6, 8});
}

}  // namespace
}  // namespace observe_test
