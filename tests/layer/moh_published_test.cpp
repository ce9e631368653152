// SPDX-License-Identifier: MIT
// MoH against numbers of the published code: the two-stage router of the image models, and the query norms of the
// language model.

#include <algorithm>
#include <array>
#include <initializer_list>

#include "headmix/layer/moh.hpp"
#include "published.hpp"

namespace moh_published_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// The published weights are [out, in]: element (i, j) of v is number (first + j) * in + i.
void transposed(view<double> v, double scale, double s, Index first = 0) {
  for (Index i = 0; i < v.rows; ++i) {
    for (Index j = 0; j < v.cols; ++j) v(i, j) = scale * S(s, (first + j) * v.rows + i);
  }
}
void in_order(view<double> v, double scale, double s, Index first = 0) {
  for (Index i = 0; i < v.size(); ++i) v.data[i] = scale * S(s, first + i);
}

/// The attention of the image models with shared_heads shared and routed_heads routed heads: B = 2, N = 5, d = 12, h =
/// 6, d_h = 4.
template <Index Shared, Index Routed, Index TopK>
struct Image {
  using L = Moh<12, 4, TwoStage<Shared, Routed, TopK>, query_bias, key_bias, value_bias, output_bias>;
  using all_roots =
      typename headmix::detail::module_roots<type_of<decltype(L::y)>, typename L::losses, typename L::observed>::type;
  static gradcheck_options options() {
    gradcheck_options o;
    o.token_sequences = uniform(2, 5);
    return o;
  }
  TestProgram<all_roots> p{options()};
  view<double const> y;
  std::vector<double> y_values;

  template <Leaf Of>
  void router(Of, double s) {
    if constexpr (detail::contains<leaves_of<all_roots>, Of>) transposed(p.in(Of{}), 1, s);
  }
  Image() {
    transposed(p.in(typename L::W_q{}), 0.5, 0.7, 0);
    transposed(p.in(typename L::W_k{}), 0.5, 0.7, 24);
    transposed(p.in(typename L::W_v{}), 0.5, 0.7, 48);
    in_order(p.in(typename L::b_q{}), 0.1, 1.1, 0);
    in_order(p.in(typename L::b_k{}), 0.1, 1.1, 24);
    in_order(p.in(typename L::b_v{}), 0.1, 1.1, 48);
    transposed(p.in(typename L::W_o{}), 0.5, 1.3);
    in_order(p.in(typename L::b_o{}), 0.1, 1.7);
    router(typename L::r::W_r{}, 1.9);
    router(typename L::r::W_h{}, 2.1);
    router(typename L::r::W_s{}, 2.2);
    in_order(p.in(typename L::x{}), 1, 2.3);
    y = p.forward();
    y_values.assign(y.data, y.data + y.size());
    for (std::size_t i = 0; i < 120; ++i) p.dy_values[i] = S(2.9, static_cast<Index>(i));
    if constexpr (Routed == 0) {
      p.backward();
    } else {
      p.backward({0});
    }
  }
  /// Applies f to the gradients of the three matrices that are one matrix in the published code, and sums.
  double sum_of_projections(double (*f)(std::vector<double> const&)) {
    return f(p.gradients(typename L::W_q{})) + f(p.gradients(typename L::W_k{})) + f(p.gradients(typename L::W_v{}));
  }
};

void begins(view<double const> y, std::initializer_list<double> expected, double tolerance = 2e-10) {
  Index j = 0;
  for (double const e : expected) CHECK(golden(y(0, j++), e, tolerance));
}
/// The chosen heads of every token, in any order.
template <Index K>
void chose(view<Int const> chosen, std::initializer_list<Int> expected) {
  REQUIRE(chosen.size() == static_cast<Index>(expected.size()));
  for (Index i = 0; i < chosen.rows; ++i) {
    std::array<Int, static_cast<std::size_t>(K)> sorted{};
    std::copy_n(chosen.data + i * K, K, sorted.begin());
    std::sort(sorted.begin(), sorted.end());
    CHECK(std::equal(sorted.begin(), sorted.end(), expected.begin() + i * K));
  }
}

}  // namespace

