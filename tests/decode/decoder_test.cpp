// SPDX-License-Identifier: MIT
// Decoders equal the layer over whole sequences, for any partition into chunks.

#include <stdexcept>
#include <string>

#include "../error_of.hpp"
#include "decoding.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "networks.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {
constexpr Index page = Cpu<float>::cache_rows;

template <class L, class Executor = serial, class... Sizes>
void check_chunks(cache_size const& size, Cpu<float, Executor> on = {}, Sizes... sizes) {
  Decoding<L, Executor> d(size, on, sizes...);
  Index const n = 3 * page + 5;
  auto const x = text_of(0, n, d.width);
  auto const whole = d.of_whole(x), by_one = d.in_chunks(x, 1);
  CHECK(difference(by_one, whole) < 2e-5);
  for (Index const chunk : {Index{3}, page, 2 * page + 1, n}) {
    d.decoder.rewind(0, 0);
    CHECK(d.in_chunks(x, chunk) == by_one);  // equal bits
  }
}
}  // namespace

TEST_CASE("decoder: prefill in chunks of any size equals the whole sequence, with the same bits for all sizes") {
  check_chunks<AllKinds>({.tokens = 4 * page});
  check_chunks<AllKinds>({.tokens = 4 * page, .page = 1});
}
TEST_CASE("decoder: a network of repeated blocks") {
  check_chunks<DecodedNetwork>({.tokens = 4 * page, .page = 2 * page}, Cpu<float>(), at<decoded_depth>(3));
}
TEST_CASE("decoder: threads change no bit") {
  thread_pool threads(3);
  Decoding<AllKinds, thread_pool> many({.sequences = 2, .tokens = 40}, Cpu<float, thread_pool>(threads));
  Decoding<AllKinds> one({.sequences = 2, .tokens = 40});
  auto const x = text_of(4, 60, 8);
  CHECK(many.prefill(x, uniform(2, 30)) == one.prefill(x, uniform(2, 30)));
  auto const next = text_of(100, 2, 8);
  CHECK(many.prefill(next, uniform(2, 1)) == one.prefill(next, uniform(2, 1)));
}

TEST_CASE("decoder: sequences of different lengths, some without new tokens") {
  Decoding<AllKinds> d({.sequences = 3, .tokens = 5 * page, .page = 1});
  std::vector<std::vector<float>> x(3), y(3);
  Int const chunks[][4] = {{0, 4, 4, 11}, {0, 1, 2, 3}, {0, 0, 2 * page, 2 * page}, {0, 1, 2, 3}};
  std::uint64_t token = 0;
  for (auto const& offsets : chunks) {
    auto const rows = text_of(token, offsets[3], 8);
    token += 1000;
    auto const out = d.prefill(rows, ragged(offsets, 3));
    for (std::size_t b = 0; b < 3; ++b) {
      x[b].insert(x[b].end(), rows.begin() + 8 * offsets[b], rows.begin() + 8 * offsets[b + 1]);
      y[b].insert(y[b].end(), out.begin() + 8 * offsets[b], out.begin() + 8 * offsets[b + 1]);
    }
  }
  for (std::size_t b = 0; b < 3; ++b) {
    CHECK(d.decoder.length(static_cast<Index>(b)) == static_cast<Index>(x[b].size()) / 8);
    CHECK(difference(y[b], d.of_whole(x[b])) < 2e-5);
  }
}

