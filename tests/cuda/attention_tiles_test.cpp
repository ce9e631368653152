// SPDX-License-Identifier: MIT
// The tiles of attention's row lists: every row is in one tile, and lists of chosen heads are cut from their ends.

#include <doctest/doctest.h>

#include <vector>

#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/random.hpp"

namespace attention_tiles_test {

using namespace headmix;
using cuda_kernels::attention_tile;
using cuda_kernels::attention_tiles;

namespace {

/// No function of a warp is called for sequences of equal lengths.
struct NoWarp {
  static Index lane() { fail("a function of a warp"); }
  static unsigned ballot(bool) { fail("a function of a warp"); }
};

/// Chosen heads: the offsets of one list for each head, and the positions of their tokens.
struct Lists {
  std::vector<Int> offsets = {0};
  std::vector<std::vector<Index>> positions;

  void add(std::vector<Index> const& tokens) {
    positions.push_back(tokens);
    offsets.push_back(offsets.back() + static_cast<Int>(tokens.size()));
  }
};
/// `shared` heads of all tokens, and `chosen` of `routed` others for each; a list for each `group` neighbours.
Lists lists_of(Index length, Index shared, Index routed, Index chosen, Index group = 1) {
  Lists lists;
  std::vector<std::vector<Index>> tokens(static_cast<std::size_t>((shared + routed) / group));
  Random const random(1);
  std::uint64_t draw = 0;
  for (Index t = 0; t < length; ++t) {
    for (Index h = 0; h < shared; ++h) tokens[static_cast<std::size_t>(h / group)].push_back(t);
    for (Index h = 0, left = chosen; h < routed; ++h) {
      if (static_cast<Index>(random.below(draw++, static_cast<std::uint64_t>(routed - h))) >= left) continue;
      tokens[static_cast<std::size_t>((shared + h) / group)].push_back(t);
      --left;
    }
  }
  for (auto const& of_head : tokens) lists.add(of_head);
  return lists;
}
/// The key tiles that all tiles of rows read under a causal mask; checks that the tiles are a division of the lists.
Index causal_key_tiles(Lists const& lists, segments s, Index rows, Index group = 1) {
  auto const heads = static_cast<Index>(lists.positions.size()) / s.count;
  attention_tiles const tiles(s, heads * group, heads, rows, 1, true, {nullptr, lists.offsets.data(), group}, 1);
  std::vector<std::vector<int>> seen;
  for (auto const& of_head : lists.positions) seen.emplace_back(of_head.size());
  Index key_tiles = 0;
  NoWarp warp;
  for (Index i = 0; i < tiles.count(); ++i) {
    attention_tile const tile = tiles(warp, i);
    auto const list = static_cast<std::size_t>(tile.sequence * heads + tile.list);
    Index const n =
        tile.first < static_cast<Index>(seen[list].size()) ? tile.rows_of(static_cast<Index>(seen[list].size())) : 0;
    CHECK(n <= rows);
    for (Index r = 0; r < n; ++r) ++seen[list][static_cast<std::size_t>(tile.first + r)];
    if (n > 0) key_tiles += lists.positions[list][static_cast<std::size_t>(tile.first + n - 1)] / 128 + 1;
  }
  for (auto const& of_head : seen) {
    for (int const times : of_head) REQUIRE(times == 1);
  }
  return key_tiles;
}

}  // namespace

TEST_CASE("cuda: tiles of chosen heads are cut from the ends of their lists") {
  Index const length = 2048;
  auto const share_of_dense = [&](Index heads, Index shared, Index chosen, Index group = 1) {
    auto const key_tiles = [&](Lists const& lists) { return causal_key_tiles(lists, uniform(1, length), 128, group); };
    Index const dense = key_tiles(lists_of(length, heads, 0, 0, group));
    CHECK(dense == heads * 136);
    return static_cast<double>(key_tiles(lists_of(length, shared, heads - shared, chosen, group))) /
           static_cast<double>(dense);
  };
  // Cut from their beginnings, 0.80, 0.60 and 0.83: the rest of a list sees all keys.
  CHECK(share_of_dense(32, 16, 8) < 0.785);
  CHECK(share_of_dense(32, 8, 8) < 0.555);
  CHECK(share_of_dense(16, 4, 8) < 0.80);
  // A list for the four heads of each key/value head.
  CHECK(share_of_dense(32, 16, 8, 4) < 0.77);
  CHECK(share_of_dense(32, 8, 8, 4) < 0.52);
}
TEST_CASE("cuda: tiles of lists of any lengths") {
  Lists lists;
  for (Index const n : {0, 1, 64, 63, 65, 128, 127, 0, 129, 200, 1, 0}) {
    std::vector<Index> tokens;
    for (Index t = 0; t < n; ++t) tokens.push_back(t);
    lists.add(tokens);
  }
  causal_key_tiles(lists, uniform(3, 200), 64);
}

}  // namespace attention_tiles_test
