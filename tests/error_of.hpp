#pragma once
// SPDX-License-Identifier: MIT
// The message of an error.

#include <exception>
#include <string>

namespace headmix::test {

/// The text of the exception that f throws, or an empty text.
template <class F>
std::string error_of(F const& f) {
  try {
    f();
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}
/// True if a text contains a part.
inline bool says(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

}  // namespace headmix::test
