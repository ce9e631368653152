// SPDX-License-Identifier: MIT
// Invariants of MH-MoE.

#include "mh_moe.hpp"

#include <array>

namespace mh_moe_test {

using namespace headmix;
using namespace headmix::test;

namespace {

double silu_of(double a) { return a / (1 + std::exp(-a)); }

/// True if all elements are zero.
bool nothing(view<double const> v) {
  return std::all_of(v.data, v.data + v.size(), [](double g) { return g == 0; });
}

}  // namespace

TEST_CASE("mh-moe: one expert with head and merge layers of the identity is a network of every sub-token") {
  using L = MhMoe<6, 3, raw_router<1, 1>, FeedForward<5>>;
  using X = L::network;
  TestProgram<mh_moe_roots<L>, inference> p(at<tokens>(4));
  for (Index i = 0; i < 36; ++i) p.in(L::W_head{}).data[i] = p.in(L::W_merge{}).data[i] = i % 7 == 0 ? 1 : 0;
  auto const y = p.forward();
  auto const x = p.in(L::x{});
  for (Index t = 0; t < 4; ++t) {
    for (Index j = 0; j < 6; ++j) {
      double expected = 0;
      for (Index f = 0; f < 5; ++f) {
        double up = 0, gate = 0;
        for (Index i = 0; i < 2; ++i) {
          up += x(t, j / 2 * 2 + i) * p.in(X::W_up{})[0](i, f);
          gate += x(t, j / 2 * 2 + i) * p.in(X::W_gate{})[0](i, f);
        }
        expected += up * silu_of(gate) * p.in(X::W_down{})[0](f, j % 2);
      }
      CHECK(close(y(t, j), expected));
    }
  }
  CHECK(close(p.program.get(nth<0, L::losses>{})(0, 0), 1));
}
TEST_CASE("mh-moe: without a limit a token has the same result in every batch") {
  using L = MhMoe<6, 2, raw_router<4, 2>, FeedForward<5>, shared_expert<FeedForward<3>>>;
  TestProgram<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(7)), alone(at<tokens>(1));
  auto const y = p.forward();
  for (Index t = 0; t < 7; ++t) {
    for (Index j = 0; j < 6; ++j) alone.in(L::x{})(0, j) = p.in(L::x{})(t, j);
    auto const z = alone.forward();
    for (Index j = 0; j < 6; ++j) CHECK(y(t, j) == z(0, j));
  }
}
TEST_CASE("mh-moe: permuting the experts permutes their gradients and leaves the rest alone") {
  using R = SoftmaxTopK<5, 2, gating::raw, loss::first_choice_balance, loss::load_balance>;
  using L = MhMoe<6, 3, R, FeedForward<4>, capacity<3, 4>>;
  using X = L::network;
  TestProgram<mh_moe_roots<L>> p(at<tokens>(9)), q(at<tokens>(9));
  std::array<Index, 5> const order{3, 0, 4, 1, 2};  // expert e of p is expert order[e] of q
  copy_weights(p, q);
  for (Index e = 0; e < 5; ++e) {
    auto const from = order[static_cast<std::size_t>(e)];
    for (Index i = 0; i < 2; ++i) p.in(L::r::W_g{})(i, e) = q.in(L::r::W_g{})(i, from);
    for (Index i = 0; i < 8; ++i) {
      p.in(X::W_up{})[e].data[i] = q.in(X::W_up{})[from].data[i];
      p.in(X::W_gate{})[e].data[i] = q.in(X::W_gate{})[from].data[i];
      p.in(X::W_down{})[e].data[i] = q.in(X::W_down{})[from].data[i];
    }
  }
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
  CHECK(close(p.program.get(nth<0, L::losses>{})(0, 0), q.program.get(nth<0, L::losses>{})(0, 0)));
  CHECK(close(p.program.get(nth<1, L::losses>{})(0, 0), q.program.get(nth<1, L::losses>{})(0, 0)));
  auto const chosen = p.program.get(nth<0, L::observed>{}), other = q.program.get(nth<0, L::observed>{});
  for (Index i = 0; i < chosen.size(); ++i) CHECK(order[static_cast<std::size_t>(chosen.data[i])] == other.data[i]);
  p.backward({0.5, 0.25});
  q.backward({0.5, 0.25});
  for (Index e = 0; e < 5; ++e) {
    auto const from = order[static_cast<std::size_t>(e)];
    for (Index i = 0; i < 8; ++i) {
      CHECK(close(p.gradient(X::W_up{})[e].data[i], q.gradient(X::W_up{})[from].data[i]));
      CHECK(close(p.gradient(X::W_down{})[e].data[i], q.gradient(X::W_down{})[from].data[i]));
    }
    for (Index i = 0; i < 2; ++i) CHECK(close(p.gradient(L::r::W_g{})(i, e), q.gradient(L::r::W_g{})(i, from)));
  }
  for (std::size_t i = 0; i < p.gradients(L::x{}).size(); ++i)
    CHECK(close(p.gradients(L::x{})[i], q.gradients(L::x{})[i]));
}
TEST_CASE("mh-moe: an expert without rows has gradients of zero") {
  using L = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, no_head>;
  using X = L::network;
  TestProgram<roots<type_of<decltype(L::y)>, type_of<decltype(L::r::index)>>> p(
      gradcheck_options{.low = 0.1, .high = 1}, at<tokens>(7));
  for (Index i = 0; i < 2; ++i) p.in(L::r::W_g{})(i, 2) = -50;
  p.forward();
  p.backward();
  auto const chosen = p.program.get(L::r::index);
  std::array<bool, 4> used{};
  for (Index i = 0; i < chosen.size(); ++i) used[static_cast<std::size_t>(chosen.data[i])] = true;
  REQUIRE_FALSE(used[2]);
  for (Index e = 0; e < 4; ++e) {
    bool const none = !used[static_cast<std::size_t>(e)];
    CHECK(nothing(p.gradient(X::W_up{})[e]) == none);
    CHECK(nothing(p.gradient(X::W_gate{})[e]) == none);
    CHECK(nothing(p.gradient(X::W_down{})[e]) == none);
  }
}

}  // namespace mh_moe_test
