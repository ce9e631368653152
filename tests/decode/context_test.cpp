// SPDX-License-Identifier: MIT
// Decoders of layers with a second input: keys and values of a context are computed once and shared by beams.

#include <array>

#include "../error_of.hpp"
#include "decoding.hpp"
#include "networks.hpp"

namespace context_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr Index page = Cpu<float>::cache_rows, width = 8;

/// A block of a translation decoder.
struct Block {
  using Self = Moa<width, 4, SoftmaxTopK<4, 2>, causal, rope<>>;
  using Cross = Moa<width, 4, SoftmaxTopK<4, 2>, context_dim<width>, kv_heads<2>, key_bias, value_bias>;
  using Chosen = Moh<width, 4, TwoStage<1, 3, 1>, context_dim<width>, value_dim<width>, alibi>;
  struct x : input<tokens, size<width>> {};
  struct context : input<context_tokens, size<width>> {};
  static constexpr auto self = use<Self, "self">(x{});
  struct a : let<decltype(x{} + self.y)> {};
  static constexpr auto cross = use<Cross, "cross">(a{}, context{});
  struct b : let<decltype(a{} + cross.y)> {};
  static constexpr auto chosen = use<Chosen, "chosen">(b{}, context{}, feed<Chosen::values>(silu(context{})));
  static constexpr auto y = b{} + chosen.y;
  using losses = losses_of<self, cross, chosen>;
  using observed = observed_of<self, cross, chosen>;
};
/// An encoder of the context, in which all tokens see each other, and the blocks of the decoder.
struct Translation {
  using x = Block::x;
  using context = Block::context;
  struct Encoder {
    struct x : input<context_tokens, size<width>> {};
    struct W : param<size<width>, size<width>> {};
    static constexpr auto q = x{} % W{};
    static constexpr auto y = x{} + attention<full, size<2>>(q, x{}, x{});
    using losses = type_list<>;
    using observed = type_list<>;
  };
  static constexpr auto encoder = repeat<2, Encoder, "encoder">(context{});
  static constexpr auto blocks = repeat<2, Block, "blocks">(x{}, encoder.y);
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};

using rows = std::vector<float>;
view<float const> view_of(rows const& x) { return {x.data(), static_cast<Index>(x.size()) / width, width}; }

template <class L>
struct WithContext : Decoding<L> {
  using Decoding<L>::Decoding;
  /// y of whole sequences: tokens and contexts of each.
  rows whole_of(std::vector<rows> const& x, std::vector<rows> const& contexts) {
    rows all, memory;
    std::vector<Int> offsets = {0}, of_context = {0};
    for (rows const& part : x) all.insert(all.end(), part.begin(), part.end()), offsets.push_back(ints(all));
    for (rows const& part : contexts) {
      memory.insert(memory.end(), part.begin(), part.end());
      of_context.push_back(ints(memory));
    }
    auto const n = static_cast<Index>(x.size());
    auto const y =
        this->whole.forward(view_of(all), ragged(offsets.data(), n), view_of(memory), ragged(of_context.data(), n));
    return {y.data, y.data + y.size()};
  }
  static Int ints(rows const& x) { return static_cast<Int>(x.size()) / static_cast<Int>(width); }
};
void append(rows& to, view<float const> y, Index first, Index last) {
  to.insert(to.end(), y.data + first * width, y.data + last * width);
}

}  // namespace

TEST_CASE("decoder context: contexts of different lengths are given once, in any pass, and chunks keep the bits") {
  for (Index const in_pages : {Index{0}, Index{1}}) {
    rows by_one;
    for (Index const chunk : {Index{1}, Index{4}, Index{7}}) {
      CAPTURE(in_pages);
      CAPTURE(chunk);
      WithContext<Translation> d({.sequences = 2, .tokens = 2 * page, .page = in_pages, .context = 3 * page});
      std::vector<rows> const x = {text_of(0, 7, width), text_of(100, 7, width)},
                              contexts = {text_of(200, page + 3, width), text_of(300, 2 * page + 1, width)};
      rows first, second;
      // The second sequence begins later, with its context.
      Int const only_first[] = {0, 7, 7}, of_first[] = {0, static_cast<Int>(page + 3), static_cast<Int>(page + 3)};
      auto y = d.decoder.prefill(view_of(x[0]), ragged(only_first, 2), view_of(contexts[0]), ragged(of_first, 2));
      append(first, y, 0, 7);
      CHECK(d.decoder.context_length(0) == page + 3);
      for (Index t = 0; t < 7; t += chunk) {
        Index const n = (std::min)(chunk, 7 - t);
        rows const part(x[1].begin() + t * width, x[1].begin() + (t + n) * width);
        Int const only_second[] = {0, 0, static_cast<Int>(n)};
        Int const of_second[] = {0, 0, static_cast<Int>(2 * page + 1)};
        y = t == 0
                ? d.decoder.prefill(view_of(part), ragged(only_second, 2), view_of(contexts[1]), ragged(of_second, 2))
                : d.decoder.prefill(view_of(part), ragged(only_second, 2));
        append(second, y, 0, n);
      }
      first.insert(first.end(), second.begin(), second.end());
      CHECK(difference(first, d.whole_of(x, contexts)) < 2e-5);
      if (by_one.empty()) by_one = first;
      CHECK(first == by_one);  // equal bits
    }
  }
}

