#pragma once
// SPDX-License-Identifier: MIT
// Files in memory for the tests, and a folder for files on disk.

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headmix/io/safetensors.hpp"

namespace headmix::test {

using Bytes = std::vector<std::byte>;

/// A file with this header and data; `length` is the header length that it claims.
inline Bytes file_of(std::string_view header, std::string_view data = "", std::size_t length = std::string::npos) {
  std::uint64_t const n = length == std::string::npos ? header.size() : length;
  Bytes file(sizeof n + header.size() + data.size());
  std::memcpy(file.data(), &n, sizeof n);
  std::memcpy(file.data() + sizeof n, header.data(), header.size());
  std::memcpy(file.data() + sizeof n + header.size(), data.data(), data.size());
  return file;
}

inline std::string text_of(std::span<std::byte const> bytes) {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

inline bool same(tensor_view const& a, tensor_view const& b) {
  return a.type == b.type && a.shape == b.shape && text_of(a.bytes) == text_of(b.bytes);
}
inline bool same(TensorMap const& a, TensorMap const& b) {
  if (a.size() != b.size()) return false;
  for (auto i = a.begin(), j = b.begin(); i != a.end(); ++i, ++j) {
    if (i->first != j->first || !same(i->second, j->second)) return false;
  }
  return true;
}

inline Bytes read_all(std::string const& path) {
  InputFile file(path);
  return read_bytes(file, std::size_t{1} << 30);
}

/// A new, empty folder that is removed with its files.
struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / message("headmix-test-io-", getpid())) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string operator/(std::string const& name) const { return (path / name).string(); }
  [[nodiscard]] long files() const {
    return std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator());
  }

  std::filesystem::path path;
};

}  // namespace headmix::test
