#pragma once
// SPDX-License-Identifier: MIT
// Lines of JSON that the benchmarks write for each other: objects of which a value is found by its key.

#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

namespace bench {

/// The length of the value of JSON that the text begins with.
inline std::size_t length_of_json(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  std::size_t n = 0;
  for (; n < text.size(); ++n) {
    char const c = text[n];
    if (quoted) {
      if (c == '\\') ++n;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '[' || c == '{') ++depth;
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == ']' || c == '}') --depth;
  }
  return n;
}
/// The JSON of the value of `key`, the first one in the text, or nothing. Behind a key and its colon there is a space.
inline std::string json_value(std::string_view json, std::string_view key) {
  std::string const name = "\"" + std::string(key) + "\": ";
  auto const at = json.find(name);
  if (at == std::string_view::npos) return {};
  std::string_view const rest = json.substr(at + name.size());
  return std::string(rest.substr(0, length_of_json(rest)));
}
/// A string without its quotes; nothing where there is none.
inline std::string json_text(std::string_view json, std::string_view key) {
  std::string const value = json_value(json, key);
  std::string s;
  for (std::size_t i = 1; i + 1 < value.size(); ++i) {
    if (value[i] == '\\') ++i;
    s += value[i];
  }
  return s;
}
/// Not a number where there is none.
inline double json_number(std::string_view json, std::string_view key) {
  std::string const value = json_value(json, key);
  double x{};
  auto const [end, error] = std::from_chars(value.data(), value.data() + value.size(), x);
  bool const whole = error == std::errc{} && end == value.data() + value.size();
  return whole ? x : std::numeric_limits<double>::quiet_NaN();
}
inline std::string json_quoted(std::string_view text) {
  std::string s = "\"";
  for (char const c : text) s.append(c == '"' || c == '\\' ? "\\" : "").push_back(c);
  return s + '"';
}

}  // namespace bench
