// SPDX-License-Identifier: MIT
// Invariants of the experts of MoA.

#include <array>

#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "published.hpp"

namespace moa_experts_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// Copies Q's parameters to P with permuted experts: expert e of P is expert order[e] of Q.
template <class L>
void permute_experts(auto& p, auto& q, std::array<Index, 5> const& order) {
  p.values(typename L::x{}) = q.values(typename L::x{});
  p.values(typename L::W_k{}) = q.values(typename L::W_k{});
  p.values(typename L::W_v{}) = q.values(typename L::W_v{});
  for (Index e = 0; e < 5; ++e) {
    auto const from = order[static_cast<std::size_t>(e)];
    for (Index i = 0; i < 6; ++i) {
      for (Index j = 0; j < 4; ++j) p.in(typename L::W_q{})[e](i, j) = q.in(typename L::W_q{})[from](i, j);
      p.in(typename L::r::W_g{})(i, e) = q.in(typename L::r::W_g{})(i, from);
    }
    for (Index i = 0; i < 4; ++i) {
      for (Index j = 0; j < 6; ++j) p.in(typename L::W_o{})[e](i, j) = q.in(typename L::W_o{})[from](i, j);
    }
  }
}

}  // namespace

TEST_CASE("moa: permuting the experts permutes their gradients and leaves the rest alone") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  TestProgram<moa_roots<L>> p(at<tokens>(9)), q(at<tokens>(9));
  std::array<Index, 5> const order{3, 0, 4, 1, 2};
  permute_experts<L>(p, q, order);
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
  CHECK(close(p.program.get(L::r::load)(0, 0), q.program.get(L::r::load)(0, 0)));
  CHECK(close(p.program.get(L::r::z_2)(0, 0), q.program.get(L::r::z_2)(0, 0)));
  auto const chosen = p.program.get(L::r::index), other = q.program.get(L::r::index);
  for (Index i = 0; i < chosen.size(); ++i) CHECK(order[static_cast<std::size_t>(chosen.data[i])] == other.data[i]);
  p.backward({0.5, 0.25});
  q.backward({0.5, 0.25});
  for (Index e = 0; e < 5; ++e) {
    auto const from = order[static_cast<std::size_t>(e)];
    for (Index i = 0; i < 24; ++i) {
      CHECK(close(p.gradient(L::W_q{})[e].data[i], q.gradient(L::W_q{})[from].data[i]));
      CHECK(close(p.gradient(L::W_o{})[e].data[i], q.gradient(L::W_o{})[from].data[i]));
    }
    for (Index i = 0; i < 6; ++i) CHECK(close(p.gradient(L::r::W_g{})(i, e), q.gradient(L::r::W_g{})(i, from)));
  }
  for (std::size_t i = 0; i < p.gradients(L::x{}).size(); ++i)
    CHECK(close(p.gradients(L::x{})[i], q.gradients(L::x{})[i]));
}
TEST_CASE("moa: equal experts are single-head attention times the sum of the gates, whatever was chosen") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  using Raw = Moa<6, 4, SoftmaxTopK<5, 2, gating::raw>, causal>;
  using M = MultiHead<6, 1, 4, causal>;
  TestProgram<moa_roots<L>> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(Raw::y)>, type_of<decltype(Raw::r::p_chosen)>>, inference> raw(at<tokens>(7));
  TestProgram<roots<type_of<decltype(M::y)>>, inference> q(at<tokens>(7));
  q.values(M::x{}) = p.values(L::x{});
  q.values(M::W_k{}) = p.values(L::W_k{});
  q.values(M::W_v{}) = p.values(L::W_v{});
  for (Index e = 0; e < 5; ++e) {
    for (Index i = 0; i < 24; ++i) {
      p.in(L::W_q{})[e].data[i] = q.in(M::W_q{}).data[i];
      p.in(L::W_o{})[e].data[i] = q.in(M::W_o{}).data[i];
    }
  }
  raw.values(Raw::x{}) = p.values(L::x{});
  raw.values(Raw::r::W_g{}) = p.values(L::r::W_g{});
  raw.values(Raw::W_q{}) = p.values(L::W_q{});
  raw.values(Raw::W_k{}) = p.values(L::W_k{});
  raw.values(Raw::W_v{}) = p.values(L::W_v{});
  raw.values(Raw::W_o{}) = p.values(L::W_o{});
  auto const y = p.forward(), z = q.forward(), r = raw.forward();
  auto const chosen = raw.program.get(Raw::r::p_chosen);
  for (Index i = 0; i < 7; ++i) {
    for (Index j = 0; j < 6; ++j) {
      CHECK(close(y(i, j), z(i, j)));
      CHECK(close(r(i, j), z(i, j) * (chosen(i, 0) + chosen(i, 1))));
    }
  }
}
TEST_CASE("moa: all experts with a router of zeros are multi-query attention, averaged") {
  using L = Moa<6, 4, SoftmaxTopK<3, 3, gating::renormalized>, causal>;
  using M = MultiHead<6, 3, 4, causal, kv_heads<1>>;
  TestProgram<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(M::y)>>, inference> q(at<tokens>(7));
  p.values(L::r::W_g{}).assign(18, 0.0);
  q.values(M::x{}) = p.values(L::x{});
  q.values(M::W_k{}) = p.values(L::W_k{});
  q.values(M::W_v{}) = p.values(L::W_v{});
  q.values(M::W_o{}) = p.values(L::W_o{});
  for (Index e = 0; e < 3; ++e) {
    for (Index i = 0; i < 6; ++i) {
      for (Index j = 0; j < 4; ++j) q.in(M::W_q{})(i, e * 4 + j) = p.in(L::W_q{})[e](i, j);
    }
  }
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i] / 3));
}
TEST_CASE("moa: an expert without rows has gradients of zero") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  TestProgram<moa_roots<L>> p(gradcheck_options{.low = 0.1, .high = 1}, at<tokens>(7));
  for (Index i = 0; i < 6; ++i) p.in(L::r::W_g{})(i, 3) = -50;
  p.forward();
  p.backward({0, 0});
  auto const chosen = p.program.get(L::r::index);
  std::array<bool, 5> used{};
  for (Index i = 0; i < chosen.size(); ++i) used[static_cast<std::size_t>(chosen.data[i])] = true;
  REQUIRE_FALSE(used[3]);
  for (Index e = 0; e < 5; ++e) {
    bool some = false;
    for (Index i = 0; i < 24; ++i)
      some = some || p.gradient(L::W_q{})[e].data[i] != 0 || p.gradient(L::W_o{})[e].data[i] != 0;
    CHECK(some == used[static_cast<std::size_t>(e)]);
  }
}

}  // namespace moa_experts_test
