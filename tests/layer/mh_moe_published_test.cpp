// SPDX-License-Identifier: MIT
// MH-MoE against the numbers of the published code: a head layer, three sub-tokens, two of four experts.

#include <array>
#include <initializer_list>

#include "headmix/layer/mh_moe.hpp"
#include "published.hpp"

namespace mh_moe_published_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// The published weights are [out, in].
void transposed(view<double> v, double scale, double s) {
  for (Index e = 0; e < v.count; ++e) {
    for (Index i = 0; i < v.rows; ++i) {
      for (Index j = 0; j < v.cols; ++j) v[e](i, j) = scale * S(s, (e * v.cols + j) * v.rows + i);
    }
  }
}
void in_order(view<double> v, double scale, double s) {
  for (Index i = 0; i < v.size(); ++i) v.data[i] = scale * S(s, i);
}

template <class Gating, class... Options>
struct Published {
  using L = MhMoe<6, 3, SoftmaxTopK<4, 2, Gating, loss::first_choice_balance>, FeedForward<5>, head_bias, merge_bias,
                  Options...>;
  using X = typename L::network;
  using all_roots =
      typename headmix::detail::module_roots<type_of<decltype(L::y)>, typename L::losses, typename L::observed>::type;
  static gradcheck_options options() {
    gradcheck_options o;
    o.token_sequences = uniform(1, 4);
    return o;
  }
  TestProgram<all_roots> p{options()};
  std::vector<double> y;

  Published() {
    transposed(p.in(typename L::W_head{}), 0.5, 0.7);
    in_order(p.in(typename L::b_head{}), 0.1, 1.1);
    transposed(p.in(typename L::r::W_g{}), 1, 1.9);
    transposed(p.in(typename X::W_up{}), 1, 0.9);
    transposed(p.in(typename X::W_gate{}), 1, 1.2);
    transposed(p.in(typename X::W_down{}), 1, 1.5);
    transposed(p.in(typename L::W_merge{}), 0.5, 1.3);
    in_order(p.in(typename L::b_merge{}), 0.1, 1.7);
    in_order(p.in(typename L::x{}), 1, 2.3);
    auto const result = p.forward();
    y.assign(result.data, result.data + result.size());
    for (std::size_t i = 0; i < 24; ++i) p.dy_values[i] = S(2.9, static_cast<Index>(i));
    p.backward({0});
  }
  void check(double sum_y, double squares_y, double sum_dx, double squares_dx, double squares_dw) {
    CHECK(golden(total(y), sum_y));
    CHECK(golden(squares(y), squares_y));
    auto const dx = p.gradients(typename L::x{});
    CHECK(golden(total(dx), sum_dx));
    CHECK(golden(squares(dx), squares_dx));
    CHECK(golden(squares(p.gradients(typename L::r::W_g{})), squares_dw));
  }
};

TEST_CASE("MH-MoE gives the published numbers: dropless, raw gates") {
  Published<gating::raw> m;
  using L = decltype(m)::L;
  m.check(.2026012900, .1915562229, -.0534645153, .0822484199, .0001813907);
  std::array const first{.1050749938, -.0241852909, -.0983422706, .0474208628};
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(golden(m.y[i], first[i]));
  auto const dw = m.p.gradients(L::W_head{}), du = m.p.gradients(L::network::W_up{});
  CHECK(golden(total(dw), .0971128932));
  CHECK(golden(squares(dw), .3164146256));
  CHECK(golden(total(du), .0140638679));
  CHECK(golden(squares(du), .0037045460));
  CHECK(golden(m.p.program.get(nth<0, L::losses>{})(0, 0), 1.0117310638));
}
TEST_CASE("MH-MoE gives the published numbers: a capacity of six rows drops two choices") {
  Published<gating::raw, capacity<1>> m;
  using L = decltype(m)::L;
  m.check(.2179202999, .1937821271, -.0391856326, .0746058624, .0001796736);
  CHECK(golden(squares(m.p.gradients(L::network::W_up{})), .0035714701));
}
TEST_CASE("MH-MoE gives the published numbers: renormalised gates") {
  Published<gating::renormalized> m;
  m.check(.2245612690, .2356605028, -.0816662250, .1731619805, .0002027921);
}

}  // namespace

}  // namespace mh_moe_published_test
