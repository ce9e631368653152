#pragma once
// SPDX-License-Identifier: MIT
// A strict JSON reader (RFC 8259). The caller asks for values in order and keeps what it needs: there is no tree, so a
// hostile text cannot make it allocate, and a value of the wrong kind is an error with its place.

#include <charconv>
#include <limits>
#include <locale>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"
#include "headmix/io/utf8.hpp"

namespace headmix {

/// Reads one JSON text from beginning to end; every error names the text, the place in it, the expected and the found
/// value:
///
///     JsonReader json(text, "run.json");
///     json.object([&](std::string const& key) {
///       if (key == "time") time = json.number(); else json.skip();
///     });
///     json.end();
class JsonReader {
 public:
  /// `name` is the text's name in errors; both must outlive the reader.
  JsonReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  /// Calls member(key) for each member, which must read the value. A repeated key is an error.
  template <class F>
  void object(F&& member) {
    open('{', "an object");
    std::set<std::string> keys;
    for (bool first = true; more('}', first); first = false) {
      space();
      std::size_t const begin = at_;
      auto const [key, is_new] = keys.insert(string());
      path_.back().key = &*key;
      if (!is_new) {
        at_ = begin;
        reject("every key once", "it again");
      }
      if (!consume(':')) reject("a colon", found());
      member(*key);
    }
    path_.pop_back();
  }

  /// Calls element() for each element, which must read it.
  template <class F>
  void array(F&& element) {
    open('[', "an array");
    for (bool first = true; more(']', first); first = false) {
      ++path_.back().index;
      element();
    }
    path_.pop_back();
  }

  /// A string, unescaped, in UTF-8.
  [[nodiscard]] std::string string() {
    if (!consume('"')) reject("a string", found());
    std::string out;
    for (;;) {
      if (at_ == text_.size()) reject("the end of a string", "the end of the text");
      std::size_t const begin = at_;
      char32_t const c = detail::take_code_point(text_, at_);
      if (c == '"') return out;
      if (c == '\\') {
        detail::append_utf8(out, escaped());
      } else if (c == detail::not_utf8 || c < 0x20) {
        at_ = begin;
        reject(c < 0x20 ? "a control character to be escaped" : "UTF-8", shown(text_.substr(begin, 1)));
      } else {
        out += text_.substr(begin, at_ - begin);
      }
    }
  }

  /// A whole number from 0 to the largest Index, without fraction and exponent.
  [[nodiscard]] Index count() {
    auto const text = next_word();
    Index value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool const plain = !text.empty() && is_digit(text[0]) && (text[0] != '0' || text.size() == 1);
    if (!plain || error != std::errc() || end != text.data() + text.size()) {
      reject(message("a whole number from 0 to ", (std::numeric_limits<Index>::max)()), found());
    }
    at_ += text.size();
    return value;
  }

  /// A number in the range of double, rounded to nearest.
  [[nodiscard]] double number() {
    auto const text = next_word();
    double value = 0;
    if (!is_number(text) || !read_double(text, value)) {
      reject("a number in the range of double", found());
    }
    at_ += text.size();
    return value;
  }

  [[nodiscard]] bool boolean() {
    auto const text = next_word();
    if (text != "true" && text != "false") reject("true or false", found());
    at_ += text.size();
    return text == "true";
  }

  /// Reads null. False, with nothing read, where another value follows.
  [[nodiscard]] bool null() {
    bool const found = next_word() == "null";
    if (found) at_ += 4;
    return found;
  }

  /// Checks any value and returns its text.
  [[nodiscard]] std::string_view value() {
    space();
    std::size_t const begin = at_;
    skip();
    return text_.substr(begin, at_ - begin);
  }

  /// Checks and skips any value.
  void skip() {
    auto const text = next_word();
    if (is_number(text) || text == "true" || text == "false" || text == "null") {
      at_ += text.size();
    } else if (peek() == '{') {
      object([this](std::string const&) { skip(); });
    } else if (peek() == '[') {
      array([this] { skip(); });
    } else if (peek() == '"') {
      (void)string();
    } else {
      reject("a value", found());
    }
  }

  /// Checks that only white space is left.
  void end() {
    space();
    if (at_ != text_.size()) reject("the end of the text", found());
  }

