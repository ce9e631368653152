// SPDX-License-Identifier: MIT
#include "list.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "../../examples/language_model/options.hpp"

namespace trends {
namespace {

using Words = std::vector<std::string>;

/// Where a mistake is.
struct Line {
  std::string const& path;
  int number;

  [[noreturn]] void mistake(std::string const& what) const {
    throw lm::UsageError(path + ":" + std::to_string(number) + ": " + what);
  }
  [[noreturn]] void mistake(std::string_view expected, std::string const& found) const {
    mistake("expected " + std::string(expected) + ", found " + (found.empty() ? "nothing" : lm::in_quotes(found)));
  }
};

Words words_of(std::string const& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string trimmed(std::string const& s) {
  auto const first = s.find_first_not_of(' '), last = s.find_last_not_of(' ');
  return first == std::string::npos ? "" : s.substr(first, last - first + 1);
}

/// A name is part of a file's name.
void check_name(Line const& line, std::string const& name) {
  auto const good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), good))
    line.mistake("a name of lower-case letters, digits and _", name);
}

template <class T>
void check_number(Line const& line, std::string_view what, std::string const& word) {
  T number{};
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) line.mistake(what, word);
}

/// What headmix-lm says of the options, so that nothing is trained before all of them are known to be good.
void check_options(Line const& line, Words words) {
  for (auto& w : words)
    if (w.starts_with('@')) w.erase(0, 1);
  try {
    lm::Options const options = lm::parse_options({words.begin(), words.end()});
    if (!options.notes.empty()) line.mistake(options.notes.front());
  } catch (lm::UsageError const& e) {
    std::string const reason = e.what();
    if (reason.starts_with(line.path)) throw;
    line.mistake(reason);
  }
}

Claim claim_of(Line const& line, List const& list, std::string const& text) {
  auto const less = text.find('<'), first = text.find(" : "), second = text.find(" : ", first + 1);
  if (less == std::string::npos || first == std::string::npos || second == std::string::npos || less > first)
    line.mistake("BETTER < WORSE : TEXT : PAPER", text);
  Claim claim{trimmed(text.substr(0, less)), trimmed(text.substr(less + 1, first - less - 1)),
              trimmed(text.substr(first + 3, second - first - 3)), trimmed(text.substr(second + 3))};
  if (auto const by = claim.worse.find(" by "); by != std::string::npos) {
    claim.measure = trimmed(claim.worse.substr(by + 4));
    claim.worse = trimmed(claim.worse.substr(0, by));
    if (claim.measure != "one_expert" && claim.measure != "gate_entropy" && claim.measure != "largest_share")
      line.mistake("one_expert, gate_entropy or largest_share behind `by`", claim.measure);
  }
  if (list.run(claim.better) == nullptr) line.mistake("the name of a run above", claim.better);
  if (list.run(claim.worse) != nullptr) return claim;
  if (claim.measure.empty()) line.mistake("the name of a run above", claim.worse);
  check_number<double>(line, "the name of a run above, or a number", claim.worse);
  return claim;
}

}  // namespace

Run const* List::run(std::string const& name) const {
  auto const found = std::find_if(runs.begin(), runs.end(), [&](Run const& r) { return r.name == name; });
  return found == runs.end() ? nullptr : &*found;
}

List read_list(std::string const& path) {
  std::ifstream file(path);
  if (!file)
    throw lm::UsageError("expected a readable list, found " + lm::in_quotes(path) + ": " + std::strerror(errno));
  List list;
  Line line{path, 0};
  for (std::string text; std::getline(file, text);) {
    ++line.number;
    text.erase(std::min(text.find('#'), text.size()));
    Words words = words_of(text);
    if (words.empty()) continue;
    std::string const keyword = words.front();
    words.erase(words.begin());
    std::string const first = words.empty() ? "" : words.front();
    if (keyword == "all") {
      list.all.insert(list.all.end(), words.begin(), words.end());
      check_options(line, list.all);
    } else if (keyword == "seeds") {
      if (words.empty()) line.mistake("seeds", "");
      for (auto const& w : words) check_number<std::uint64_t>(line, "a seed, a whole number", w);
      list.seeds = words;
    } else if (keyword == "select") {
      check_number<std::uint64_t>(line, "a seed, a whole number", first);
      list.select = first;
      list.to_select.assign(words.begin() + 1, words.end());
      Words with_all = list.all;
      with_all.insert(with_all.end(), list.to_select.begin(), list.to_select.end());
      check_options(line, with_all);
    } else if (keyword == "family") {
      check_name(line, first);
      if (words.size() < 4) line.mistake("three learning rates or more behind the family's name", joined(words));
      words.erase(words.begin());
      for (auto const& w : words) check_number<double>(line, "a learning rate", w);
      list.families.push_back({first, words, list.runs.size()});
    } else if (keyword == "run") {
      if (list.families.empty()) line.mistake("a family before its first run", "run " + first);
      check_name(line, first);
      if (list.run(first) != nullptr) line.mistake("a name that no run has yet", first);
      words.erase(words.begin());
      Run run{first, list.families.size() - 1, words, ""};
      for (auto const& w : words)
        if (w.starts_with('@')) run.base = w.substr(1);
      if (!run.base.empty() && list.run(run.base) == nullptr) line.mistake("the name of a run above", run.base);
      list.runs.push_back(run);
      check_options(line, Training{&run, "1", list.families.back().rates.front()}.words(list));
    } else if (keyword == "claim") {
      list.claims.push_back(claim_of(line, list, text.substr(text.find("claim") + 5)));
    } else {
      line.mistake("all, seeds, select, family, run or claim", keyword);
    }
  }
  if (list.seeds.empty()) line.mistake("a line `seeds`", "");
  if (list.select.empty()) line.mistake("a line `select`", "");
  if (std::find(list.seeds.begin(), list.seeds.end(), list.select) != list.seeds.end())
    line.mistake("a seed behind `select` that is not reported", list.select);
  if (list.runs.empty() || list.families.back().first == list.runs.size()) line.mistake("a run in every family", "");
  return list;
}

std::vector<std::string> Training::words(List const& list) const {
  Words words = list.all;
  if (seed == list.select) words.insert(words.end(), list.to_select.begin(), list.to_select.end());
  words.insert(words.end(), run->options.begin(), run->options.end());
  if (std::find(run->options.begin(), run->options.end(), "--lr") == run->options.end())
    words.insert(words.end(), {"--lr", rate});
  words.insert(words.end(), {"--seed", seed});
  return words;
}

std::string joined(Words const& words) {
  std::string s;
  for (auto const& w : words) s += (s.empty() ? "" : " ") + w;
  return s;
}

}  // namespace trends