TEST_CASE("decoder context: beams share their context, and a new sequence has none") {
  WithContext<Block> d({.sequences = 3, .tokens = page, .context = 2 * page});
  rows const memory = text_of(0, page + 1, width), prompt = text_of(50, 3, width), next = text_of(60, 3, width);
  d.decoder.reorder(std::array{Index{-1}});
  d.decoder.prefill(view_of(prompt), uniform(1, 3), view_of(memory), uniform(1, page + 1));
  d.decoder.reorder(std::array{Index{0}, Index{0}, Index{0}});
  auto const y = d.decoder.step(view_of(next));
  for (Index b = 0; b < 3; ++b) {
    rows whole = prompt, found;
    whole.insert(whole.end(), next.begin() + b * width, next.begin() + (b + 1) * width);
    auto const expected = d.whole_of({whole}, {memory});
    append(found, y, b, b + 1);
    CHECK(difference<float>(found, {expected.end() - width, expected.end()}) < 2e-5);
  }
  d.decoder.rewind(1, 0);
  CHECK(d.decoder.context_length(1) == page + 1);
  d.decoder.reorder(std::array{Index{1}, Index{-1}});
  CHECK(d.decoder.context_length(1) == 0);
  rows const two = text_of(70, 2, width);
  CHECK(says(error_of([&] { d.decoder.step(view_of(two)); }),
             "headmix: Decoder: sequence 1 has 1 tokens and no context; give it one with its first tokens"));
  CHECK(says(error_of([&] { d.decoder.prefill(view_of(two), uniform(2, 1), view_of(two), uniform(2, 1)); }),
             message("headmix: Decoder: sequence 0 has a context of ", page + 1, " tokens, found 1 more").c_str()));
  // A refused pass changes nothing.
  Int const of_second[] = {0, 0, static_cast<Int>(page)};
  rows const other(memory.begin(), memory.begin() + page * width);
  auto const z = d.decoder.prefill(view_of(two), uniform(2, 1), view_of(other), ragged(of_second, 2));
  rows found(z.data, z.data + z.size());
  rows const a(two.begin(), two.begin() + width), b(two.begin() + width, two.end());
  rows expected = d.whole_of({a}, {memory}), last = d.whole_of({b}, {other});
  expected.insert(expected.end(), last.begin(), last.end());
  CHECK(difference(found, expected) < 2e-5);
}

namespace {
using Dynamic = MultiHead<dynamic, 2, 4, context_dim<dynamic>>;
}  // namespace

TEST_CASE("decoder context: sizes at run time") {
  Module<Dynamic, Cpu<float>, inference> whole(1, {}, at<Dynamic::model_dim>(width), at<Dynamic::context_dim>(width));
  Decoder<Dynamic, Cpu<float>> decoder({.tokens = 4, .context = 3}, share_parameters{}, whole,
                                       at<Dynamic::model_dim>(width), at<Dynamic::context_dim>(width));
  rows const x = text_of(0, 2, width), memory = text_of(9, 3, width);
  rows const second(x.begin() + width, x.end());
  auto const y = whole.forward(view_of(x), uniform(1, 2), view_of(memory), uniform(1, 3));
  rows expected;
  append(expected, y, 1, 2);
  decoder.prefill(view_of(rows(x.begin(), x.begin() + width)), uniform(1, 1), view_of(memory), uniform(1, 3));
  auto const last = decoder.step(view_of(second));
  CHECK(difference(rows(last.data, last.data + last.size()), expected) < 2e-5);
}

TEST_CASE("decoder context: errors") {
  CHECK(says(error_of([] { WithContext<Block> d({.tokens = 4}); }),
             "headmix: cache_size: context is 0, expected at least 1"));
  WithContext<Block> d({.tokens = 4, .context = 2});
  rows const x = text_of(0, 1, width), memory = text_of(5, page + 3, width);
  CHECK(says(error_of([&] { d.decoder.step(view_of(x)); }), "has 1 tokens and no context"));
  CHECK(says(
      error_of([&] { d.decoder.prefill(view_of(x), uniform(1, 1), view_of(memory), uniform(1, page + 3)); }),
      message("headmix: Decoder: sequence 0 has 0 context tokens, ", page + 3, " more are more than the 2").c_str()));
  CHECK(says(error_of([&] { d.decoder.prefill(view_of(x), uniform(1, 1), view_of(memory), uniform(1, 4)); }),
             message("headmix: Decoder: the context has ", page + 3, " rows, the sequences have 4").c_str()));
}

}  // namespace context_test
