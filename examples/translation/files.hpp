#pragma once
// SPDX-License-Identifier: MIT
// Whole files as strings.

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "../command_line.hpp"

namespace translation {

/// The bytes of a file; UsageError with one line: the path, `expected`, and the reason.
inline std::string read_file(std::string const& path, std::string_view expected) {
  auto const failed = [&] {
    command_line::mistake(path, expected, "a file that cannot be read: " + std::generic_category().message(errno));
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) failed();
  std::string bytes;
  char block[1 << 16];
  for (std::size_t got; (got = std::fread(block, 1, sizeof block, file.get())) > 0;) bytes.append(block, got);
  if (std::ferror(file.get()) != 0) failed();
  return bytes;
}
/// Creates or replaces a file; UsageError with one line.
inline void write_file(std::string const& path, std::string_view bytes) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  bool good = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  int const error = errno;
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (!good) command_line::mistake(path, "a file that can be written", std::generic_category().message(error));
}

}  // namespace translation
