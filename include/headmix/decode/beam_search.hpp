#pragma once
// SPDX-License-Identifier: MIT
// Beam search (Graves 2012) over the scores of next tokens: several continuations of each sequence in parallel, of
// which the best finished ones are returned.
//
//   decoder.prefill(...);                                              // one sequence for each prompt
//   auto const found = beam_search(decoder, first_tokens, {.beams = 4, .end = 2, .most_tokens = 100},
//                                  [&](std::span<Int const> tokens) { return logits(decoder, tokens); });
//   found[0][0].tokens                                                  // the best continuation of prompt 0

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// The score of a continuation of `length` tokens, the end included: log p / length^alpha (fairseq; the papers of MoA
/// and MAE).
struct length_power {
  double alpha = 1;  ///< 0 compares log p alone
  /// The divisor of log p.
  [[nodiscard]] double operator()(Index length) const { return std::pow(static_cast<double>(length), alpha); }
};
/// log p / ((5 + length) / 6)^alpha (Wu et al. 2016, GNMT).
struct gnmt_length {
  double alpha = 0.6;  ///< 0 compares log p alone
  /// The divisor of log p.
  [[nodiscard]] double operator()(Index length) const { return std::pow((5 + static_cast<double>(length)) / 6, alpha); }
};

/// Options of beam_search().
template <class Penalty = length_power>
struct beam_options {
  Index beams = 4;        ///< continuations of each sequence, at least 1
  Int end = 0;            ///< the token that ends a continuation
  Index most_tokens = 0;  ///< of a continuation, the end included; at least 1
  Penalty penalty = {};   ///< the divisor of log p for a length
};
/// A finished continuation.
struct beam_result {
  std::vector<Int> tokens;  ///< without the end
  double log_probability = 0;  ///< of the tokens, and of the end
  double score = 0;            ///< log_probability / penalty(tokens and end)
  bool ended = false;  ///< false: it reached most_tokens
};

namespace detail {
/// The candidates of a step: the best ones of all continuations of a sequence.
struct beam_candidate {
  double log_probability;
  Index beam;
  Int token;
};
/// log(sum exp(row)); minus infinity for a row of minus infinities.
template <class T>
double log_sum_exp(T const* row, Index n) {
  double most = -std::numeric_limits<double>::infinity();
  for (Index j = 0; j < n; ++j) {
    double const v = static_cast<double>(row[j]);
    if (std::isnan(v) || v == std::numeric_limits<double>::infinity()) {
      fail("beam_search: the score of token ", j, " is ", v, "; expected a number or minus infinity");
    }
    most = (std::max)(most, v);
  }
  if (std::isinf(most)) return most;
  double sum = 0;
  for (Index j = 0; j < n; ++j) sum += std::exp(static_cast<double>(row[j]) - most);
  return most + std::log(sum);
}
}  // namespace detail

