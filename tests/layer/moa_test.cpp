// SPDX-License-Identifier: MIT
// MoA against the numbers of the published code, its gradients, and what must hold whatever the numbers are.

#include "headmix/layer/moa.hpp"

#include <array>

#include "../program.hpp"
#include "headmix/layer/multi_head.hpp"
#include "published.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {

template <class L>
using moa_roots = roots<type_of<decltype(L::y)>, type_of<decltype(L::r::load)>, type_of<decltype(L::r::z_2)>,
                        type_of<decltype(L::r::index)>>;

/// The program of the published numbers: B = 2 sequences of T = 5, where the published x is [T, B, d].
template <class G>
struct Golden {
  using layer = Moa<8, 4, SoftmaxTopK<6, 2, G>, causal>;
  static gradcheck_options options() {
    gradcheck_options o;
    o.token_sequences = uniform(2, 5);
    return o;
  }
  Program<moa_roots<layer>> p{options()};
  view<double const> y;
  std::vector<double> y_values;

  explicit Golden() {
    fill_as_published<layer>(p);
    y = p.forward();
    y_values.assign(y.data, y.data + y.size());
    p.backward({0, 0});
  }
};

/// A program over L whose gates are renormalized by a constant: what "detached" means.
template <class L>
struct constant_sum {
  struct c : constant<tokens, size<1>> {};
  static constexpr auto chosen = L::r::chosen;
  static constexpr auto y = mix(chosen / c{}, expert_linear(L::o, typename L::W_o{}, L::r::index));
};

/// Fills P's parameters so that each expert is another one of Q's: expert e of P is expert order[e] of Q.
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

std::array<Int, 4> const offsets{0, 2, 2, 7};
gradcheck_options ragged_options() {
  gradcheck_options o;
  o.token_sequences = ragged(offsets.data(), 3);
  return o;
}

}  // namespace

