#pragma once
// SPDX-License-Identifier: MIT
// Files with errors that name the path. A file is read in pieces, so no claim about its size is trusted, and is written
// under a temporary name first, so no reader sees a partial file.

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#else
#include <filesystem>
#endif

namespace headmix {

namespace detail {

/// The text of an errno value; unlike std::strerror, thread-safe.
[[nodiscard]] inline std::string reason(int error) { return std::generic_category().message(error); }

#if defined(__unix__) || defined(__APPLE__)
/// True for a path to a folder, and to a file of another kind.
[[nodiscard]] inline bool is_folder(std::string const& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}
[[nodiscard]] inline bool is_file(std::string const& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}
/// The file that an output path refers to. Every function that can fail leaves its reason in errno.
class destination {
 public:
  explicit destination(std::string path) : path_(std::move(path)) {
    exists_ = stat(path_.c_str(), &status_) == 0;
    if (!exists_ && errno != ENOENT) error_ = errno;
    std::array<char, 4096> text;
    for (int links = 0; links < 40 && !is_descriptor(); ++links) {
      auto const n = readlink(path_.c_str(), text.data(), text.size());
      if (n < 0) break;
      std::string_view const link(text.data(), static_cast<std::size_t>(n));
      path_ = message(link.starts_with('/') ? "" : folder(), link);
    }
    in_place_ = exists_ && (!S_ISREG(status_.st_mode) || is_descriptor());
    if (exists_ && !in_place_ && faccessat(AT_FDCWD, path_.c_str(), W_OK, AT_EACCESS) != 0) error_ = errno;
  }

  /// The path with links resolved; the file need not exist.
  [[nodiscard]] std::string const& path() const { return path_; }
  /// The folder of the path, with a trailing slash.
  [[nodiscard]] std::string folder() const { return path_.substr(0, path_.rfind('/') + 1); }
  /// True if the file cannot be replaced: a pipe, a device, an open file.
  [[nodiscard]] bool in_place() const { return in_place_; }
  /// The errno value that prevents writing, or 0.
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] static int process() { return getpid(); }

  /// Gives the file the mode, owner and group of the file that it will replace, as far as permitted.
  void dress(std::FILE* file) const {
    if (!exists_ || in_place_) return;
    // If owner and group cannot be kept, the set-uid and set-gid bits are cleared.
    bool const owned = fchown(fileno(file), status_.st_uid, status_.st_gid) == 0;
    if (fchmod(fileno(file), status_.st_mode & (owned ? 07777 : 0777)) != 0) return;  // a file system without modes
  }
  /// Flushes the file's content to disk.
  [[nodiscard]] bool sync(std::FILE* file) const { return in_place_ || fsync(fileno(file)) == 0; }
  /// Renames a file of the same folder over this one, and flushes the folder.
  [[nodiscard]] bool replace_by(std::string const& file) const {
    std::string const folder_path = folder();  // no exception after the rename: allocate before
    if (std::rename(file.c_str(), path_.c_str()) != 0) return false;
    // Some folders cannot be opened or flushed, which is no reason to undo the rename.
    int const fd = open(folder_path.empty() ? "." : folder_path.c_str(), O_RDONLY | O_CLOEXEC);
    bool const synced = fd < 0 || fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
    int const error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return synced;
  }

 private:
  /// A name of an open descriptor: its link need not be a path, and its owner would not see a replacement.
  [[nodiscard]] bool is_descriptor() const { return path_.starts_with("/proc/") || path_.starts_with("/dev/fd/"); }

  std::string path_;
  struct stat status_ {};
  bool exists_ = false, in_place_ = false;
  int error_ = 0;
};
#else
[[nodiscard]] inline bool is_folder(std::string const& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}
[[nodiscard]] inline bool is_file(std::string const& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && !is_folder(path);
}
/// Destination without POSIX: the new file replaces any file of its name.
class destination {
 public:
  explicit destination(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] std::string folder() const { return path_.substr(0, path_.find_last_of("/\\:") + 1); }
  [[nodiscard]] static bool in_place() { return false; }
  [[nodiscard]] static int error() { return 0; }
  [[nodiscard]] static int process() { return 0; }
  static void dress(std::FILE*) {}
  [[nodiscard]] static bool sync(std::FILE*) { return true; }
  [[nodiscard]] bool replace_by(std::string const& file) const {
    std::error_code error;
    std::filesystem::rename(file, path_, error);  // unlike std::rename, this replaces a file on every system
    errno = error.default_error_condition().value();
    return !error;
  }

 private:
  std::string path_;
};
#endif

}  // namespace detail

/// A file, pipe or device that is read sequentially.
class InputFile {
 public:
  /// Opens a file; an Error names it if that fails.
  explicit InputFile(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rb")) {
    if (file_ == nullptr) fail(path_, ": cannot open: ", detail::reason(errno));
  }
  InputFile(InputFile const&) = delete;
  InputFile& operator=(InputFile const&) = delete;
  ~InputFile() { std::fclose(file_); }

