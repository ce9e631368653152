// SPDX-License-Identifier: MIT
#include "tokens.hpp"

#include <charconv>
#include <cstring>

#include "headmix/core/error.hpp"
#include "headmix/io/file.hpp"
#include "headmix/io/utf8.hpp"

namespace llama {
namespace {

[[noreturn]] void refuse(std::string_view whose, std::size_t number, Index vocabulary, std::string_view found) {
  headmix::fail(whose, ": token ", number, ": expected a whole number from 0 to ", vocabulary - 1, ", found ", found);
}

}  // namespace

std::vector<Int> parse_tokens(std::string_view text, std::string_view whose, Index vocabulary) {
  constexpr std::string_view between = " \t\r\n,";
  std::vector<Int> ids;
  for (auto at = text.find_first_not_of(between); at != text.npos; at = text.find_first_not_of(between)) {
    text.remove_prefix(at);
    auto const word = text.substr(0, text.find_first_of(between));
    Index id = -1;
    auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocabulary) {
      refuse(whose, ids.size(), vocabulary, headmix::shown(word));
    }
    ids.push_back(static_cast<Int>(id));
    text.remove_prefix(word.size());
  }
  return ids;
}

std::vector<Int> read_tokens(std::string const& path, Index vocabulary) {
  headmix::MappedFile const file(path);
  auto const bytes = file.bytes();
  if (path.ends_with(".txt")) {
    return parse_tokens({reinterpret_cast<char const*>(bytes.data()), bytes.size()}, path, vocabulary);
  }
  if (bytes.size() % 4 != 0) {
    headmix::fail(path, ": expected 4 bytes for each token (or a name that ends with .txt), found ", bytes.size(),
                  " bytes");
  }
  std::vector<Int> ids(bytes.size() / 4);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::uint32_t id = 0;
    std::memcpy(&id, bytes.data() + 4 * i, 4);
    if (id >= static_cast<std::uint64_t>(vocabulary)) refuse(path, i, vocabulary, std::to_string(id));
    ids[i] = static_cast<Int>(id);
  }
  return ids;
}

}  // namespace llama
