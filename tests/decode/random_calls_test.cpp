// SPDX-License-Identifier: MIT
// Random sequences of decoder calls: prefill in pieces, steps, beams, drops, rewinds, full caches. The result of every
// token that remains at the end must equal the layer's for the whole sequence. HEADMIX_DECODE_SEQUENCES=50000 runs this
// many sequences.

#include <cstdlib>
#include <string>

#include "decoding.hpp"
#include "networks.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {

struct dice {
  Random random;
  std::uint64_t next = 0;
  Index range(Index low, Index high) {
    return low + static_cast<Index>(random.below(next++, static_cast<std::uint64_t>(high - low + 1)));
  }
};
struct text {
  std::vector<double> x, y;
};

template <class L>
class Player {
 public:
  template <class... Sizes>
  explicit Player(std::uint64_t seed, Sizes... sizes)
      : d{Random(seed, 1)},
        decoding({.sequences = 4, .tokens = 30, .page = d.range(0, 2) * 8, .pages = d.range(0, 1) * d.range(4, 12)},
                 Cpu<double>(), sizes...),
        texts(4) {}

  void play() {
    for (Index calls = d.range(1, 12); calls > 0; --calls) {
      switch (d.range(0, 5)) {
        case 0:
          reorder();
          break;
        case 1:
          rewind();
          break;
        case 2:
          bring(1, 1);
          break;
        default:
          bring(0, d.range(1, 9));
      }
    }
    for (text const& t : texts) {
      if (!t.x.empty()) REQUIRE(difference(t.y, decoding.of_whole(t.x)) < 1e-11);
    }
  }

 private:
  void reorder() {
    std::vector<Index> order;
    std::vector<text> next;
    for (Index n = d.range(1, 4); n > 0; --n) {
      order.push_back(d.range(-1, static_cast<Index>(texts.size()) - 1));
      next.push_back(order.back() < 0 ? text{} : texts[static_cast<std::size_t>(order.back())]);
    }
    decoding.decoder.reorder(order);
    texts = next;
  }
  void rewind() {
    auto const b = static_cast<std::size_t>(d.range(0, static_cast<Index>(texts.size()) - 1));
    auto const n = static_cast<std::size_t>(d.range(0, decoding.decoder.length(static_cast<Index>(b))));
    decoding.decoder.rewind(static_cast<Index>(b), static_cast<Index>(n));
    texts[b].x.resize(8 * n);
    texts[b].y.resize(8 * n);
  }
  void bring(Index least, Index most) {
    std::vector<Int> offsets = {0};
    std::vector<double> x;
    for (std::size_t b = 0; b < texts.size(); ++b) {
      Index const n = d.range(least, most);
      auto const rows = text_of<double>(static_cast<std::uint64_t>(d.range(0, 1 << 20)), n, 8);
      x.insert(x.end(), rows.begin(), rows.end());
      offsets.push_back(static_cast<Int>(offsets.back() + n));
    }
    std::vector<double> y;
    try {
      y = decoding.prefill(x, ragged(offsets.data(), static_cast<Index>(texts.size())));
    } catch (Error const&) {  // the cache is full, and nothing has changed
      for (std::size_t b = 0; b < texts.size(); ++b)
        REQUIRE(decoding.decoder.length(static_cast<Index>(b)) == static_cast<Index>(texts[b].x.size()) / 8);
      return;
    }
    for (std::size_t b = 0; b < texts.size(); ++b) {
      texts[b].x.insert(texts[b].x.end(), x.begin() + 8 * offsets[b], x.begin() + 8 * offsets[b + 1]);
      texts[b].y.insert(texts[b].y.end(), y.begin() + 8 * offsets[b], y.begin() + 8 * offsets[b + 1]);
    }
  }

  dice d;
  Decoding<L, serial, double> decoding;  // double: in float, rounding decides some choices of experts
  std::vector<text> texts;
};

std::uint64_t sequences_to_play() {
  char const* const given = std::getenv("HEADMIX_DECODE_SEQUENCES");
  return given == nullptr ? 100 : std::strtoull(given, nullptr, 10);
}

}  // namespace

TEST_CASE("decoder: random calls") {
  std::uint64_t const n = sequences_to_play();
  REQUIRE(n > 0);
  for (std::uint64_t seed = 0; seed < n; ++seed) {
    CAPTURE(seed);
    if (seed % 2 == 0) {
      Player<AllKinds>(seed).play();
    } else {
      Player<DecodedNetwork>(seed, at<decoded_depth>(2)).play();
    }
  }
}