  /// Fills `to` and returns the number of bytes read, which is smaller only at the end of the file.
  std::size_t read(std::span<std::byte> to) {
    std::size_t const got = std::fread(to.data(), 1, to.size(), file_);
    if (got < to.size() && std::ferror(file_)) fail(path_, ": cannot read: ", detail::reason(errno));
    return got;
  }
#if defined(__unix__) || defined(__APPLE__)
  /// The descriptor of the open file.
  [[nodiscard]] int descriptor() const { return fileno(file_); }
#endif

 private:
  std::string path_;
  std::FILE* file_;
};

/// The next `size` bytes of a source (any class with read(), as above), fewer at its end. Memory grows with the bytes
/// read, to at most twice as many: `size` is not trusted.
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

/// The bytes of a file without a copy: pages of it are read when they are used, and may be dropped again, so a file may
/// be larger than memory. What is no regular file, and any file on systems without mmap, is read instead. The file must
/// not be made shorter while it is mapped.
class MappedFile {
 public:
  /// Opens and maps a file; an Error names it if that fails.
  explicit MappedFile(std::string const& path) {
    InputFile file(path);
#if defined(__unix__) || defined(__APPLE__)
    struct stat status = {};
    if (fstat(file.descriptor(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      auto const size = static_cast<std::size_t>(status.st_size);
      void* const at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
      if (at == MAP_FAILED) fail(path, ": cannot map ", size, " bytes: ", detail::reason(errno));
      mapped_ = {static_cast<std::byte const*>(at), size};
      return;
    }
#endif
    read_ = read_bytes(file, (std::numeric_limits<std::size_t>::max)());
  }
  /// Moves the mapping; its bytes stay where they are.
  MappedFile(MappedFile&& other) noexcept : mapped_(std::exchange(other.mapped_, {})), read_(std::move(other.read_)) {}
  /// Exchanges the mappings.
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(mapped_, other.mapped_), std::swap(read_, other.read_);
    return *this;
  }
  ~MappedFile() {
#if defined(__unix__) || defined(__APPLE__)
    if (!mapped_.empty()) munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
#endif
  }
  /// The content.
  [[nodiscard]] std::span<std::byte const> bytes() const { return mapped_.empty() ? std::span(read_) : mapped_; }

 private:
  std::span<std::byte const> mapped_;
  std::vector<std::byte> read_;
};

/// A file that is created or replaced atomically by commit(), which returns when it is on disk, as far as the system
/// can tell. Without commit() nothing is left of it, and an existing file stays whole, even if the process is killed;
/// then a harmless file headmix-*.tmp may stay beside it. The new file has the mode of the old one, and its owner and
/// group as far as the process may set them. If the path is a link, its target is replaced, and the link stays.
/// Existing non-regular files (a pipe, /dev/null) and open ones (/dev/stdout) are written directly. Without POSIX,
/// links are replaced, and nothing is flushed to disk.
///
/// Every failure is an Error with the path and the reason. An object is for one thread at a time; several may write to
/// the same path concurrently: one of them wins.
class OutputFile {
 public:
  /// Creates the temporary file that commit() renames.
  explicit OutputFile(std::string path) : path_(std::move(path)), to_(path_) {
    static std::atomic<unsigned long> count = 0;
    errno = to_.error();
    if (errno == 0 && to_.in_place()) {
      file_ = std::fopen(to_.path().c_str(), "ab");
    } else if (errno == 0) {
      // Exclusive creation: an existing temporary file of another process is not touched.
      do {
        temporary_ = message(to_.folder(), "headmix-", to_.process(), "-", ++count, ".tmp");
        file_ = std::fopen(temporary_.c_str(), "wbx");
      } while (file_ == nullptr && errno == EEXIST);
    }
    if (file_ == nullptr) fail(path_, ": cannot create: ", detail::reason(errno));
    to_.dress(file_);
  }
  OutputFile(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;
  ~OutputFile() { discard(); }

  /// Appends bytes.
  void write(std::span<std::byte const> bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) give_up();
  }
  /// Must be called last: a full disk may be reported only here.
  void commit() {
    if (std::fflush(file_) != 0 || !to_.sync(file_)) give_up();
    if (std::fclose(std::exchange(file_, nullptr)) != 0) give_up();
    if (!temporary_.empty() && !to_.replace_by(temporary_)) give_up();
    temporary_.clear();
  }

 private:
  void discard() {
    if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
    if (!temporary_.empty()) std::remove(temporary_.c_str());
    temporary_.clear();
  }
  [[noreturn]] void give_up() {
    int const error = errno;
    discard();  // also before fail(), for builds whose errors end the process
    fail(path_, ": cannot write: ", detail::reason(error));
  }

  std::string path_, temporary_;
  detail::destination to_;
  std::FILE* file_ = nullptr;
};

/// Writes a whole file through OutputFile.
inline void write_file(std::string path, std::string_view content) {
  OutputFile file(std::move(path));
  file.write(std::as_bytes(std::span(content.data(), content.size())));
  file.commit();
}

}  // namespace headmix
