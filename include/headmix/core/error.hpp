#pragma once
// SPDX-License-Identifier: MIT
// Errors of the host side: every message starts with "headmix: ", names the thing, what was expected and what was
// found.

#include <string>
#include <string_view>
#include <type_traits>

#include "headmix/core/config.hpp"

#ifdef HEADMIX_NO_EXCEPTIONS
#include <cstdio>
#include <cstdlib>
#else
#include <stdexcept>
#endif

namespace headmix {

/// Texts and numbers, one after the other.
template <class... Part>
std::string message(Part const&... part) {
  std::string text;
  auto const append = [&text](auto const& p) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(p)>>) {
      text += std::to_string(p);
    } else {
      text += p;
    }
  };
  (append(part), ...);
  return text;
}

#ifdef HEADMIX_NO_EXCEPTIONS
/// Where exceptions are switched off, or HEADMIX_NO_EXCEPTIONS is defined: called with the message instead of a throw;
/// must not return. Replace it, before other threads use the library, to report errors in your own way.
inline void (*on_error)(char const* text) = [](char const* text) {
  std::fputs(text, stderr);
  std::fputc('\n', stderr);
};

/// Reports an error whose text is the parts put together.
template <class... Part>
[[noreturn]] void fail(Part const&... part) {
  on_error(message("headmix: ", part...).c_str());
  std::abort();
}
#else
/// Thrown for every mistake that the host side can see: extents, bindings, workspaces, files.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reports an error whose text is the parts put together.
template <class... Part>
[[noreturn]] void fail(Part const&... part) {
  throw Error(message("headmix: ", part...));
}
#endif

}  // namespace headmix