TEST_CASE("moh: the published numbers of two shared heads and two of four routed ones") {
  Image<2, 4, 2> g;
  using L = decltype(g)::L;
  chose<2>(g.p.program.get(L::r::chosen), {1, 2, 1, 3, 0, 2, 1, 3, 0, 3, 1, 2, 1, 3, 0, 2, 1, 2, 0, 3});
  CHECK(golden(g.p.program.get(nth<0, L::losses>{})(0, 0), 2.0310457719));
  begins(g.y, {0.1702454751, 0.0486345133, -0.0187287871, 0.1194981043});
  CHECK(golden(total(g.y_values), -2.3393544709));
  CHECK(golden(squares(g.y_values), 2.4930567480));
  begins(g.p.gradient(L::x{}), {0.1235640518, 0.0613507103, -0.0655908043, -0.1542067621});
  CHECK(golden(total(g.p.gradients(L::x{})), -2.0742175402));
  CHECK(golden(squares(g.p.gradients(L::x{})), 2.7853835519));
  CHECK(golden(g.sum_of_projections(total), -0.0058873210));
  CHECK(golden(g.sum_of_projections(squares), 0.0062846702));
  auto const d_r = g.p.gradient(L::r::W_r{});
  CHECK(golden(d_r(0, 0), -0.0023644373));
  CHECK(golden(d_r(1, 0), 0.0045268121));
  CHECK(golden(d_r(2, 0), -0.0036677754));
  CHECK(golden(d_r(3, 0), 0.0003606895));
  CHECK(golden(squares(g.p.gradients(L::r::W_r{})), 0.0013039248));
  CHECK(golden(squares(g.p.gradients(L::r::W_h{})), 0.0508771685));
  CHECK(golden(squares(g.p.gradients(L::r::W_s{})), 0.0000422804));
}
TEST_CASE("moh: the published numbers without shared heads") {
  Image<0, 6, 3> g;
  using L = decltype(g)::L;
  CHECK(golden(g.p.program.get(nth<0, L::losses>{})(0, 0), 2.9795197711));
  begins(g.y, {0.2085304884, 0.0928988028, 0.0294589946, 0.1693713739});
  CHECK(golden(total(g.y_values), 3.9445859344));
  CHECK(golden(squares(g.y_values), 1.5355292631));
  CHECK(golden(total(g.p.gradients(L::x{})), -0.6585089913));
  CHECK(golden(squares(g.p.gradients(L::x{})), 0.1753641008));
  CHECK(golden(squares(g.p.gradients(L::r::W_r{})), 0.0065620789));
}
TEST_CASE("moh: the published numbers without routed heads") {
  Image<6, 0, 0> g;
  using L = decltype(g)::L;
  static_assert(L::losses::size == 0 && L::observed::size == 0);
  begins(g.y, {0.0000624331, -0.1328968093, -0.2031774587, -0.0593014932});
  CHECK(golden(total(g.y_values), 7.0370581895));
  CHECK(golden(squares(g.y_values), 13.6259765495));
  CHECK(golden(total(g.p.gradients(L::x{})), -0.5073785127));
  CHECK(golden(squares(g.p.gradients(L::x{})), 0.4923134914));
  CHECK(golden(squares(g.p.gradients(L::r::W_s{})), 0.0419176613));
}
TEST_CASE("moh: the published numbers of the language model, all heads and the active ones") {
  using L = Moh<32, 4, QueryNorm<4, 4, 2>, causal, kv_heads<4>, rope<>>;
  TestProgram<roots<type_of<decltype(L::y)>, type_of<decltype(L::y_inference)>, type_of<decltype(L::r::n)>,
                    type_of<decltype(L::r::p)>, type_of<decltype(L::r::chosen)>>,
              inference>
      p(at<tokens>(5));
  transposed(p.in(L::W_q{}), 0.5, 0.7);
  transposed(p.in(L::W_k{}), 0.5, 1.1);
  transposed(p.in(L::W_v{}), 0.5, 1.3);
  transposed(p.in(L::W_o{}), 0.5, 1.7);
  in_order(p.in(L::x{}), 1, 2.3);
  auto const y = p.forward(), active = p.program.get(L::y_inference);
  begins(p.program.get(L::r::n), {0.60776464, 0.29375928, 0.61104459, 0.29509956}, 1e-8);
  begins(p.program.get(L::r::p), {0.4210049015, 0.0748870819, 0.4286669793, 0.0754410373});
  chose<2>(p.program.get(L::r::chosen), {0, 2, 1, 3, 0, 2, 0, 2, 0, 2});
  for (auto const& found : {y, active}) {
    std::vector<double> const values(found.data, found.data + found.size());
    begins(found, {0.0854372928, -0.4280002438, 0.3821463258, 0.0105113185});
    CHECK(golden(total(values), -0.1537671524));
    CHECK(golden(squares(values), 4.1067281233));
  }
}

}  // namespace moh_published_test
