// SPDX-License-Identifier: MIT
// MoH with dynamic sizes, and with a context, with padding.

#include "headmix/core/padding.hpp"
#include "moh.hpp"

namespace moh_extents_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moh: sizes that are known when the program runs") {
  using R = TwoStage<dynamic, dynamic, dynamic>;
  using L = Moh<dynamic, dynamic, R, sliding_window<3>, kv_heads<dynamic>>;
  auto const r = check_twins(
      L::y, twin<L>, {}, [](auto&) {}, at<tokens>(6), at<L::model_dim>(5), at<L::head_dim>(3), at<R::shared_heads>(3),
      at<R::routed_heads>(3), at<R::routed_top_k>(1), at<L::kv_heads>(2));
  CAPTURE(r.text);
  CHECK(r.ok());
}
TEST_CASE("moh: cross-attention with padding of both inputs, no shared head, by the scaling of the paper") {
  using L = Moh<5, 3, TwoStage<0, 4, 2, scaling::paper>, context_dim<3>, padded, output_bias>;
  std::vector<std::uint8_t> const mask{1, 0, 1, 1, 1, 0}, memory_mask{0, 1, 0, 0, 0, 0, 1, 1};
  Padding const real(view<std::uint8_t const>(mask.data(), 2, 3));
  Padding const memory(view<std::uint8_t const>(memory_mask.data(), 2, 4));
  gradcheck_options o;
  o.token_sequences = real.sequences();
  o.context_sequences = memory.sequences();
  auto const fill = [&](auto& p) {
    std::copy_n(real.valid_rows().data, 4, p.values(L::valid_rows{}).begin());
    std::copy_n(memory.valid_rows().data, 3, p.values(L::context_valid_rows{}).begin());
  };
  auto const r = check_twins(L::y, twin<L>, o, fill, at<padded_tokens>(6), at<padded_context_tokens>(8));
  CAPTURE(r.text);
  CHECK(r.ok());
}

}  // namespace moh_extents_test
