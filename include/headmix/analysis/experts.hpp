#pragma once
// SPDX-License-Identifier: MIT
// Statistics of trained experts: entropy of gates, use of experts, and the tokens that an expert is for. All on the
// host.

#include <algorithm>
#include <cmath>
#include <vector>

#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// The mean entropy of the rows of a gate [rows, experts], in nats: from 0 (always one expert) to log(experts). 0
/// without rows.
template <class T>
[[nodiscard]] double gate_entropy(view<T const> gate) {
  double sum = 0;
  for (Index i = 0; i < gate.rows; ++i) {
    for (Index j = 0; j < gate.cols; ++j) {
      auto const g = static_cast<double>(gate(i, j));
      if (g > 0) sum -= g * std::log(g);
    }
  }
  return gate.rows == 0 ? 0 : sum / static_cast<double>(gate.rows);
}
template <class T>
[[nodiscard]] double gate_entropy(view<T> gate) {
  return gate_entropy(view<T const>(gate));
}

/// Co-occurrence counts of experts and tokens (or any other numbered things).
class ExpertCounts {
 public:
  /// @param tokens upper bound of token numbers
  ExpertCounts(Index tokens, Index experts)
      : tokens_(tokens), experts_(experts), count_(elements_of(tokens, experts)) {}

  /// Counts a choice of an expert for a token; -1 is ignored.
  void add(Index token, Index expert, double weight = 1) {
    if (expert == -1) return;
    check(token, expert);
    count_[static_cast<std::size_t>(token * experts_ + expert)] += weight;
  }
  /// Counts the choices of every token: tokens [n, 1], chosen [n, K].
  void add(view<Int const> tokens, view<Int const> chosen) {
    if (tokens.rows != chosen.rows) {
      fail("ExpertCounts: expected choices of ", tokens.rows, " tokens, found ", chosen.rows);
    }
    for (Index i = 0; i < chosen.rows; ++i) {
      for (Index k = 0; k < chosen.cols; ++k) add(tokens(i, 0), chosen(i, k));
    }
  }

  /// The number of distinct tokens.
  [[nodiscard]] Index tokens() const { return tokens_; }
  /// The number of experts.
  [[nodiscard]] Index experts() const { return experts_; }
  /// The number of times that the expert was chosen for the token.
  [[nodiscard]] double count(Index token, Index expert) const {
    check(token, expert);
    return count_[static_cast<std::size_t>(token * experts_ + expert)];
  }
  /// The number of choices for the token.
  [[nodiscard]] double of_token(Index token) const {
    double n = 0;
    for (Index e = 0; e < experts_; ++e) n += count(token, e);
    return n;
  }
  /// The number of choices of the expert.
  [[nodiscard]] double of_expert(Index expert) const {
    double n = 0;
    for (Index t = 0; t < tokens_; ++t) n += count(t, expert);
    return n;
  }
  /// The number of all choices.
  [[nodiscard]] double total() const {
    double n = 0;
    for (double const c : count_) n += c;
    return n;
  }
  /// The share of all choices that were for the expert; 0 without choices.
  [[nodiscard]] double share(Index expert) const {
    double const n = total();
    return n == 0 ? 0 : of_expert(expert) / n;
  }

 private:
  static std::size_t elements_of(Index tokens, Index experts) {
    if (0 > tokens || 0 > experts) {
      fail("ExpertCounts: expected numbers of tokens and experts of at least 0, found ", tokens, " and ", experts);
    }
    checked const elements = checked(tokens) * experts;
    static_cast<void>(checked_bytes(elements, sizeof(double)));
    return static_cast<std::size_t>(elements.value);
  }
  void check(Index token, Index expert) const {
    if (0 > token || token >= tokens_) fail("ExpertCounts: expected a token below ", tokens_, ", found ", token);
    if (0 > expert || expert >= experts_) fail("ExpertCounts: expected an expert below ", experts_, ", found ", expert);
  }

  Index tokens_, experts_;
  std::vector<double> count_;
};

/// The entropy of the experts' shares, in nats: from 0 (one expert has all) to log(experts). 0 without choices.
[[nodiscard]] inline double expert_entropy(ExpertCounts const& counts) {
  double entropy = 0;
  for (Index e = 0; e < counts.experts(); ++e) {
    double const p = counts.share(e);
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

/// The mutual information of tokens and experts, in nats: sum of p(t, e) log(p(t, e) / (p(t) p(e))), from 0 to
/// expert_entropy(). 0 without choices. The estimate from n choices is biased upwards by about (tokens that occur - 1)
/// (experts - 1) / 2n.
[[nodiscard]] inline double mutual_information(ExpertCounts const& counts) {
  double const all = counts.total();
  std::vector<double> of_expert;
  for (Index e = 0; e < counts.experts(); ++e) of_expert.push_back(counts.of_expert(e));
  double information = 0;
  for (Index t = 0; t < counts.tokens(); ++t) {
    double const of_token = counts.of_token(t);
    for (Index e = 0; e < counts.experts(); ++e) {
      double const n = counts.count(t, e);
      if (n > 0) information += n / all * std::log(n * all / (of_token * of_expert[static_cast<std::size_t>(e)]));
    }
  }
  return information;
}

/// A token and its association with an expert.
struct token_affinity {
  /// The number of the token.
  Index token;
  double pmi;    ///< log p(token, expert) / (p(token) p(expert)), in nats
  double count;  ///< number of joint occurrences
};

/// The tokens with the highest pointwise mutual information with the expert, highest first, ties in token order. Tokens
/// that occur less than `least` times are omitted: their estimate is noise.
[[nodiscard]] inline std::vector<token_affinity> most_typical_tokens(ExpertCounts const& counts, Index expert,
                                                                     std::size_t most, double least = 1) {
  std::vector<token_affinity> found;
  double const all = counts.total(), of_expert = counts.of_expert(expert);
  for (Index t = 0; t < counts.tokens(); ++t) {
    double const n = counts.count(t, expert), of_token = counts.of_token(t);
    if (n > 0 && of_token >= least) found.push_back({t, std::log(n * all / (of_token * of_expert)), n});
  }
  std::stable_sort(found.begin(), found.end(), [](auto const& a, auto const& b) { return a.pmi > b.pmi; });
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace headmix