TEST_CASE("decoder: beams share pages until they write, and sequences are dropped, begun and rewound") {
  for (Index const rows : {Index{0}, Index{1}}) {
    CAPTURE(rows);
    Decoding<AllKinds> d({.sequences = 3, .tokens = 4 * page, .page = rows});
    Index const n = page + 3;
    auto const prompt = text_of(0, n, 8);
    d.decoder.reorder(std::array{Index{-1}});
    auto const y = d.prefill(prompt, uniform(1, n));
    Index const before = d.decoder.pages().free_pages();
    d.decoder.reorder(std::array{Index{0}, Index{0}, Index{0}});
    CHECK(d.decoder.pages().free_pages() == before);
    // Each beam continues with its own token, then the last beam is copied.
    auto const tokens = text_of(500, 3, 8), more = text_of(600, 2, 8);
    d.prefill(tokens, uniform(3, 1));
    d.decoder.reorder(std::array{Index{2}, Index{2}});
    auto const out = d.prefill(more, uniform(2, 1));
    auto whole = prompt;
    whole.insert(whole.end(), tokens.begin() + 16, tokens.end());
    whole.insert(whole.end(), more.begin() + 8, more.end());
    auto expected = d.of_whole(whole);
    CHECK(difference<float>({out.begin() + 8, out.end()}, {expected.end() - 8, expected.end()}) < 2e-5);

    d.decoder.rewind(1, n - 2);
    CHECK(d.decoder.length(0) == n + 2);
    CHECK(d.decoder.length(1) == n - 2);
    Int const offsets[] = {0, 0, 5};
    auto const other = text_of(700, 5, 8);
    auto const after = d.prefill(other, ragged(offsets, 2));
    whole.assign(prompt.begin(), prompt.end() - 16);
    whole.insert(whole.end(), other.begin(), other.end());
    expected = d.of_whole(whole);
    CHECK(difference<float>(after, {expected.end() - 40, expected.end()}) < 2e-5);
    d.decoder.reorder({});
    CHECK(d.decoder.sequences() == 0);
    CHECK(d.decoder.pages().free_pages() == d.decoder.pages().pages());
  }
}

TEST_CASE("decoder: a prefill that is refused leaves shared pages shared") {
  Decoding<AllKinds> d({.sequences = 2, .tokens = page, .page = 1});
  d.decoder.reorder(std::array{Index{-1}});
  auto const prompt = text_of(0, page - 2, 8);
  d.prefill(prompt, uniform(1, page - 2));
  d.decoder.reorder(std::array{Index{0}, Index{0}});
  Int const too_many[] = {0, 1, 4};  // only two more fit
  CHECK(says(error_of([&] { d.prefill(text_of(50, 4, 8), ragged(too_many, 2)); }), "more are more than the"));
  auto const tokens = text_of(60, 2, 8);
  d.prefill(tokens, uniform(2, 1));
  auto const y = d.prefill(tokens, uniform(2, 1));
  for (Index b = 0; b < 2; ++b) {  // its own token
    auto whole = prompt;
    for (int i = 0; i < 2; ++i) whole.insert(whole.end(), tokens.begin() + 8 * b, tokens.begin() + 8 * (b + 1));
    auto const expected = d.of_whole(whole);
    CHECK(difference<float>({y.begin() + 8 * b, y.begin() + 8 * (b + 1)}, {expected.end() - 8, expected.end()}) < 2e-5);
  }
}

TEST_CASE("decoder: a pass that fails gives its pages back, and shared pages stay shared") {
  for (bool const fails : {false, true}) {
    CAPTURE(fails);
    Decoding<AllKinds> d({.sequences = 3, .tokens = 4 * page, .page = 1, .pages = 6});
    auto const prompt = text_of(0, page + 2, 8), next = text_of(80, 3 * page, 8);
    d.decoder.reorder(std::array{Index{-1}});
    d.prefill(prompt, uniform(1, page + 2));
    d.decoder.reorder(std::array{Index{0}, Index{0}, Index{0}});
    auto const held = [&](Index b) {
      Int const* const first = &d.decoder.pages().table()(b, 0);
      return std::vector<Int>(first, first + (d.decoder.length(b) + page - 1) / page);
    };
    auto const table = [&] { return std::vector{held(0), held(1), held(2)}; };
    Int const offsets[] = {0, page, page + 1, 2 * page};  // two of the three copies copy the shared page
    auto const before = table();
    for (int i = 0; fails && i < 4; ++i) {
      std::vector<float> const wide(9 * 2 * page);
      CHECK(says(error_of([&] { d.decoder.prefill({wide.data(), 2 * page, 9}, ragged(offsets, 3)); }), "9 columns"));
      CHECK(says(error_of([&] { d.decoder.prefill({nullptr, 2 * page, 8}, ragged(offsets, 3)); }), "null pointer"));
      CHECK(says(error_of([&] { d.decoder.step({wide.data(), 3, 9}); }), "9 columns"));
      CHECK(d.decoder.pages().free_pages() == 4);
      CHECK(d.decoder.length(2) == page + 2);
      CHECK(table() == before);
    }
    auto const y = d.prefill(next, ragged(offsets, 3));
    CHECK(d.decoder.pages().free_pages() == 0);
    for (std::size_t b = 0; b < 3; ++b) {
      auto whole = prompt;
      whole.insert(whole.end(), next.begin() + 8 * offsets[b], next.begin() + 8 * offsets[b + 1]);
      auto const expected = d.of_whole(whole);
      CHECK(difference<float>({y.begin() + 8 * offsets[b], y.begin() + 8 * offsets[b + 1]},
                              {expected.begin() + 8 * (page + 2), expected.end()}) < 2e-5);
    }
    // Pages are taken in the same order as without failures.
    static std::vector<std::vector<Int>> without_failures;
    if (!fails) without_failures = table();
    CHECK(table() == without_failures);
  }
}

