// SPDX-License-Identifier: MIT
// The gradients of MoA.

#include "headmix/layer/moa.hpp"
#include "published.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {

/// A program over L whose gates are renormalized by a constant: what "detached" means.
template <class L>
struct constant_sum {
  struct c : constant<tokens, size<1>> {};
  static constexpr auto chosen = L::r::chosen;
  static constexpr auto y = mix(chosen / c{}, expert_linear(L::o, typename L::W_o{}, L::r::index));
};

}  // namespace

TEST_CASE("moa: gradients, raw gate, causal") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2, gating::raw>, causal>;
  check_gradient(L::y);
  CHECK(gradcheck(L::y, ragged_options(), at<tokens>(7)).ok());
}
TEST_CASE("moa: gradients, renormalized gate, every key") {
  using L = Moa<5, 3, SoftmaxTopK<4, 3, gating::renormalized>>;
  check_gradient(L::y);
  CHECK(gradcheck(L::y, ragged_options(), at<tokens>(7)).ok());
}
TEST_CASE("moa: the detached gate has the gradients of a gate divided by a constant") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  using twin = constant_sum<L>;
  for (Index const rows : {0, 1, 7}) {
    Program<moa_roots<L>> p(at<tokens>(rows));
    Program<roots<type_of<decltype(twin::y)>>> q(at<tokens>(rows));
    Program<roots<type_of<decltype(row_sum(L::r::chosen))>>, inference> s(at<tokens>(rows));
    auto const copy = [&](auto leaf) { q.values(leaf) = p.values(leaf); };
    copy(L::x{});
    copy(L::W_q{});
    copy(L::W_k{});
    copy(L::W_v{});
    copy(L::W_o{});
    copy(L::r::W_g{});
    s.values(L::x{}) = p.values(L::x{});
    s.values(L::r::W_g{}) = p.values(L::r::W_g{});
    auto const sum = s.forward();
    q.values(twin::c{}).assign(sum.data, sum.data + rows);
    auto const y = p.forward(), z = q.forward();
    for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
    p.backward({0, 0});
    q.backward();
    auto const same = [&](auto leaf) {
      for (std::size_t i = 0; i < p.gradients(leaf).size(); ++i)
        CHECK(close(p.gradients(leaf)[i], q.gradients(leaf)[i]));
    };
    same(L::x{});
    same(L::W_q{});
    same(L::W_k{});
    same(L::W_v{});
    same(L::W_o{});
    same(L::r::W_g{});
  }
}
