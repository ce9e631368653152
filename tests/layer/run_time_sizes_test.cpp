// SPDX-License-Identifier: MIT
// Dynamic sizes with values for which the static layer does not compile.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../error_of.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/use.hpp"
#include "headmix/program/module.hpp"
#include "headmix/router/query_norm.hpp"

namespace run_time_sizes_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("sizes at run time: heads of Mae's experts") {
  using L = Mae<4, dynamic, 2, causal>;
  auto const run = [](Index heads, Index kept, Index experts) {
    Module<L, Cpu<float>> m(1, Cpu<float>(), at<typename L::heads>(heads), at<L::expert_heads>(kept),
                            at<L::experts>(experts));
    Int const selection[] = {0, 0, 0, 0};
    m.program().bind(L::heads_of_experts{}, view<Int const>(selection, experts, kept));
    float const x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    return static_cast<double>(m.forward({x, 2, 4})(0, 0));
  };
  CHECK(says(error_of([&] { run(3, 0, 1); }), "size 1 = 1 must be at most size expert_heads = 0"));
  CHECK(says(error_of([&] { run(1, 0, 1); }), "size 1 = 1 must be at most size expert_heads = 0"));
  CHECK(says(error_of([&] { run(2, 2, 1); }), "size expert_heads = 2 must be less than size heads = 2"));
  CHECK(says(error_of([&] { run(2, 3, 1); }), "size expert_heads = 3 must be less than size heads = 2"));
  CHECK(says(error_of([&] { run(2, 1, 0); }), "size 1 = 1 must be at most size experts = 0"));
  CHECK(std::isfinite(run(2, 1, 2)));
}
TEST_CASE("sizes at run time: one routed head of QueryNorm") {
  using R = QueryNorm<1, dynamic, 1>;
  using L = Moh<4, 2, R, causal>;
  auto const run = [](Index routed) {
    Module<L, Cpu<float>> m(1, Cpu<float>(), at<R::routed_heads>(routed));
    float const x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    m.forward({x, 2, 4});
  };
  CHECK(says(error_of([&] { run(1); }), "size 2 = 2 must be at most size routed_heads = 1"));
  run(2);
}
TEST_CASE("sizes at run time: capacities") {
  constexpr Index most = (std::numeric_limits<Index>::max)();
  CHECK(says(error_of([] { static_cast<void>(capacity_rows(1, -4, 2, 1)); }), "found -4, 2 and 1"));
  CHECK(says(error_of([] { static_cast<void>(capacity_rows(1, 4, -2, 1)); }), "found 4, -2 and 1"));
  CHECK(says(error_of([] { static_cast<void>(capacity_rows(1, 4, 2, -1)); }), "found 4, 2 and -1"));
  CHECK(says(error_of([] { static_cast<void>(capacity_rows(1e300, most / 2, 2, 4)); }), "sizes are too large: "));
  CHECK(says(error_of([] { static_cast<void>(capacity_rows(1, most, 2, 1)); }), "sizes are too large: "));
  CHECK(capacity_rows(1, 5, 2, 2) == 6);
}
using Capped = MultiHead<8, 2, 4, causal, soft_cap<dynamic>>;
using Turned = MultiHead<8, 2, 4, causal, rope<dynamic>>;
struct Network {
  struct x : input<tokens, size<8>> {};
  static constexpr auto capped = use<Capped, "attn">(x{});
  static constexpr auto y = capped.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
/// Errors of a layer with its leaf bound to each of these numbers.
template <class L, class Number, class T>
void check_positive_alone(char const* text) {
  Module<L, Cpu<T>> m(1);
  std::vector<T> const x(3 * 8, T(1));
  double const most = std::numeric_limits<double>::infinity();
  for (double const number : {2., 0.125, 0., -1., most, -most, std::nan("")}) {
    CAPTURE(number);
    auto const value = static_cast<T>(number);
    m.program().bind(Number{}, {&value, 1, 1});
    auto const error = error_of([&] { m.forward({x.data(), 3, 8}); });
    if (number > 0 && number < most) CHECK(error.empty());
    if (!(number > 0 && number < most)) CHECK(says(error, text));
  }
}
TEST_CASE("numbers at run time: a cap of scores and theta of rotary embedding are finite and above 0") {
  check_positive_alone<Capped, soft_cap<dynamic>::cap, float>("cap: expected finite numbers above 0, found ");
  check_positive_alone<Capped, soft_cap<dynamic>::cap, bfloat16>("cap: expected finite numbers above 0, found ");
  check_positive_alone<Turned, rope<dynamic>::theta, double>("theta: expected finite numbers above 0, found ");
  using cap = decltype(Network::capped)::as<soft_cap<dynamic>::cap>;
  check_positive_alone<Network, cap, float>("cap: expected finite numbers above 0, found ");
}

}  // namespace run_time_sizes_test
