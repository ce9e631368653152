// SPDX-License-Identifier: MIT
#include "bleu.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>

#include "headmix/core/error.hpp"

namespace translation {
namespace {

constexpr std::size_t most = 4;  // the longest n-gram

bool digit(char c) { return '0' <= c && c <= '9'; }
/// ASCII punctuation and symbols, except apostrophe, comma, hyphen and full stop.
bool symbol(char c) {
  return (' ' <= c && c <= '&') || ('(' <= c && c <= '+') || c == '/' || (':' <= c && c <= '@') ||
         ('[' <= c && c <= '`') || ('{' <= c && c <= '~');
}
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
}
/// Puts spaces before and after the first and the second of adjacent characters that match, from left to right; a
/// character is in one match.
template <class Matches>
std::string spaced(std::string const& text, Matches matches, std::string_view before, std::string_view between,
                   std::string_view after) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      result.append(before).append(1, text[i]).append(between).append(1, text[i + 1]).append(after);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}
/// The bytes of the white space of Unicode at the beginning of a text, 0 if there is none.
std::size_t white_space(std::string_view s) {
  auto const byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U; };
  unsigned const a = byte(0), b = byte(1), c = byte(2);
  if (a == ' ' || (9 <= a && a <= 13) || (28 <= a && a <= 31)) return 1;
  if (a == 0xc2 && (b == 0x85 || b == 0xa0)) return 2;
  if (a == 0xe1 && b == 0x9a && c == 0x80) return 3;
  if (a == 0xe2 && b == 0x80 && ((0x80 <= c && c <= 0x8a) || c == 0xa8 || c == 0xa9 || c == 0xaf)) return 3;
  if ((a == 0xe2 && b == 0x81 && c == 0x9f) || (a == 0xe3 && b == 0x80 && c == 0x80)) return 3;
  return 0;
}

using Ngrams = std::map<std::vector<std::string>, long>;
Ngrams ngrams(std::vector<std::string> const& tokens, std::size_t n) {
  Ngrams all;
  for (std::size_t i = 0; i + n <= tokens.size(); ++i) {
    auto const begin = tokens.begin() + static_cast<std::ptrdiff_t>(i);
    ++all[{begin, begin + static_cast<std::ptrdiff_t>(n)}];
  }
  return all;
}

}  // namespace

std::vector<std::string> tokens_13a(std::string_view text) {
  std::string s(text);
  replace_all(s, "<skipped>", "");
  replace_all(s, "-\n", "");
  replace_all(s, "\n", " ");
  for (auto const& [from, to] : {std::pair{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}}) {
    replace_all(s, from, to);
  }
  std::string apart = " ";
  for (char const c : s) {
    if (symbol(c)) {
      apart.append(1, ' ').append(1, c).append(1, ' ');
    } else {
      apart += c;
    }
  }
  apart += ' ';
  auto const stop = [](char c) { return c == '.' || c == ','; };
  apart = spaced(
      apart, [&](char a, char b) { return !digit(a) && stop(b); }, "", " ", " ");
  apart = spaced(
      apart, [&](char a, char b) { return stop(a) && !digit(b); }, " ", " ", "");
  apart = spaced(
      apart, [](char a, char b) { return digit(a) && b == '-'; }, "", " ", " ");
  std::vector<std::string> tokens(1);
  for (std::size_t i = 0; i < apart.size();) {
    std::size_t const space = white_space(std::string_view(apart).substr(i));
    if (space == 0) {
      tokens.back() += apart[i++];
    } else {
      if (!tokens.back().empty()) tokens.emplace_back();
      i += space;
    }
  }
  if (tokens.back().empty()) tokens.pop_back();
  return tokens;
}

double bleu(std::vector<std::string> const& translations, std::vector<std::string> const& references) {
  if (translations.size() != references.size() || translations.empty()) {
    headmix::fail("bleu: expected as many references as translations, at least 1, found ", references.size(), " for ",
                  translations.size());
  }
  std::array<long, most> matches{}, total{};
  long length = 0, reference_length = 0;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    auto const found = tokens_13a(translations[i]), expected = tokens_13a(references[i]);
    length += static_cast<long>(found.size()), reference_length += static_cast<long>(expected.size());
    for (std::size_t n = 1; n <= most; ++n) {
      Ngrams const of_reference = ngrams(expected, n);
      for (auto const& [ngram, count] : ngrams(found, n)) {
        total[n - 1] += count;
        auto const at = of_reference.find(ngram);
        if (at != of_reference.end()) matches[n - 1] += std::min(count, at->second);
      }
    }
  }
  // The longest n-grams are the rarest: without any, or without a match at all, the product of the precisions is 0.
  if (total[most - 1] == 0 || matches[0] == 0) return 0;
  double sum = 0, smoothing = 1;
  for (std::size_t n = 0; n < most; ++n) {
    double const matched = matches[n] > 0 ? static_cast<double>(matches[n]) : 1 / (smoothing *= 2);
    sum += std::log(100 * matched / static_cast<double>(total[n]));
  }
  double const ratio = static_cast<double>(reference_length) / static_cast<double>(length);
  return std::exp(std::min(0.0, 1 - ratio) + sum / most);
}

}  // namespace translation
