// SPDX-License-Identifier: MIT
// The listing of a network with a repeated block.

#include "headmix/headmix.hpp"
#include "listings.hpp"

namespace listing_network_test {
namespace {

using namespace headmix;
using namespace headmix::test;

struct Block {
  struct x : input<tokens, size<16>> {};
  struct gain : param<size<16>> {
    using initializer = ones;
  };
  static constexpr auto attn = use<Moa<16, 4, SoftmaxTopK<4, 2>, causal>, "attn">(rms_norm(x{}, gain{}));
  struct h : let<decltype(x{} + attn.y)> {};
  static constexpr auto y = h{};
  using losses = losses_of<attn>;
  using observed = observed_of<attn>;
};
struct Network {
  using x = Block::x;
  static constexpr auto blocks = repeat<2, Block, "blocks", recompute>(x{});
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};

TEST_CASE("listing: a network that repeats a block") { check_listing(listing_of<Network, Cpu<float>>(), "network"); }

}  // namespace
}  // namespace listing_network_test
