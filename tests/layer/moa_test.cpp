// SPDX-License-Identifier: MIT
// MoA against the numbers of the published code.

#include "headmix/layer/moa.hpp"

#include <array>

#include "published.hpp"

namespace moa_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moa: the published selection and losses") {
  Golden<gating::raw> g;
  std::array<Int, 20> const expected{0, 1, 0, 1, 1, 2, 3, 4, 4, 5, 0, 1, 1, 0, 2, 3, 4, 3, 5, 4};
  auto const selected = g.p.program.get(decltype(g)::layer::r::index);
  for (Index i = 0; i < 20; ++i) CHECK(selected.data[i] == expected[static_cast<std::size_t>(i)]);
  CHECK(golden(g.p.program.get(decltype(g)::layer::r::load)(0, 0), 1.0614172932));
  CHECK(golden(g.p.program.get(decltype(g)::layer::r::z_2)(0, 0), 17.3416197280));
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

}  // namespace moa_test
