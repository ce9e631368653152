// SPDX-License-Identifier: MIT
#include "catalogue.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "../command_line.hpp"

namespace translation {
namespace {

using command_line::mistake;

/// The 32-bit numbers of a file of one order of bytes.
class Numbers {
 public:
  Numbers(std::span<unsigned char const> bytes, std::string_view name) : bytes_(bytes), name_(name) {
    constexpr std::uint32_t magic = 0x950412de;
    if (bytes.size() < 28) {
      mistake(name, "a gettext catalogue of at least 28 bytes", std::to_string(bytes.size()) + " bytes");
    }
    if (at(0) == magic) return;
    big_ = true;
    if (at(0) != magic) mistake(name, "the number 950412de of a gettext catalogue", "other bytes at its beginning");
  }
  [[nodiscard]] std::uint32_t at(std::size_t offset) const {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      number |= std::uint32_t{bytes_[offset + i]} << (8 * (big_ ? 3 - i : i));
    }
    return number;
  }
  /// The text that entry `number` of a table refers to; a zero byte follows it.
  [[nodiscard]] std::string_view text(std::size_t table, std::size_t number) const {
    std::size_t const length = at(table + 8 * number), begin = at(table + 8 * number + 4);
    if (begin >= bytes_.size() || length >= bytes_.size() - begin || bytes_[begin + length] != 0) {
      mistake(name_,
              "text " + std::to_string(number) + " and a zero byte within " + std::to_string(bytes_.size()) + " bytes",
              std::to_string(length) + " bytes at byte " + std::to_string(begin));
    }
    return {reinterpret_cast<char const*>(bytes_.data()) + begin, length};
  }
  [[nodiscard]] std::size_t table(std::size_t offset, std::size_t entries) const {
    std::size_t const begin = at(offset);
    if (begin > bytes_.size() || entries > (bytes_.size() - begin) / 8) {
      mistake(name_,
              "a table of " + std::to_string(entries) + " texts within " + std::to_string(bytes_.size()) + " bytes",
              "its beginning at byte " + std::to_string(begin));
    }
    return begin;
  }

 private:
  std::span<unsigned char const> bytes_;
  std::string_view name_;
  bool big_ = false;
};

/// An error unless the header of a catalogue names UTF-8, or no character set.
void check_header(std::string_view header, std::string_view name) {
  constexpr std::string_view key = "charset=";
  std::size_t const found = header.find(key);
  if (found == header.npos) return;
  std::string_view const rest = header.substr(found + key.size());
  std::string_view const charset = rest.substr(0, rest.find_first_of(" \n;"));
  std::string lower(charset);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower != "utf-8" && lower != "utf8" && lower != "us-ascii" && lower != "charset") {
    mistake(name, "the character set UTF-8", command_line::in_quotes(charset));
  }
}

}  // namespace

std::vector<Pair> read_catalogue(std::span<unsigned char const> bytes, std::string_view name) {
  Numbers const file(bytes, name);
  if (std::uint32_t const revision = file.at(4); revision >> 16 > 1) {
    mistake(name, "revision 0 or 1 of the format", std::to_string(revision >> 16));
  }
  std::size_t const count = file.at(8);
  std::size_t const english = file.table(12, count), other = file.table(16, count);
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    std::string_view from = file.text(english, i), to = file.text(other, i);
    if (from.empty()) {
      check_header(to, name);
      continue;
    }
    if (std::size_t const end = from.find('\4'); end != from.npos) from.remove_prefix(end + 1);
    pairs.emplace_back(from.substr(0, from.find('\0')), to.substr(0, to.find('\0')));
  }
  return pairs;
}

std::string without_accelerator(std::string_view text) {
  std::string plain;
  bool found = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool const before = i + 1 < text.size() && (std::isalnum(static_cast<unsigned char>(text[i + 1])) != 0 ||
                                                static_cast<unsigned char>(text[i + 1]) >= 0x80);
    if (!found && before && (text[i] == '&' || text[i] == '_' || text[i] == '~')) {
      found = true;
      continue;
    }
    plain += text[i];
  }
  return plain;
}

}  // namespace translation
