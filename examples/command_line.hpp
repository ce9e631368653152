#pragma once
// SPDX-License-Identifier: MIT
// Command lines from a table. An option has a name and a value, made from the variable that it sets:
//
//     std::vector<command_line::Option> const table = {{"--steps", number_in(steps, 1, 1000)},
//                                                      {"--mask", choice_in(mask, "full|causal")},
//                                                      {"--quick", flag_in(quick)}};
//     auto const given = command_line::parse(table, arguments);
//
// A mistake is a UsageError with one line that names the option, the expected and the found value.

#include <array>
#include <charconv>
#include <concepts>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace command_line {

/// A mistake of the caller (options, files): one line on stderr and exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void mistake(std::string_view option, std::string_view expected, std::string_view found) {
  std::string line(option);
  line.append(": expected ").append(expected).append(", found ").append(found);
  throw UsageError(line);
}

/// 'text', shortened and with all but printable ASCII replaced, so that messages are one line.
[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 200;
  std::string s = "'";
  for (char const c : text.substr(0, longest)) s += c >= ' ' && c <= '~' ? c : '?';
  return s + (text.size() > longest ? "...'" : "'");
}

/// The shortest text that reads as x.
template <class T>
[[nodiscard]] std::string to_text(T x) {
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr};
}

/// The number in `text`, from low to high.
template <class T>
[[nodiscard]] T to_number(std::string_view option, std::string_view text, T low, T high) {
  T x{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc{} || end != text.data() + text.size() || !(x >= low && x <= high)) {
    mistake(option,
            (std::integral<T> ? "a whole number from " : "a number from ") + to_text(low) + " to " + to_text(high),
            in_quotes(text));
  }
  return x;
}

/// Names of the enumerators in order; specialise it beside the enumeration.
template <class E>
inline constexpr std::array<std::string_view, 0> names{};

template <class E>
requires std::is_enum_v<E>
[[nodiscard]] constexpr std::string_view name(E e) { return names<E>[static_cast<std::size_t>(e)]; }

/// Reads and shows the value of an option. Refers to a variable.
struct Value {
  std::string_view form;  ///< shown to the user: "N", "PATH", "full|causal"; empty: the option has no value
  std::function<void(std::string_view option, std::string_view text)> read;
  std::function<std::string()> show;
};

template <class T>
[[nodiscard]] Value number_in(T& x, std::type_identity_t<T> low, std::type_identity_t<T> high,
                              std::string_view form = "N") {
  return {form, [&x, low, high](auto option, auto text) { x = to_number(option, text, low, high); },
          [&x] { return to_text(x); }};
}
[[nodiscard]] inline Value text_in(std::string& x, std::string_view form) {
  return {form,
          [&x](auto option, auto text) {
            if (text.empty()) mistake(option, "a path", "nothing");
            x = text;
          },
          [&x] { return x; }};
}
/// One of several words, separated by |: a string, or an enumeration with names.
template <class T>
[[nodiscard]] Value choice_in(T& x, std::string_view words) {
  return {words,
          [&x, words](std::string_view option, std::string_view text) {
            std::string expected;
            for (std::size_t begin = 0, end = 0; end != words.npos; begin = end + 1) {
              end = words.find('|', begin);
              std::string_view const word = words.substr(begin, end - begin);
              expected.append(begin == 0 ? "" : end == words.npos ? " or " : ", ").append(word);
              if (text != word) continue;
              if constexpr (std::is_enum_v<T>) {
                for (x = T{}; name(x) != word;) x = static_cast<T>(static_cast<int>(x) + 1);
              } else {
                x = word;
              }
              return;
            }
            mistake(option, expected, in_quotes(text));
          },
          [&x] {
            if constexpr (std::is_enum_v<T>) {
              return std::string(name(x));
            } else {
              return x;
            }
          }};
}
[[nodiscard]] inline Value flag_in(bool& x) {
  return {"", [&x](auto, auto) { x = true; }, [&x] { return std::string(x ? "on" : "off"); }};
}

struct Option {
  std::string_view name;
  Value value;
};

using Given = std::set<std::string_view>;

/// True if an argument is --help or -h, which have no value.
template <class Arguments>
[[nodiscard]] bool asks_for_help(Arguments const& arguments) {
  bool asks = false;
  for (std::string_view const word : arguments) {
    if (word.starts_with("--help=")) mistake("--help", "no value", in_quotes(word.substr(word.find('=') + 1)));
    asks = asks || word == "--help" || word == "-h";
  }
  return asks;
}

/// Reads the options of the table, written --name VALUE or --name=VALUE; the last of equal options counts. The message
/// about an unknown option ends with `hint`.
/// @return the names of the given options, as in the table
template <class Table, class Arguments>
Given parse(Table const& table, Arguments const& arguments, std::string hint = "") {
  if (hint.empty()) {
    for (Option const& o : table) hint.append(hint.empty() ? "known are " : ", ").append(o.name);
  }
  Given given;
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    std::string_view const word = *argument;
    if (!word.starts_with("-")) throw UsageError("expected an option, found " + in_quotes(word) + " (" + hint + ")");
    std::size_t const equals = word.find('=');
    std::string_view const key = word.substr(0, equals);
    Option const* found = nullptr;
    for (Option const& o : table) {
      if (o.name == key) found = &o;
    }
    if (found == nullptr) throw UsageError("unknown option " + in_quotes(key) + " (" + hint + ")");
    std::string_view const form = found->value.form;
    std::string_view text;
    if (equals != word.npos) {
      text = word.substr(equals + 1);
      if (form.empty()) mistake(key, "no value", in_quotes(text));
    } else if (!form.empty()) {
      std::string const value = std::string("a value, ").append(form);
      if (++argument == arguments.end()) mistake(key, value, "the end of the command line");
      text = *argument;
      // A forgotten value must not swallow the next option; `--key=--value` passes such a value.
      if (text.starts_with("--")) mistake(key, value, "the option " + in_quotes(text));
    }
    found->value.read(found->name, text);
    given.insert(found->name);
  }
  return given;
}

}  // namespace command_line