/// The best finished continuations of each sequence of a decoder, best first, at most `beams` of each. The decoder has
/// seen the prompts except for their last tokens, `last`, one for each sequence; it needs room for beams times as many
/// sequences (cache_size::sequences), and afterwards holds the continuations that were alive at the end.
///
/// `next(tokens)` brings one token to each sequence of the decoder and returns the scores of the tokens that follow,
/// [sequences, vocabulary] on the host: logits, or log p. A sequence is finished when it has `beams` continuations that
/// ended; ties go to the earlier continuation and the smaller token. O(beams vocabulary) a step and sequence.
template <class Decoder, class Next, class Penalty = length_power>
std::vector<std::vector<beam_result>> beam_search(Decoder& decoder, std::span<Int const> last,
                                                  beam_options<Penalty> const& options, Next next) {
  Index const sequences = decoder.sequences(), beams = options.beams;
  if (static_cast<Index>(last.size()) != sequences) {
    fail("beam_search: expected the last token of each of the ", sequences, " sequences, found ", last.size());
  }
  if (beams < 1) fail("beam_search: beams is ", beams, ", expected at least 1");
  if (options.most_tokens < 1) fail("beam_search: most_tokens is ", options.most_tokens, ", expected at least 1");

  struct continuation {
    std::vector<Int> tokens;
    double log_probability = 0;
  };
  auto const n = static_cast<std::size_t>(sequences);
  std::vector<std::vector<beam_result>> found(n);
  // By row of the decoder: its sequence, and what follows its prompt.
  std::vector<std::size_t> of(n);
  std::vector<continuation> alive(n);
  std::vector<Int> tokens(last.begin(), last.end());
  for (std::size_t b = 0; b < n; ++b) of[b] = b;
  auto const finish = [&](std::size_t b, continuation&& c, bool ended) {
    auto const length = static_cast<Index>(c.tokens.size()) + (ended ? 1 : 0);
    found[b].push_back({std::move(c.tokens), c.log_probability, c.log_probability / options.penalty(length), ended});
  };

  for (Index step = 1; !alive.empty(); ++step) {
    auto const scores = next(std::span<Int const>(tokens));
    if (scores.rows != static_cast<Index>(alive.size())) {
      fail("beam_search: next() returned ", scores.rows, " rows for ", alive.size(), " tokens");
    }
    if (options.end < 0 || options.end >= scores.cols) {
      fail("beam_search: end is ", options.end, ", expected a token 0 .. ", scores.cols - 1);
    }
    std::vector<std::size_t> new_of;
    std::vector<continuation> new_alive;
    std::vector<Index> order;
    tokens.clear();
    for (std::size_t first = 0, behind; first < alive.size(); first = behind) {
      std::size_t const b = of[first];
      for (behind = first + 1; behind < alive.size() && of[behind] == b;) ++behind;
      // Twice as many as beams: at most `beams` of them end.
      std::vector<detail::beam_candidate> best;
      auto const better = [](detail::beam_candidate const& a, detail::beam_candidate const& c) {
        if (a.log_probability != c.log_probability) return a.log_probability > c.log_probability;
        return a.beam != c.beam ? a.beam < c.beam : a.token < c.token;
      };
      auto const most = static_cast<std::size_t>(2 * beams);
      for (std::size_t row = first; row < behind; ++row) {
        auto const* const logits = scores.row(static_cast<Index>(row));
        double const shift = alive[row].log_probability - detail::log_sum_exp(logits, scores.cols);
        for (Index j = 0; j < scores.cols; ++j) {
          double const p = static_cast<double>(logits[j]) + shift;
          if (!(p > -std::numeric_limits<double>::infinity())) continue;
          detail::beam_candidate const c{p, static_cast<Index>(row), static_cast<Int>(j)};
          if (best.size() == most && !better(c, best.back())) continue;
          if (best.size() == most) best.pop_back();
          best.insert(std::upper_bound(best.begin(), best.end(), c, better), c);
        }
      }
      Index kept = 0, place = 0;
      for (auto const& c : best) {
        auto longer = alive[static_cast<std::size_t>(c.beam)];
        longer.log_probability = c.log_probability;
        bool const ends = c.token == options.end;
        if (ends && place < beams && static_cast<Index>(found[b].size()) < beams) finish(b, std::move(longer), true);
        ++place;
        if (ends || kept == beams) continue;
        longer.tokens.push_back(c.token);
        new_of.push_back(b), order.push_back(c.beam), tokens.push_back(c.token);
        new_alive.push_back(std::move(longer));
        ++kept;
      }
      if (static_cast<Index>(found[b].size()) == beams || step == options.most_tokens) {
        for (; kept > 0; --kept) {
          if (static_cast<Index>(found[b].size()) < beams) {
            auto const at = new_alive.size() - static_cast<std::size_t>(kept);
            finish(b, continuation(new_alive[at]), false);
          }
        }
        while (!new_of.empty() && new_of.back() == b) {
          new_of.pop_back(), order.pop_back(), tokens.pop_back(), new_alive.pop_back();
        }
      }
    }
    if (!order.empty()) decoder.reorder(order);
    of = std::move(new_of), alive = std::move(new_alive);
  }
  for (auto& results : found) {
    std::stable_sort(results.begin(), results.end(),
                     [](beam_result const& a, beam_result const& b) { return a.score > b.score; });
  }
  return found;
}

}  // namespace headmix
