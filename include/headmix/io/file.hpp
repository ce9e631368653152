#pragma once
// SPDX-License-Identifier: MIT
// Files with errors that name the path. A file is read in pieces, so no claim about its size is believed, and is
// written under another name first, so nobody ever sees half of it.

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

namespace headmix {

/// A file, pipe or device that is read from its beginning on.
class InputFile {
 public:
  /// Opens a file; an Error names it if that fails.
  explicit InputFile(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rb")) {
    if (file_ == nullptr) fail(path_, ": cannot open: ", std::strerror(errno));
  }
  InputFile(InputFile const&) = delete;
  InputFile& operator=(InputFile const&) = delete;
  ~InputFile() { std::fclose(file_); }

  /// Fills `to` and returns the bytes read, which are fewer only where the file ends.
  std::size_t read(std::span<std::byte> to) {
    std::size_t const got = std::fread(to.data(), 1, to.size(), file_);
    if (got < to.size() && std::ferror(file_)) fail(path_, ": cannot read: ", std::strerror(errno));
    return got;
  }

 private:
  std::string path_;
  std::FILE* file_;
};

/// The next `size` bytes of a source (anything with read(), as above), fewer where it ends. Memory grows with what has
/// come, to at most twice that: `size` may be a lie.
template <class Source>
[[nodiscard]] std::vector<std::byte> read_bytes(Source& source, std::size_t size) {
  std::vector<std::byte> bytes;
  for (std::size_t done = 0; done < size;) {
    std::size_t const left = size - done, growth = done > 65536 ? done : 65536;
    std::size_t const step = left < growth ? left : growth;
    bytes.reserve(done + step);  // resize() alone would double the capacity once more
    bytes.resize(done + step);
    std::size_t const got = source.read(std::span(bytes).subspan(done));
    done += got;
    bytes.resize(done);
    if (got < step) break;
  }
  return bytes;
}

/// A file that appears under its name, or replaces the one that is there, when commit() returns; otherwise nothing is
/// left of it. What exists and is no regular file (a pipe, /dev/stdout) is written as it is.
class OutputFile {
 public:
  /// Creates or overwrites a file; an Error names it if that fails.
  explicit OutputFile(std::string path) : path_(std::move(path)) {
    struct stat there;
    if (stat(path_.c_str(), &there) == 0 && (there.st_mode & S_IFMT) != S_IFREG) {
      file_ = std::fopen(path_.c_str(), "wb");
    } else {
      // Exclusive, since another process may be writing the same file.
      for (int attempt = 0; file_ == nullptr && attempt < 100; ++attempt) {
        temporary_ = message(path_, ".", attempt, ".tmp");
        file_ = std::fopen(temporary_.c_str(), "wbx");
        if (file_ == nullptr && errno != EEXIST) break;
      }
    }
    if (file_ == nullptr) fail(path_, ": cannot create: ", std::strerror(errno));
  }
  OutputFile(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;
  ~OutputFile() {
    if (file_ != nullptr) std::fclose(file_);
    if (!temporary_.empty()) std::remove(temporary_.c_str());
  }

  /// Appends bytes.
  void write(std::span<std::byte const> bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) give_up();
  }
  /// Call last: a full disk may show only here.
  void commit() {
    if (std::fclose(std::exchange(file_, nullptr)) != 0) give_up();
    if (!temporary_.empty() && std::rename(temporary_.c_str(), path_.c_str()) != 0) give_up();
    temporary_.clear();
  }

 private:
  [[noreturn]] void give_up() const { fail(path_, ": cannot write: ", std::strerror(errno)); }

  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
};

}  // namespace headmix
