#pragma once
// SPDX-License-Identifier: MIT
// Sampling: a token drawn from the logits of the next one, by temperature, top-k and top-p (nucleus, Holtzman et al.
// 2020).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/random.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// The distribution that sample_token() draws from. Tokens are ranked by their logits, equal logits by their ids, the
/// lower id first. With the defaults it is the softmax of the logits.
struct SamplingOptions {
  /// Divides the logits, >= 0; 0 takes the first token of the ranking (greedy), whatever the other options are.
  double temperature = 1;
  /// Keeps the first top_k tokens of the ranking; 0, and a number above the vocabulary's, keep all.
  Index top_k = 0;
  /// Then keeps the fewest first tokens whose probabilities, of those kept so far, sum to at least top_p, 0 < top_p
  /// <= 1.
  double top_p = 1;
};

namespace detail {

inline void check_sampling(SamplingOptions const& o) {
  if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
    fail("sample_token: temperature: expected a finite number of at least 0, found ", o.temperature);
  if (o.top_k < 0) fail("sample_token: top_k: expected at least 0, found ", o.top_k);
  if (!(o.top_p > 0 && o.top_p <= 1)) fail("sample_token: top_p: expected more than 0 and at most 1, found ", o.top_p);
}

/// The logits of one token, and the kept tokens: those that are not ranked behind token `last`.
template <class T>
struct token_ranking {
  view<T const> logits;
  double temperature;
  Index top, last;

  [[nodiscard]] double logit(Index i) const { return static_cast<double>(logits(0, i)); }
  /// True if token a is ranked before token b.
  [[nodiscard]] bool before(Index a, Index b) const {
    double const x = logit(a), y = logit(b);
    return x > y || (x == y && a < b);
  }
  /// The probability of token i relative to that of the first one.
  [[nodiscard]] double weight(Index i) const { return std::exp((logit(i) - logit(top)) / temperature); }
  /// f(i, weight) for the kept tokens by id, while it returns true.
  template <class F>
  void each(F f) const {
    for (Index i = 0; i < logits.cols; ++i) {
      if (!before(last, i) && !f(i, weight(i))) return;
    }
  }
  /// The sum of the weights of the kept tokens, by id.
  [[nodiscard]] double mass() const {
    double sum = 0;
    each([&sum](Index, double w) {
      sum += w;
      return true;
    });
    return sum;
  }
};

}  // namespace detail

/// Draws a token from its logits [1, vocabulary] in host memory, by element `position` of `random`: a function of its
/// arguments. A logit of minus infinity has the probability 0. An Error for options out of range, and for logits that
/// are NaN, plus infinity, or all minus infinity.
/// @param random  for several sequences Random(seed, sequence)
template <class T>
[[nodiscard]] Int sample_token(view<T const> logits, SamplingOptions const& options, Random const& random,
                               std::uint64_t position) {
  detail::check_sampling(options);
  if (logits.count != 1 || logits.rows != 1 || 1 > logits.cols)
    fail("sample_token: logits: expected [1, vocabulary], found [", logits.count, ", ", logits.rows, ", ", logits.cols,
         "]");
  Index const n = logits.cols;
  detail::token_ranking<T> r{logits, options.temperature, 0, n - 1};
  for (Index i = 0; i < n; ++i) {
    double const x = r.logit(i);
    if (std::isnan(x) || x == HUGE_VAL)
      fail("sample_token: logits: expected finite numbers or minus infinity, found ", x, " for token ", i);
    if (r.before(i, r.top)) r.top = i;
    if (r.before(r.last, i)) r.last = i;
  }
  if (std::isinf(r.logit(r.top)))
    fail("sample_token: logits: expected a finite number, found minus infinity for all ", n, " tokens");
  if (options.temperature == 0) return static_cast<Int>(r.top);

  bool const fewer = options.top_k > 0 && options.top_k < n;
  if (fewer || options.top_p < 1) {
    auto const before = [&r](Index a, Index b) { return r.before(a, b); };
    std::vector<Index> ranked(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) ranked[static_cast<std::size_t>(i)] = i;
    if (fewer) {
      std::nth_element(ranked.begin(), ranked.begin() + (options.top_k - 1), ranked.end(), before);
      ranked.resize(static_cast<std::size_t>(options.top_k));
      r.last = ranked.back();
    }
    if (options.top_p < 1) {
      auto const after = [&r](Index a, Index b) { return r.before(b, a); };  // the heap's root is the first token
      double const enough = options.top_p * r.mass();
      std::make_heap(ranked.begin(), ranked.end(), after);
      double sum = 0;
      for (auto end = ranked.end(); end != ranked.begin() && sum < enough; --end) {
        std::pop_heap(ranked.begin(), end, after);
        r.last = end[-1];
        sum += r.weight(r.last);
      }
    }
  }

  double rest = random.uniform(position) * r.mass();
  Index drawn = r.top;
  r.each([&](Index i, double w) {
    if (w > 0) drawn = i;  // the last one where rounding leaves a rest
    return !(w > 0 && (rest -= w) < 0);
  });
  return static_cast<Int>(drawn);
}
/// sample_token() of logits in a view of mutable elements.
template <class T>
requires(!std::is_const_v<T>) [[nodiscard]] Int
    sample_token(view<T> logits, SamplingOptions const& options, Random const& random, std::uint64_t position) {
  return sample_token(view<T const>(logits), options, random, position);
}

}  // namespace headmix
