#pragma once
// SPDX-License-Identifier: MIT
// Errors of the host side: every message starts with "headmix: ", names the thing, what was expected and what was
// found.

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

#include "headmix/core/config.hpp"

#ifdef HEADMIX_NO_EXCEPTIONS
#include <cstdio>
#include <cstdlib>
#else
#include <stdexcept>
#endif

namespace headmix {

namespace detail {
/// A text or a number as a part of a message; non-template, so that functions are compiled once and not per message. It
/// refers to the text.
class text_part {
 public:
  // Implicit conversions from texts and numbers. NOLINTBEGIN(google-explicit-constructor)
  text_part(char const* text) : text_(text) {}
  text_part(std::string_view text) : text_(text) {}
  text_part(std::string const& text) : text_(text) {}
  text_part(std::signed_integral auto n) : what_(kind::whole), whole_(n) {}
  text_part(std::unsigned_integral auto n) : what_(kind::natural), natural_(n) {}
  text_part(std::floating_point auto x) : what_(kind::real), real_(x) {}
  // NOLINTEND(google-explicit-constructor)

  void append_to(std::string& text) const {
    if (what_ == kind::text) text += text_;
    if (what_ == kind::whole) text += std::to_string(whole_);
    if (what_ == kind::natural) text += std::to_string(natural_);
    if (what_ == kind::real) text += std::to_string(real_);
  }

 private:
  enum class kind { text, whole, natural, real };
  kind what_ = kind::text;
  std::string_view text_;
  union {
    long long whole_ = 0;
    unsigned long long natural_;
    double real_;
  };
};
inline std::string joined_text(std::initializer_list<text_part> parts) {
  std::string text;
  for (text_part const& p : parts) p.append_to(text);
  return text;
}
}  // namespace detail

/// Concatenates texts and numbers.
template <class... Part>
std::string message(Part const&... part) {
  return detail::joined_text({part...});
}

#ifdef HEADMIX_NO_EXCEPTIONS
/// Error handler for builds without exceptions or with HEADMIX_NO_EXCEPTIONS: called with the message instead of a
/// throw; must not return. Replace it before other threads use the library.
inline void (*on_error)(char const* text) = [](char const* text) {
  std::fputs(text, stderr);
  std::fputc('\n', stderr);
};

/// Reports an error; the message is the concatenation of the parts.
template <class... Part>
[[noreturn]] void fail(Part const&... part) {
  on_error(detail::joined_text({"headmix: ", part...}).c_str());
  std::abort();
}
#else
/// The exception for every mistake that the host can detect: extents, bindings, workspaces, files.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
namespace detail {
[[noreturn]] inline void throw_error(std::initializer_list<text_part> parts) { throw Error(joined_text(parts)); }
}  // namespace detail

/// Reports an error; the message is the concatenation of the parts.
template <class... Part>
[[noreturn]] void fail(Part const&... part) {
  detail::throw_error({"headmix: ", part...});
}
#endif

}  // namespace headmix