  /// Reports an error at this place of the text.
  [[noreturn]] void reject(std::string_view expected, std::string_view found) const {
    std::string path;
    for (auto const& p : path_) {
      if (p.key || p.index >= 0) path += (p.key ? shown(*p.key) : message("[", p.index, "]")) + ": ";
    }
    fail(name_, ": ", path, "expected ", expected, ", found ", found, " (byte ", at_, " of the JSON text)");
  }

 private:
  struct step {
    std::string const* key;  // null in an array, and before the first member of an object
    Index index;             // -1 before the first element of an array
  };
  static constexpr std::size_t max_depth = 64;

  [[nodiscard]] static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

  /// Converts text that satisfies is_number(), independent of locale; false if it is out of the range of double.
  [[nodiscard]] static bool read_double(std::string_view text, double& value) {
#ifdef __cpp_lib_to_chars
    return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
#else  // libc++ before LLVM 20
    std::istringstream in{std::string(text)};
    in.imbue(std::locale::classic());
    return static_cast<bool>(in >> value);
#endif
  }

  /// The number grammar of RFC 8259, a subset of that of from_chars.
  [[nodiscard]] static constexpr bool is_number(std::string_view text) {
    auto const one_of = [&text](std::string_view set) {
      if (text.empty() || set.find(text[0]) == set.npos) return false;
      text.remove_prefix(1);
      return true;
    };
    auto const digits = [&one_of] {
      if (!one_of("0123456789")) return false;
      while (one_of("0123456789")) {
      }
      return true;
    };
    one_of("-");
    if (!one_of("0") && !digits()) return false;
    if (one_of(".") && !digits()) return false;
    if (one_of("eE")) {
      one_of("+-");
      if (!digits()) return false;
    }
    return text.empty();
  }

  void space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  /// Skips white space and the character c. Returns false, with nothing skipped, if another character follows.
  [[nodiscard]] bool consume(char c) {
    space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// The characters up to the next structural one: a number or a literal, or nothing.
  [[nodiscard]] std::string_view next_word() {
    space();
    auto const rest = text_.substr(at_);
    return rest.substr(0, rest.find_first_of(" \t\n\r,:\"{}[]"));
  }
  [[nodiscard]] std::string found() {
    auto const text = next_word();
    if (at_ == text_.size()) return "the end of the text";
    if (!text.empty()) return shown(text);
    char const c = text_[at_];
    return c == '{' ? "an object" : c == '[' ? "an array" : c == '"' ? "a string" : shown(text_.substr(at_, 1));
  }

  void open(char bracket, std::string_view kind) {
    if (!consume(bracket)) reject(kind, found());
    if (path_.size() == max_depth) reject(message("at most ", max_depth, " levels"), "more");
    path_.push_back({nullptr, -1});
  }
  [[nodiscard]] bool more(char bracket, bool first) {
    if (consume(bracket)) return false;
    if (!first && !consume(',')) {
      reject(bracket == '}' ? "a comma or the end of the object" : "a comma or the end of the array", found());
    }
    return true;
  }

  /// An escape sequence, after its backslash.
  [[nodiscard]] char32_t escaped() {
    std::size_t const begin = at_ - 1;
    auto const refuse = [&](std::string_view expected, std::size_t length) {
      at_ = begin;
      reject(expected, shown(text_.substr(begin, length)));
    };
    auto const hex4 = [&] {
      unsigned value = 0;
      auto const digits = text_.substr(at_, 4);
      auto const end = digits.data() + digits.size();
      if (digits.size() < 4 || std::from_chars(digits.data(), end, value, 16).ptr != end) {
        refuse("four hexadecimal digits", at_ + 4 - begin);
      }
      at_ += 4;
      return char32_t{value};
    };
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    char const c = peek();
    if (at_ < text_.size()) ++at_;
    if (auto const i = letters.find(c); i != letters.npos) return static_cast<unsigned char>(meanings[i]);
    if (c != 'u') refuse("an escape sequence", 2);
    char32_t const high = hex4();
    if (high < 0xD800 || high >= 0xE000) return high;
    bool const pair = high < 0xDC00 && text_.substr(at_, 2) == "\\u";
    if (pair) at_ += 2;
    char32_t const low = pair ? hex4() : 0;
    if (low < 0xDC00 || low >= 0xE000) refuse("a pair of surrogates", at_ - begin);
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  std::string_view text_, name_;
  std::size_t at_ = 0;
  std::vector<step> path_;
};

}  // namespace headmix
