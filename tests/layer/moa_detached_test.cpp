// SPDX-License-Identifier: MIT
// The paper's gate, whose sum has no gradient: published numbers, and the definition of "detached".

#include "headmix/layer/moa.hpp"
#include "published.hpp"

namespace moa_detached_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// A program over L whose gates are divided by a constant: the definition of "detached".
template <class L>
struct constant_sum {
  struct c : constant<tokens, size<1>> {};
  static constexpr auto chosen = L::r::p_chosen;
  static constexpr auto y = combine(chosen / c{}, expert_linear(L::o, typename L::W_o{}, L::r::index));
};

}  // namespace

TEST_CASE("moa: the published numbers of the detached gate") {
  Golden<gating::detached> g;
  using L = decltype(g)::layer;
  CHECK(golden(g.y(0, 0), 0.1419697574));
  CHECK(golden(g.y(0, 1), 0.7739864240));
  CHECK(golden(g.y(0, 2), 0.2721111662));
  CHECK(golden(g.y(0, 3), -0.6284075876));
  CHECK(golden(total(g.y_values), 4.0778253943));
  CHECK(golden(squares(g.y_values), 9.2347532009));
  CHECK(golden(squares(g.p.gradients(L::x{})), 0.7334758744));
  CHECK(golden(squares(g.p.gradients(L::r::W_g{})), 0.5401759648));
  CHECK(golden(squares(g.p.gradients(L::W_q{})), 0.0398098267));
  CHECK(golden(squares(g.p.gradients(L::W_o{})), 10.7311220053));
  CHECK(golden(squares(g.p.gradients(L::W_k{})), 0.1020673743));
  CHECK(golden(squares(g.p.gradients(L::W_v{})), 0.4302088103));
}
TEST_CASE("moa: the detached gate has the gradients of a gate divided by a constant") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  using twin = constant_sum<L>;
  for (Index const rows : {0, 1, 7}) {
    TestProgram<moa_roots<L>> p(at<tokens>(rows));
    TestProgram<roots<type_of<decltype(twin::y)>>> q(at<tokens>(rows));
    TestProgram<roots<type_of<decltype(row_sum(L::r::p_chosen))>>, inference> s(at<tokens>(rows));
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

}  // namespace moa_detached_test
