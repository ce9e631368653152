// SPDX-License-Identifier: MIT
// Beam search against all continuations, against greedy search, and over a decoder with a context.

#include "headmix/decode/beam_search.hpp"

#include <array>
#include <map>

#include "../error_of.hpp"
#include "decoding.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/use.hpp"

namespace beam_search_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr Index words = 4;
constexpr Int end = 1;

/// Scores of the next token that depend on all tokens before.
std::vector<double> scores_after(std::vector<Int> const& history) {
  std::uint64_t hash = 7;
  for (Int const t : history) hash = hash * 1000003 + static_cast<std::uint64_t>(t) + 1;
  std::vector<double> scores;
  for (Index j = 0; j < words; ++j) scores.push_back(2 * Random(11, hash).normal(static_cast<std::uint64_t>(j)));
  return scores;
}
double log_p(std::vector<Int> const& history, Int token) {
  auto const scores = scores_after(history);
  double sum = 0;
  for (double const s : scores) sum += std::exp(s);
  return scores[static_cast<std::size_t>(token)] - std::log(sum);
}

/// The histories of sequences, in place of a decoder.
struct Histories {
  std::vector<std::vector<Int>> of;
  std::vector<double> scores;
  Index most = 0;

  [[nodiscard]] Index sequences() const { return static_cast<Index>(of.size()); }
  void reorder(std::span<Index const> order) {
    std::vector<std::vector<Int>> next;
    for (Index const i : order) next.push_back(of[static_cast<std::size_t>(i)]);
    of = next;
    most = (std::max)(most, sequences());
  }
  view<double const> operator()(std::span<Int const> tokens) {
    scores.clear();
    for (std::size_t b = 0; b < of.size(); ++b) {
      of[b].push_back(tokens[b]);
      auto const row = scores_after(of[b]);
      scores.insert(scores.end(), row.begin(), row.end());
    }
    return {scores.data(), sequences(), words};
  }
};
/// All continuations of at most `most` tokens, the end included.
void all_continuations(std::vector<Int> const& prompt, std::vector<Int> tokens, double log_probability, Index most,
                       double alpha, std::vector<beam_result>& all) {
  auto history = prompt;
  history.insert(history.end(), tokens.begin(), tokens.end());
  auto const length = static_cast<Index>(tokens.size());
  if (length == most) return;
  for (Int t = 0; t < words; ++t) {
    double const p = log_probability + log_p(history, t);
    if (t == end) {
      all.push_back({tokens, p, p / std::pow(static_cast<double>(length + 1), alpha), true});
    } else {
      auto longer = tokens;
      longer.push_back(t);
      if (length + 1 == most) {
        all.push_back({longer, p, p / std::pow(static_cast<double>(length + 1), alpha), false});
      } else {
        all_continuations(prompt, longer, p, most, alpha, all);
      }
    }
  }
}

}  // namespace

