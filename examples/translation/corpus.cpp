// SPDX-License-Identifier: MIT
#include "corpus.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>

#include "../command_line.hpp"
#include "files.hpp"

namespace translation {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t least_bytes = 2, most_bytes = 300;

std::vector<std::string> catalogues(std::string const& path) {
  constexpr std::string_view expected = "a gettext catalogue, or a folder with files *.mo";
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator i(path, error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;
    if (i->path().extension() == ".mo" && i->is_regular_file(gone)) files.push_back(i->path().string());
  }
  if (error) command_line::mistake(path, expected, error.message());
  if (files.empty()) command_line::mistake(path, expected, "a folder without such files");
  std::sort(files.begin(), files.end());
  return files;
}

/// Without accelerator and without spaces at both ends.
std::string cleaned(std::string_view text) {
  std::string plain = without_accelerator(text);
  std::size_t const begin = std::min(plain.find_first_not_of(' '), plain.size());
  return plain.substr(begin, plain.find_last_not_of(' ') + 1 - begin);
}
bool is_sentence(std::string const& text) {
  bool const printable =
      std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; });
  bool const letter =
      std::any_of(text.begin(), text.end(), [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
  return printable && letter && text.size() >= least_bytes && text.size() <= most_bytes;
}
/// FNV-1a of the letters and digits, in lower case.
std::uint64_t hash_of(std::string const& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) == 0) continue;
    hash = (hash ^ static_cast<unsigned>(byte < 0x80 ? std::tolower(byte) : byte)) * 0x100000001b3;
  }
  return hash ^ (hash >> 32);
}

}  // namespace

Corpus read_corpus(std::string const& path) {
  Corpus corpus;
  std::set<std::string> seen;
  for (std::string const& file : catalogues(path)) {
    std::string const bytes = read_file(file, "a gettext catalogue");
    ++corpus.files;
    for (auto const& [from, to] :
         read_catalogue({reinterpret_cast<unsigned char const*>(bytes.data()), bytes.size()}, file)) {
      ++corpus.messages;
      Pair pair{cleaned(from), cleaned(to)};
      if (!is_sentence(pair.first) || !is_sentence(pair.second) || pair.first == pair.second) continue;
      if (!seen.insert(pair.first).second) continue;
      auto const part = hash_of(pair.first) % 20;
      (part == 0 ? corpus.valid : part == 1 ? corpus.test : corpus.train).push_back(std::move(pair));
    }
  }
  if (corpus.train.empty() || corpus.valid.empty() || corpus.test.empty()) {
    command_line::mistake(path, "pairs of sentences to train, validate and test",
                          std::to_string(corpus.train.size()) + ", " + std::to_string(corpus.valid.size()) + " and " +
                              std::to_string(corpus.test.size()));
  }
  return corpus;
}

}  // namespace translation
