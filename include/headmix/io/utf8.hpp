#pragma once
// SPDX-License-Identifier: MIT
// UTF-8, and the quoted form of untrusted names in JSON and in error messages.

#include <string>
#include <string_view>

#include "headmix/core/config.hpp"

namespace headmix {

namespace detail {

inline constexpr char32_t not_utf8 = 0xFFFFFFFF;

/// Decodes the code point at text[at] and advances `at`. For invalid bytes (an overlong form, a surrogate, a stray or
/// missing byte): returns `not_utf8`, and `at` advances by one byte.
constexpr char32_t take_code_point(std::string_view text, std::size_t& at) {
  std::size_t const begin = at++;
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  auto const lead = byte(begin);
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return not_utf8;
  std::size_t const more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t c = lead & (0x3Fu >> more);
  for (std::size_t i = begin + 1; i <= begin + more; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return not_utf8;
    c = c << 6 | (byte(i) & 0x3Fu);
  }
  char32_t const least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
  if (c < least || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return not_utf8;
  at = begin + 1 + more;
  return c;
}

/// Appends a code point as UTF-8.
inline void append_utf8(std::string& text, char32_t c) {
  int const more = c >= 0x10000 ? 3 : c >= 0x800 ? 2 : c >= 0x80 ? 1 : 0;
  constexpr char32_t lead[] = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(lead[more] | c >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

[[nodiscard]] constexpr bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (take_code_point(text, at) == not_utf8) return false;
  }
  return true;
}

}  // namespace detail

/// `text` as a JSON string in printable ASCII: safe in a file and on a terminal. Text after the first `limit` bytes is
/// shown as "...", a byte that is not UTF-8 as `\xHH` (only UTF-8 has a JSON form).
[[nodiscard]] inline std::string quote(std::string_view text, std::size_t limit = std::string_view::npos) {
  std::string out = "\"";
  auto const hex = [&out](char const* prefix, char32_t value, std::size_t digits) {
    char digit[4];
    for (std::size_t i = digits; i-- > 0; value >>= 4) digit[i] = "0123456789abcdef"[value & 15];
    out.append(prefix).append(digit, digits);
  };
  for (std::size_t at = 0; at < text.size();) {
    if (at >= limit) {
      out += "...";
      break;
    }
    auto const byte = static_cast<unsigned char>(text[at]);
    char32_t const c = detail::take_code_point(text, at);
    if (c == detail::not_utf8) {
      hex("\\x", byte, 2);
    } else if (c >= 0x10000) {
      hex("\\u", 0xD800 + ((c - 0x10000) >> 10), 4);
      hex("\\u", 0xDC00 + (c & 0x3FF), 4);
    } else if (c < 0x20 || c > 0x7E) {
      hex("\\u", c, 4);
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<char>(c);
    }
  }
  return out += '"';
}

/// `text` for an error message: quoted, at most a line long.
[[nodiscard]] inline std::string shown(std::string_view text) { return quote(text, 60); }

}  // namespace headmix
