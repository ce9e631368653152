// SPDX-License-Identifier: MIT
// Layers with a context on the emulated GPU: queries that are the last rows of ragged sequences, and separate
// positions.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/check_layer.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

namespace layers_test {

namespace {
template <class L>
void check_context() {
  std::vector<Int> const queries{0, 10, 10, 81}, keys{0, 40, 43, 120};
  batch const memory(ragged(keys.data(), 3));
  check_layer<L>(ragged(queries.data(), 3), 81, &memory, Index{120});
}
}  // namespace

TEST_CASE("rotary embedding and a score map of queries of a context") {
  check_context<MultiHead<64, 2, 64, causal, rope<>, alibi, context_dim<32>>>();
}
TEST_CASE("a window, rotary embedding and a score map of chosen heads' queries of a context") {
  check_context<Moh<64, 64, GivenTopK<4, 2>, sliding_window<20>, rope<>, alibi, context_dim<32>>>();
}
TEST_CASE("rotary embedding and a score map where each side is counted by itself") {
  check_context<MultiHead<64, 2, 64, rope<>, alibi, context_dim<32>>>();
}

namespace {
template <class L>
void check_chunk() {
  std::vector<Int> const queries{0, 10, 10, 31}, keys{0, 40, 43, 90}, past{17, 1, 30};
  segments s = ragged(queries.data(), 3);
  s.past = past.data();
  batch const memory(ragged(keys.data(), 3));
  check_layer<L>(s, 31, &memory, Index{90});
}
template <class L>
void check_ragged() {
  std::vector<Int> const offsets{0, 40, 40, 71};
  check_layer<L>(ragged(offsets.data(), 3), 71);
}
}  // namespace

TEST_CASE("queries whose sequences say what came before them") {
  check_chunk<MultiHead<64, 2, 64, causal, rope<>, alibi, context_dim<32>>>();
}
TEST_CASE("chosen heads' queries whose sequences say what came before them") {
  check_chunk<Moh<64, 64, GivenTopK<4, 2>, sliding_window<20>, rope<>, alibi, context_dim<32>>>();
}
TEST_CASE("slopes of chosen experts") { check_ragged<Moa<64, 64, GivenTopK<3, 2>, causal, alibi>>(); }
TEST_CASE("slopes of chosen experts of two heads") {
  check_ragged<Moa<16, 8, GivenTopK<3, 2>, causal, kv_heads<2>, alibi>>();
}

}  // namespace layers_test
