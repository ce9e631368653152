// SPDX-License-Identifier: MIT
// MoA with padding, against numbers of the published code.

#include "../test_program.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/layer/moa.hpp"
#include "published.hpp"

namespace moa_padding_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moa options: the published numbers with padding of queries and keys") {
  using L = Moa<8, 4, SoftmaxTopK<6, 2, gating::raw, loss::load_balance, loss::z_with_padding, loss::cv_squared>,
                causal, padded>;
  std::vector<std::uint8_t> const mask{1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  Padding const real(view<std::uint8_t const>(mask.data(), 2, 5));
  gradcheck_options options;
  options.token_sequences = real.sequences();
  using all_roots = headmix::detail::module_roots<type_of<decltype(L::y)>, L::losses, type_list<>>::type;
  TestProgram<all_roots> p(options, at<padded_tokens>(10));
  std::copy_n(real.valid_rows().data, 8, p.values(L::valid_rows{}).data());
  fill_as_published<L>(p);
  auto const y = p.forward();
  std::vector<double> const y_values(y.data, y.data + y.size());
  p.backward({0, 0, 0});
  CHECK(golden(total(y_values), 3.0169557327));
  CHECK(golden(squares(y_values), 6.0605967161));
  for (Index j = 0; j < 8; ++j) CHECK((y(8, j) == 0 && y(9, j) == 0));
  auto const loss = [&]<class... Loss>(type_list<Loss...>) {
    return std::vector<double>{p.program.get(Loss{})(0, 0)...};
  };
  auto const losses = loss(typename L::losses{});
  CHECK(golden(losses[0], 1.2394047575));
  CHECK(golden(losses[1], 17.3416197280));
  CHECK(golden(losses[2], 0.4203903, 1e-6));
  CHECK(golden(total(p.gradients(L::x{})), 0.4369603358));
  CHECK(golden(squares(p.gradients(L::x{})), 0.5075632579));
  CHECK(golden(squares(p.gradients(L::r::W_g{})), 0.2411376122));
  CHECK(golden(squares(p.gradients(L::W_q{})), 0.0332591021));
  CHECK(golden(squares(p.gradients(L::W_o{})), 8.5343720247));
  CHECK(golden(squares(p.gradients(L::W_k{})), 0.0517626245));
  CHECK(golden(squares(p.gradients(L::W_v{})), 0.1820566283));
  // Rows of padding get a gradient from the z-loss alone.
  for (Index j = 0; j < 8; ++j) CHECK(p.gradient(L::x{})(9, j) == 0);
  p.zero_gradients();
  p.backward({0, 1, 0});
  bool some = false;
  for (Index j = 0; j < 8; ++j) some = some || p.gradient(L::x{})(9, j) != 0;
  CHECK(some);
}

}  // namespace moa_padding_test
