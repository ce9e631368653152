// SPDX-License-Identifier: MIT
// Silent faults of the past: two uses of a layer in one network must have different masks and initial values.
#include <doctest/doctest.h>

#include <algorithm>
#include <headmix/headmix.hpp>
#include <utility>

namespace pitfalls_test {

using namespace headmix;

namespace {

struct Drop {
  struct x : input<tokens, size<64>> {};
  struct W : param<size<64>> {
    using initializer = normal<1, 1>;
  };
  static constexpr auto y = dropout<1, 2>(x{}) * W{};
  using losses = type_list<>;
  using observed = type_list<>;
};
struct Twice {
  struct x : input<tokens, size<64>> {};
  static constexpr auto first = use<Drop, "first">(x{});
  static constexpr auto y = use<Drop, "second">(first.y).y;
  using losses = type_list<>;
  using observed = type_list<>;
};
struct Repeated {
  struct x : input<tokens, size<64>> {};
  static constexpr auto y = repeat<2, Drop, "blocks">(x{}).y;
  using losses = type_list<>;
  using observed = type_list<>;
};

/// The share of elements that two dropouts of 1/2 keep.
template <class L>
void has_masks_of_its_own() {
  Module<L, Cpu<float>> m(1);
  std::vector<float> x(100 * 64, 1);
  auto const y = m.forward({x.data(), 100, 64});
  auto const alive = y.size() - std::count(y.data, y.data + y.size(), 0.f);
  CHECK(std::abs(static_cast<double>(alive) / static_cast<double>(y.size()) - 0.25) < 0.03);
  auto const& p = m.parameters();
  REQUIRE(p.size() == 2);
  CHECK_FALSE(std::equal(p[0].value.data, p[0].value.data + 64, p[1].value.data));
}

}  // namespace

TEST_CASE("pitfalls: uses and times of a layer have masks and starts of their own") {
  has_masks_of_its_own<Twice>();
  has_masks_of_its_own<Repeated>();
}

TEST_CASE("pitfalls: modules of one seed are replicas, those with names have masks and starts of their own") {
  std::vector<float> x(100 * 64, 1);
  auto const agreement = [&x](std::uint64_t first, std::uint64_t second) {
    Module<Drop, Cpu<float>> a(first), b(second);
    auto const& p = a.parameters()[0].value;
    auto const& q = b.parameters()[0].value;
    auto const y = a.forward({x.data(), 100, 64}), z = b.forward({x.data(), 100, 64});
    int masks = 0;
    for (Index i = 0; i < y.size(); ++i) masks += (y.data[i] == 0) == (z.data[i] == 0);
    return std::pair(std::equal(p.data, p.data + 64, q.data), masks / static_cast<double>(y.size()));
  };
  CHECK(agreement(1, 1) == std::pair(true, 1.0));
  CHECK(agreement(named_seed(1, "0.attn"), named_seed(1, "0.attn")) == std::pair(true, 1.0));
  for (auto const other : {named_seed(1, "1.attn"), named_seed(2, "0.attn"), std::uint64_t{1}}) {
    auto const [starts, masks] = agreement(named_seed(1, "0.attn"), other);
    CHECK_FALSE(starts);
    CHECK(std::abs(masks - 0.5) < 0.03);
  }
}

}  // namespace pitfalls_test
