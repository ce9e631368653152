// SPDX-License-Identifier: MIT
// MH-MoE with padding, which is neither routed nor counted.

#include <array>

#include "mh_moe.hpp"

namespace mh_moe_padding_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr std::array<Int, 5> real{0, 2, 3, 6, 8};
constexpr Index padded_rows = 9;
gradcheck_options tokens_of(Index n) {
  gradcheck_options o;
  o.token_sequences = uniform(1, n);
  return o;
}

template <class... Options>
using layer = MhMoe<6, 3, raw_router<4, 2>, FeedForward<5>, head_bias, merge_bias, shared_expert<FeedForward<3>>,
                    capacity<1, 2>, Options...>;

}  // namespace

TEST_CASE("mh-moe padding: real rows have the results that they have without the others, which are zero") {
  using L = layer<padded>;
  using Dense = layer<>;
  TestProgram<mh_moe_roots<L>> p(tokens_of(5), at<padded_tokens>(padded_rows));
  TestProgram<mh_moe_roots<Dense>> q(tokens_of(5));
  std::copy(real.begin(), real.end(), p.values(L::valid_rows{}).begin());
  copy_weights(q, p);
  auto y = p.forward(), z = q.forward();
  for (Index i = 0; i < 5; ++i) {
    Index const row = real[static_cast<std::size_t>(i)];
    for (Index j = 0; j < 6; ++j) {
      q.in(Dense::x{})(i, j) = p.in(L::x{})(row, j);
      q.dy_values[static_cast<std::size_t>(i * 6 + j)] = p.dy_values[static_cast<std::size_t>(row * 6 + j)];
    }
  }
  z = q.forward();
  p.backward({0.5});
  q.backward({0.5});
  REQUIRE(y.rows == padded_rows);
  Index next = 0;
  for (Index row = 0; row < padded_rows; ++row) {
    bool const is_real = next < 5 && real[static_cast<std::size_t>(next)] == row;
    for (Index j = 0; j < 6; ++j) {
      CHECK(close(y(row, j), is_real ? z(next, j) : 0));
      CHECK(close(p.gradient(L::x{})(row, j), is_real ? q.gradient(Dense::x{})(next, j) : 0));
    }
    next += is_real ? 1 : 0;
  }
  CHECK(close(p.program.get(nth<0, L::losses>{})(0, 0), q.program.get(nth<0, Dense::losses>{})(0, 0)));
  auto const seen = p.program.get(nth<0, L::observed>{}), chosen = q.program.get(nth<0, Dense::observed>{});
  REQUIRE(seen.rows == 15);
  for (Index i = 0; i < seen.size(); ++i) CHECK(seen.data[i] == chosen.data[i]);
  for (std::size_t i = 0; i < 24; ++i)
    CHECK(close(p.gradients(L::network::W_up{})[i], q.gradients(Dense::network::W_up{})[i]));
}
namespace {

/// The loss of a padded layer is z of a layer without padding over all rows.
template <template <class, class...> class Layer>
void check_z_with_padding() {
  using L = Layer<loss::z_with_padding, padded>;
  using Dense = Layer<loss::z>;
  TestProgram<mh_moe_roots<L>> p(tokens_of(5), at<padded_tokens>(padded_rows));
  TestProgram<mh_moe_roots<Dense>> q(tokens_of(padded_rows));
  std::copy(real.begin(), real.end(), p.values(typename L::valid_rows{}).begin());
  copy_weights(q, p);
  for (Index i = 0; i < padded_rows; ++i) {
    for (Index j = 0; j < 6; ++j) q.in(typename Dense::x{})(i, j) = p.in(typename L::x{})(i, j);
  }
  p.forward();
  q.forward();
  CHECK(
      close(p.program.get(nth<0, typename L::losses>{})(0, 0), q.program.get(nth<0, typename Dense::losses>{})(0, 0)));
}
template <class Loss, class... Options>
using parts_of_rows = MhMoe<6, 2, SoftmaxTopK<4, 2, Loss>, FeedForward<3>, no_head, no_merge, Options...>;
template <class Loss, class... Options>
using rows_of_a_head = MhMoe<6, 1, SoftmaxTopK<4, 2, Loss>, FeedForward<3>, no_merge, Options...>;
template <class Loss, class... Options>
using parts_of_a_head = MhMoe<6, 3, SoftmaxTopK<4, 2, Loss>, FeedForward<3>, head_bias, Options...>;

}  // namespace

TEST_CASE("mh-moe padding: z_with_padding counts rows of padding behind a head layer and in parts of rows") {
  check_z_with_padding<parts_of_rows>();
  check_z_with_padding<rows_of_a_head>();
  check_z_with_padding<parts_of_a_head>();
}
TEST_CASE("mh-moe padding: gradients, also where no row is real") {
  using L = layer<padded>;
  for (Index const n : {5, 0}) {
    TestProgram<roots<type_of<decltype(L::y)>>> p(tokens_of(n), at<tokens>(n), at<padded_tokens>(padded_rows));
    std::copy_n(real.begin(), n, p.values(L::valid_rows{}).begin());
    auto const r = p.check_gradients();
    CAPTURE(n);
    CAPTURE(r.text);
    CHECK(r.ok());
  }
}

}  // namespace mh_moe_padding_test