TEST_CASE("decoder: weights of a training, names as in the network, and weights that come later") {
  using L = DecodedNetwork;
  Module<L, Cpu<float>> trained(5, Cpu<float>(), at<decoded_depth>(2));
  Decoder<L, Cpu<float>> shared({.tokens = 8}, share_parameters{}, trained, at<decoded_depth>(2));
  Decoder<L, Cpu<float>> later({.tokens = 8}, uninitialized{}, Cpu<float>(), at<decoded_depth>(2));
  copy_parameters(trained, later.module());
  REQUIRE(later.module().parameters().size() == trained.parameters().size());
  CHECK(later.module().parameters().back().name == trained.parameters().back().name);
  auto const x = text_of(0, 6, 8);
  auto const a = shared.prefill({x.data(), 6, 8}), b = later.prefill({x.data(), 6, 8});
  CHECK(std::equal(a.data, a.data + a.size(), b.data));
  using block = decltype(L::blocks);
  CHECK(shared.module().get<block::as<DecodedBlock::gain>>(1).value.data ==
        trained.get<block::as<DecodedBlock::gain>>(1).value.data);
  CHECK(shared.module().observed<1>(1).rows == 6);
}

TEST_CASE("decoder: the cache in memory of the caller's") {
  Decoding<AllKinds> own({.tokens = 20});
  Decoder<AllKinds, Cpu<float>> d({.tokens = 20, .own_memory = false}, share_parameters{}, own.whole);
  auto const x = text_of(0, 20, 8);
  view<float const> const in(x.data(), 20, 8);
  CHECK(says(error_of([&] { d.prefill(in); }), "bind_cache()"));
  AlignedBuffer memory(d.cache_bytes() + 64);
  CHECK(says(error_of([&] { d.bind_cache(memory.bytes().first(64)); }), "the cache has 64 bytes of memory, expected"));
  CHECK(says(error_of([&] { d.bind_cache(memory.bytes().subspan(4)); }), "must be aligned to 64 bytes"));
  d.bind_cache(memory.bytes());
  auto const y = d.prefill(in);
  CHECK(std::vector<float>(y.data, y.data + y.size()) == own.prefill(x, uniform(1, 20)));
}

