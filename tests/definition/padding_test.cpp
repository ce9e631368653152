// SPDX-License-Identifier: MIT
// loss::z_with_padding where sub-tokens are parts of a head layer's rows: rows of padding count whatever the options.

#include "check.hpp"
#include "headmix/layer/smoe.hpp"

namespace headmix::definition::padding_test {

using Router = SoftmaxTopK<4, 2, gating::detached, loss::z_with_padding>;

/// The options of all configurations.
inline layer_options of_padded_rows(Count split, bool head, bool head_bias) {
  return {.family = family::mh_moe,
          .padded = true,
          .router = router_kind::softmax_top_k,
          .losses = {loss_kind::z_with_padding},
          .split = split,
          .head = head,
          .merge = false,
          .head_bias = head_bias,
          .expert = {.hidden = 3}};
}
struct parts_of_rows {
  static constexpr char const* name = "MhMoe, no_head";
  using layer = MhMoe<6, 2, Router, FeedForward<3>, padded, no_head, no_merge>;
  static layer_options options() { return of_padded_rows(2, false, false); }
};
struct rows_of_a_head {
  static constexpr char const* name = "MhMoe of one sub-token";
  using layer = MhMoe<6, 1, Router, FeedForward<3>, padded, no_merge>;
  static layer_options options() { return of_padded_rows(1, true, false); }
};
struct parts_of_a_head {
  static constexpr char const* name = "MhMoe, head_bias";
  using layer = MhMoe<6, 3, Router, FeedForward<3>, padded, no_merge, head_bias>;
  static layer_options options() { return of_padded_rows(3, true, true); }
};

TEST_CASE("definition: z_with_padding of parts of rows") { check<parts_of_rows>(); }
TEST_CASE("definition: z_with_padding of the rows of a head layer") { check<rows_of_a_head>(); }
TEST_CASE("definition: z_with_padding of parts of rows of a head layer with a bias") { check<parts_of_a_head>(); }

}  // namespace headmix::definition::padding_test