TEST_CASE("moa: the published selection and losses") {
  Golden<gating::raw> g;
  std::array<Int, 20> const expected{0, 1, 0, 1, 1, 2, 3, 4, 4, 5, 0, 1, 1, 0, 2, 3, 4, 3, 5, 4};
  auto const selected = g.p.tape.get(decltype(g)::layer::r::index);
  for (Index i = 0; i < 20; ++i) CHECK(selected.data[i] == expected[static_cast<std::size_t>(i)]);
  CHECK(golden(g.p.tape.get(decltype(g)::layer::r::load)(0, 0), 1.0614172932));
  CHECK(golden(g.p.tape.get(decltype(g)::layer::r::z_2)(0, 0), 17.3416197280));
}
TEST_CASE("moa: the published numbers of the raw gate") {
  Golden<gating::raw> g;
  using L = decltype(g)::layer;
  CHECK(golden(g.y(0, 0), 0.1388227107));
  CHECK(golden(g.y(0, 1), 0.7568294502));
  CHECK(golden(g.y(0, 2), 0.2660792721));
  CHECK(golden(g.y(0, 3), -0.6144776630));
  CHECK(golden(total(g.y_values), 3.6898843485));
  CHECK(golden(squares(g.y_values), 7.3562794145));
  auto const d_x = g.p.gradient(L::x{});
  CHECK(golden(d_x(0, 0), 0.0808236726));
  CHECK(golden(d_x(0, 1), -0.1722882593));
  CHECK(golden(d_x(0, 2), 0.0569308032));
  CHECK(golden(d_x(0, 3), 0.0901290005));
  CHECK(golden(total(g.p.gradients(L::x{})), 0.3484954605));
  CHECK(golden(squares(g.p.gradients(L::x{})), 0.5489320104));
  auto const& d_g = g.p.gradients(L::r::W_g{});
  CHECK(golden(d_g[0], -0.0612860162));
  CHECK(golden(d_g[1], -0.0125957797));
  CHECK(golden(d_g[2], 0.0836095844));
  CHECK(golden(d_g[3], -0.0794601411));
  CHECK(golden(total(d_g), 0));
  CHECK(golden(squares(d_g), 0.3599864530));
  CHECK(golden(total(g.p.gradients(L::W_q{})), -0.0066524957));
  CHECK(golden(squares(g.p.gradients(L::W_q{})), 0.0286044476));
  CHECK(golden(total(g.p.gradients(L::W_o{})), -0.0510820858));
  CHECK(golden(squares(g.p.gradients(L::W_o{})), 8.2366112643));
  CHECK(golden(total(g.p.gradients(L::W_k{})), 0.0020502867));
  CHECK(golden(squares(g.p.gradients(L::W_k{})), 0.0955081606));
  CHECK(golden(total(g.p.gradients(L::W_v{})), -0.0373420779));
  CHECK(golden(squares(g.p.gradients(L::W_v{})), 0.3092371647));
}
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
TEST_CASE("moa: gradients with one choice, with all, and with a single expert") {
  using F = Moa<5, 3, SoftmaxTopK<dynamic, dynamic, gating::raw>, causal>;
  check_gradient(F::y, {}, at<F::E>(4), at<F::K>(1));
  check_gradient(F::y, {}, at<F::E>(3), at<F::K>(3));
  check_gradient(F::y, {}, at<F::E>(1), at<F::K>(1));
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
TEST_CASE("moa: permuting the experts permutes their gradients and leaves the rest alone") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  Program<moa_roots<L>> p(at<tokens>(9)), q(at<tokens>(9));
  std::array<Index, 5> const order{3, 0, 4, 1, 2};
  permute_experts<L>(p, q, order);
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
  CHECK(close(p.tape.get(L::r::load)(0, 0), q.tape.get(L::r::load)(0, 0)));
  CHECK(close(p.tape.get(L::r::z_2)(0, 0), q.tape.get(L::r::z_2)(0, 0)));
  auto const chosen = p.tape.get(L::r::index), other = q.tape.get(L::r::index);
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
  Program<moa_roots<L>> p(at<tokens>(7));
  Program<roots<type_of<decltype(Raw::y)>, type_of<decltype(Raw::r::chosen)>>, inference> raw(at<tokens>(7));
  Program<roots<type_of<decltype(M::y)>>, inference> q(at<tokens>(7));
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
  auto const chosen = raw.tape.get(Raw::r::chosen);
  for (Index i = 0; i < 7; ++i) {
    for (Index j = 0; j < 6; ++j) {
      CHECK(close(y(i, j), z(i, j)));
      CHECK(close(r(i, j), z(i, j) * (chosen(i, 0) + chosen(i, 1))));
    }
  }
}
TEST_CASE("moa: all experts with a router of zeros are multi-query attention, averaged") {
  using L = Moa<6, 4, SoftmaxTopK<3, 3, gating::renormalized>, causal>;
  using M = MultiHead<6, 3, 4, causal, 1>;
  Program<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(7));
  Program<roots<type_of<decltype(M::y)>>, inference> q(at<tokens>(7));
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
  Program<moa_roots<L>> p(gradcheck_options{.low = 0.1, .high = 1}, at<tokens>(7));
  for (Index i = 0; i < 6; ++i) p.in(L::r::W_g{})(i, 3) = -50;
  p.forward();
  p.backward({0, 0});
  auto const chosen = p.tape.get(L::r::index);
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
TEST_CASE("moa: a token sees neither later tokens nor other sequences") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  Program<moa_roots<L>> p(ragged_options());
  auto y = p.forward();
  std::vector<double> const before(y.data, y.data + y.size());
  p.in(L::x{})(4, 0) += 0.5;
  y = p.forward();
  for (Index i = 0; i < 7; ++i) {
    bool changed = false;
    for (Index j = 0; j < 6; ++j) changed = changed || y(i, j) != before[static_cast<std::size_t>(i * 6 + j)];
    CHECK(changed == (i >= 4));
  }
}
TEST_CASE("moa: dynamic sizes give what static ones give") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  using F = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, causal>;
  Program<moa_roots<L>> p(at<tokens>(7));
  Program<moa_roots<F>> q(at<tokens>(7), at<F::D>(6), at<F::H>(4), at<F::E>(5), at<F::K>(2));
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == z.data[i]);
  p.backward({0.5, 0.25});
  q.backward({0.5, 0.25});
  CHECK(p.gradients(L::x{}) == q.gradients(F::x{}));
  CHECK(p.gradients(L::W_q{}) == q.gradients(F::W_q{}));
  CHECK(p.gradients(L::r::W_g{}) == q.gradients(F::r::W_g{}));
}
TEST_CASE("moa: no tokens give no output, and gradients of zero") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
  Program<moa_roots<L>> p(at<tokens>(0));
  CHECK(p.forward().rows == 0);
  p.backward({0, 0});
  for (double const g : p.gradients(L::W_q{})) CHECK(g == 0);
  for (double const g : p.gradients(L::W_k{})) CHECK(g == 0);
}
TEST_CASE("moa: more choices than experts are an error at run time, with both numbers") {
  using F = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, causal>;
  Program<moa_roots<F>> p(at<tokens>(3), at<F::D>(6), at<F::H>(4), at<F::E>(3), at<F::K>(4));
  CHECK_THROWS_WITH_AS(static_cast<void>(p.tape.workspace_bytes()), doctest::Contains("size K = 4 must be at most"),
                       Error);
}