TEST_CASE("decoder: errors say what is wrong and change nothing") {
  Decoding<AllKinds> d({.sequences = 2, .tokens = 3 * page, .page = 1, .pages = 3});
  auto const x = text_of(0, 4 * page, 8);
  auto const rows = [&](Index n) { return view<float const>(x.data(), n, 8); };
  Int const some[] = {0, static_cast<Int>(page + 1), static_cast<Int>(page + 2)}, many[] = {0, 1, 2 * page};
  d.decoder.prefill(rows(page + 2), ragged(some, 2));
  CHECK(d.decoder.pages().free_pages() == 0);
  auto const lengths = [&] { return d.decoder.length(0) == page + 1 && d.decoder.length(1) == 1; };
  CHECK(says(error_of([&] { d.decoder.prefill(rows(2 * page), ragged(many, 2)); }),
             "1 more pages are needed, 0 of 3 are free"));
  CHECK(lengths());
  CHECK(says(error_of([&] { d.decoder.prefill(rows(4 * page)); }), "more are more than the"));
  CHECK(says(error_of([&] { d.decoder.prefill(rows(3)); }), "3 rows do not divide evenly into 2 sequences"));
  CHECK(says(error_of([&] { d.decoder.prefill(rows(3), uniform(3, 1)); }), "rows for 3 sequences, the decoder has 2"));
  CHECK(says(error_of([&] { d.decoder.prefill(rows(3), uniform(2, 1)); }), "x has 3 rows, the sequences have 2"));
  CHECK(says(error_of([&] { d.decoder.step(rows(1)); }), "a row for each of the 2 sequences, found 1"));
  CHECK(says(error_of([&] { d.decoder.reorder(std::array{Index{2}}); }), "there is no sequence 2; there are 2"));
  CHECK(says(error_of([&] { d.decoder.reorder(std::array{Index{0}, Index{1}, Index{-1}}); }), "3 sequences are more"));
  CHECK(says(error_of([&] { d.decoder.rewind(1, 2); }), "expected a length of 0 .. 1, found 2"));
  CHECK(says(error_of([] { Decoder<AllKinds, Cpu<float>>(cache_size{}, 1); }), "tokens is 0, expected at least 1"));
  CHECK(lengths());
  auto const y = d.decoder.step(rows(2));
  auto const expected = d.of_whole(text_of(0, page + 1, 8));
  CHECK(y.rows == 2);
  CHECK(expected.size() > 0);
}

namespace {
/// A mask that shows the next position, too.
struct one_ahead {
  static bool sees(Index t, Index s) { return s <= t + 1; }
};
}  // namespace
TEST_CASE("decoder: a mask that shows later positions is an error") {
  Decoder<MultiHead<8, 2, 4, one_ahead>, Cpu<float>> d({.tokens = 8}, 1);
  auto const x = text_of(0, 2, 8);
  CHECK(says(error_of([&] { d.prefill({x.data(), 2, 8}); }), "lets position 0 see the later position 1"));
}

namespace {
/// Attention and a mixture, with a capacity or without.
template <class... Capacity>
struct Dropping {
  using Heads = Moa<8, 4, SoftmaxTopK<4, 2>, causal>;
  using Ffn = Smoe<8, SoftmaxTopK<4, 2>, FeedForward<8>, Capacity...>;
  struct x : input<tokens, size<8>> {};
  static constexpr auto heads = use<Heads, "heads">(x{});
  static constexpr auto ffn = use<Ffn, "ffn">(heads.y);
  static constexpr auto y = heads.y + ffn.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace
TEST_CASE("decoder: a layer trained with a capacity decodes without it, and drops nothing") {
  Module<Dropping<capacity<1, 2>>, Cpu<float>, inference> narrow(3);
  Module<Dropping<capacity<4>>, Cpu<float>, inference> wide(share_parameters{}, narrow);
  Decoder<Dropping<>, Cpu<float>> decoder({.tokens = 2 * page}, share_parameters{}, narrow);
  Index const n = page + 3;
  auto const x = text_of(0, n, 8);
  view<float const> const rows(x.data(), n, 8);
  auto const numbers = [](view<float const> y) { return std::vector<float>(y.data, y.data + y.size()); };
  auto const kept = numbers(wide.forward(rows)), dropped = numbers(narrow.forward(rows));
  std::vector<float> decoded;
  for (Index t = 0; t < n; ++t) {
    auto const y = numbers(decoder.step(rows.middle_rows(t, 1)));
    decoded.insert(decoded.end(), y.begin(), y.end());
  }
  CHECK(difference(decoded, kept) < 2e-5);
  CHECK(difference(dropped, kept) > 1e-2);
}