TEST_CASE("beam search: with as many beams as continuations, the best of all") {
  for (double const alpha : {0.0, 0.6, 1.0}) {
    CAPTURE(alpha);
    Histories h{{{}, {2}}, {}};
    Int const last[] = {0, 3};
    auto const found =
        beam_search(h, last, {.beams = 100, .end = end, .most_tokens = 4, .penalty = length_power{alpha}}, std::ref(h));
    REQUIRE(found.size() == 2);
    for (std::size_t b = 0; b < 2; ++b) {
      std::vector<beam_result> all;
      all_continuations(b == 0 ? std::vector<Int>{0} : std::vector<Int>{2, 3}, {}, 0, 4, alpha, all);
      std::stable_sort(all.begin(), all.end(), [](auto const& x, auto const& y) { return x.score > y.score; });
      REQUIRE(found[b].size() == (std::min)(all.size(), std::size_t{100}));
      for (std::size_t i = 0; i < 10; ++i) {
        CHECK(found[b][i].tokens == all[i].tokens);
        CHECK(found[b][i].ended == all[i].ended);
        CHECK(found[b][i].score == doctest::Approx(all[i].score).epsilon(1e-12));
        CHECK(found[b][i].log_probability == doctest::Approx(all[i].log_probability).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("beam search: one beam is greedy search, and few beams keep the best of each step") {
  Histories h{{{}}, {}};
  Int const last[] = {2};
  auto const found = beam_search(h, last, beam_options<>{.beams = 1, .end = end, .most_tokens = 30}, std::ref(h));
  std::vector<Int> history = {2};
  for (;;) {
    auto const scores = scores_after(history);
    auto const best = static_cast<Int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    if (best == end || history.size() == 31) break;
    history.push_back(best);
  }
  REQUIRE(found[0].size() == 1);
  CHECK(found[0][0].tokens == std::vector<Int>(history.begin() + 1, history.end()));

  // The definition of a step for 3 beams, with all candidates in one sorted list.
  Histories few{{{}}, {}};
  auto const three =
      beam_search(few, last, beam_options<gnmt_length>{.beams = 3, .end = end, .most_tokens = 8}, std::ref(few));
  std::multimap<double, std::vector<Int>, std::greater<>> alive = {{0.0, {2}}};
  std::vector<std::pair<std::vector<Int>, double>> finished;
  for (int step = 1; step <= 8 && finished.size() < 3; ++step) {
    std::multimap<double, std::vector<Int>, std::greater<>> candidates, next;
    for (auto const& [p, tokens] : alive) {
      for (Int t = 0; t < words; ++t) {
        auto longer = tokens;
        longer.push_back(t);
        candidates.emplace(p + log_p(tokens, t), longer);
      }
    }
    int place = 0;
    for (auto const& [p, tokens] : candidates) {
      if (tokens.back() == end) {
        if (place < 3 && finished.size() < 3) finished.emplace_back(tokens, p);
      } else if (next.size() < 3) {
        next.emplace(p, tokens);
      }
      ++place;
    }
    alive = next;
  }
  for (auto const& [tokens, p] : finished) {
    bool seen = false;
    for (auto const& r : three[0]) {
      auto whole = r.tokens;
      whole.insert(whole.begin(), 2);
      whole.push_back(end);
      if (whole != tokens) continue;
      seen = true;
      CHECK(r.log_probability == doctest::Approx(p).epsilon(1e-12));
      CHECK(r.score ==
            doctest::Approx(p / std::pow((5.0 + static_cast<double>(tokens.size() - 1)) / 6, 0.6)).epsilon(1e-12));
    }
    CHECK(seen);
  }
  CHECK(!finished.empty());
  CHECK(few.most <= 3);
}

// ---- over a decoder with a context ----

namespace {
/// Next-token logits of a translation model.
struct Translator {
  static constexpr Index vocabulary = 7, width = 8;
  struct x : selection<tokens, size<1>, size<vocabulary>> {};
  struct context : input<context_tokens, size<width>> {};
  struct W_e : param<size<vocabulary>, size<width>> {};
  struct embedded : let<decltype(gather_rows(W_e{}, x{}))> {};
  static constexpr auto self = use<MultiHead<width, 2, 4, causal, rope<>>, "self">(embedded{});
  struct h : let<decltype(embedded{} + self.y)> {};
  static constexpr auto cross = use<MultiHead<width, 2, 4, context_dim<width>>, "cross">(h{}, context{});
  static constexpr auto y = (h{} + cross.y) % t(W_e{});
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace

TEST_CASE("beam search: over a decoder whose beams share the context") {
  using B = Cpu<float>;
  Module<Translator, B, inference> whole(3);
  for (auto const& p : whole.parameters()) {
    for (Index i = 0; i < p.value.size(); ++i) p.value.data[i] *= 2;
  }
  Decoder<Translator, B> decoder({.sequences = 6, .tokens = 12, .context = 9}, share_parameters{}, whole);
  std::vector<float> const context = text_of(0, 12, Translator::width);
  Int const of_context[] = {0, 9, 12}, none[] = {0, 0, 0}, first[] = {4, 5};
  view<float const> const memory(context.data(), 12, Translator::width);
  decoder.reorder(std::array<Index, 2>{-1, -1});
  decoder.prefill({first, 0, 1}, ragged(none, 2), memory, ragged(of_context, 2));
  auto const found = beam_search(decoder, first, beam_options<>{.beams = 3, .end = 0, .most_tokens = 6},
                                 [&](std::span<Int const> tokens) {
                                   return decoder.step({tokens.data(), static_cast<Index>(tokens.size()), 1});
                                 });
  for (std::size_t b = 0; b < 2; ++b) {
    CHECK(found[b].size() == 3);
    for (auto const& r : found[b]) {
      std::vector<Int> tokens = {first[b]};
      tokens.insert(tokens.end(), r.tokens.begin(), r.tokens.end());
      if (r.ended) tokens.push_back(0);
      auto const n = static_cast<Index>(tokens.size()) - 1;
      whole.program().bind(Translator::x{}, view<Int const>(tokens.data(), n, 1));
      whole.program().bind(Translator::context{}, memory.middle_rows(of_context[b], of_context[b + 1] - of_context[b]));
      auto const one = uniform(1, n);
      whole.program().bind_tokens(one);
      whole.program().bind_context(uniform(1, of_context[b + 1] - of_context[b]));
      auto const logits = whole.forward();
      double log_probability = 0;
      for (Index t = 0; t < n; ++t) {
        double sum = 0;
        for (Index j = 0; j < logits.cols; ++j) sum += std::exp(static_cast<double>(logits(t, j)));
        log_probability += static_cast<double>(logits(t, tokens[static_cast<std::size_t>(t) + 1])) - std::log(sum);
      }
      CHECK(r.log_probability == doctest::Approx(log_probability).epsilon(1e-5));
    }
  }
}

TEST_CASE("beam search: errors") {
  Histories h{{{}, {}}, {}};
  Int const one[] = {0}, two[] = {0, 0};
  auto const search = [&](std::span<Int const> last, beam_options<> options) {
    return error_of([&] { static_cast<void>(beam_search(h, last, options, std::ref(h))); });
  };
  CHECK(says(search(one, {.most_tokens = 2}),
             "headmix: beam_search: expected the last token of each of the 2 sequences, found 1"));
  CHECK(says(search(two, {.beams = 0, .most_tokens = 2}), "headmix: beam_search: beams is 0, expected at least 1"));
  CHECK(says(search(two, {}), "headmix: beam_search: most_tokens is 0, expected at least 1"));
  CHECK(says(search(two, {.end = 4, .most_tokens = 1}), "headmix: beam_search: end is 4, expected a token 0 .. 3"));
}

}  // namespace beam_search_test
