// SPDX-License-Identifier: MIT
#include "subwords.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include "../command_line.hpp"
#include "files.hpp"

namespace translation {
namespace {

constexpr Int first_merge = 257;
constexpr std::string_view heading = "headmix subwords 1";

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}

/// f(word) for the words of a sentence, the first one with a space before it.
template <class F>
void each_word(std::string_view sentence, F f) {
  std::string const text = " " + std::string(sentence);
  for (std::size_t begin = 0, end; begin < text.size(); begin = end) {
    end = begin + (text[begin] == ' ' && begin + 1 < text.size() ? 1 : 0);
    if (!in_word(text[end])) {
      ++end;
    } else {
      while (end < text.size() && in_word(text[end])) ++end;
    }
    f(std::string_view(text).substr(begin, end - begin));
  }
}
Ids bytes_of(std::string_view word) {
  Ids ids;
  for (char const c : word) ids.push_back(1 + static_cast<unsigned char>(c));
  return ids;
}
/// Replaces every pair by `merged`, from left to right.
void merge(Ids& ids, std::array<Int, 2> pair, Int merged) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bool const here = i + 1 < ids.size() && ids[i] == pair[0] && ids[i + 1] == pair[1];
    ids[kept++] = here ? merged : ids[i];
    if (here) ++i;
  }
  ids.resize(kept);
}

}  // namespace

Subwords::Subwords() : texts_(first_merge) {
  for (std::size_t b = 0; b < 256; ++b) texts_[b + 1] = static_cast<char>(static_cast<unsigned char>(b));
}

void Subwords::add(Int left, Int right) {
  ranks_[{left, right}] = static_cast<Int>(size());
  merges_.push_back({left, right});
  texts_.push_back(texts_[static_cast<std::size_t>(left)] + texts_[static_cast<std::size_t>(right)]);
}

Subwords Subwords::learn(std::vector<std::string> const& sentences, Index vocabulary) {
  std::map<std::string, Index, std::less<>> counts;
  for (std::string const& s : sentences) {
    each_word(s, [&](std::string_view word) { ++counts.try_emplace(std::string(word), 0).first->second; });
  }
  struct Word {
    Ids ids;
    Index count;
  };
  struct Occurrences {
    Index count = 0;
    std::set<std::size_t> words;  ///< numbers of words that have the pair, or had it
  };
  std::vector<Word> words;
  std::map<std::array<Int, 2>, Occurrences> pairs;
  std::set<std::pair<Index, std::array<Int, 2>>> order;  // of pairs: by falling frequency, then by ids
  auto const count = [&](std::size_t number, Index sign) {
    Word const& w = words[number];
    for (std::size_t i = 0; i + 1 < w.ids.size(); ++i) {
      std::array<Int, 2> const pair = {w.ids[i], w.ids[i + 1]};
      Occurrences& o = pairs[pair];
      order.erase({-o.count, pair});
      o.count += sign * w.count;
      order.insert({-o.count, pair});
      if (sign > 0) o.words.insert(number);
    }
  };
  for (auto const& [word, n] : counts) {
    words.push_back({bytes_of(word), n});
    count(words.size() - 1, 1);
  }
  Subwords all;
  while (all.size() < vocabulary && !order.empty() && order.begin()->first <= -2) {
    auto const pair = order.begin()->second;
    auto const of_words = pairs.at(pair).words;
    for (std::size_t const number : of_words) {
      count(number, -1);
      merge(words[number].ids, pair, static_cast<Int>(all.size()));
      count(number, 1);
    }
    all.add(pair[0], pair[1]);
  }
  return all;
}

Ids Subwords::encode_word(std::string_view word) const {
  Ids ids = bytes_of(word);
  for (;;) {
    auto first = ranks_.end();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      auto const found = ranks_.find({ids[i], ids[i + 1]});
      if (found != ranks_.end() && (first == ranks_.end() || found->second < first->second)) first = found;
    }
    if (first == ranks_.end()) return ids;
    merge(ids, first->first, first->second);
  }
}

Ids Subwords::encode(std::string_view sentence) const {
  Ids ids;
  each_word(sentence, [&](std::string_view word) {
    Ids const part = encode_word(word);
    ids.insert(ids.end(), part.begin(), part.end());
  });
  return ids;
}

std::string Subwords::decode(Ids const& ids) const {
  std::string text;
  for (Int const id : ids) text += texts_.at(static_cast<std::size_t>(id));
  if (text.starts_with(' ')) text.erase(0, 1);
  return text;
}

void Subwords::write(std::string const& path) const {
  std::string text = std::string(heading) + "\n";
  for (auto const& [left, right] : merges_) text += std::to_string(left) + " " + std::to_string(right) + "\n";
  write_file(path, text);
}

Subwords Subwords::read(std::string const& path) {
  std::string const text = read_file(path, "a file of subwords");
  Subwords all;
  std::string_view rest = text;
  for (Index line = 1; !rest.empty(); ++line) {
    std::size_t const end = rest.find('\n');
    std::string_view const words = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    std::string const where = path + ": line " + std::to_string(line);
    if (line == 1) {
      if (words != heading)
        command_line::mistake(where, command_line::in_quotes(heading), command_line::in_quotes(words));
      continue;
    }
    std::size_t const space = std::min(words.find(' '), words.size() - (words.empty() ? 0 : 1));
    Int const last = static_cast<Int>(all.size()) - 1;
    Int const left = command_line::to_number<Int>(where, words.substr(0, space), 1, last);
    all.add(left, command_line::to_number<Int>(where, words.substr(std::min(space + 1, words.size())), 1, last));
  }
  if (text.empty()) command_line::mistake(path, command_line::in_quotes(heading), "an empty file");
  return all;
}

}  // namespace translation
