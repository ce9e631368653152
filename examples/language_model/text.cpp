// SPDX-License-Identifier: MIT
// Files and windows of the text.

#include "text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>

#include "headmix/core/random.hpp"

#ifndef HEADMIX_LM_CXX_INCLUDE_DIRS
#define HEADMIX_LM_CXX_INCLUDE_DIRS ""
#endif
#ifndef HEADMIX_LM_SOURCE_DIR
#define HEADMIX_LM_SOURCE_DIR ""
#endif

namespace lm {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t largest = std::numeric_limits<Int>::max();  // positions are drawn as 32-bit numbers
constexpr std::size_t default_size = 4'000'000;
constexpr std::uint64_t batch_stream = 0x6261746368;  // "batch": unique among the streams of the program

[[noreturn]] void unreadable(std::string_view option, fs::path const& path, std::string const& why) {
  throw UsageError(std::string(option) + ": expected a readable file or folder, found " + in_quotes(path.string()) +
                   ": " + why);
}

Bytes read_file(std::string_view option, fs::path const& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::fopen(path.string().c_str(), "rb"), &std::fclose);
  if (!file) unreadable(option, path, std::strerror(errno));
  Bytes bytes;
  std::size_t size = 0, got = 0;
  do {
    bytes.resize(std::max<std::size_t>(2 * size, 1 << 16));
    errno = 0;
    got = std::fread(bytes.data() + size, 1, bytes.size() - size, file.get());
    size += got;
    if (size > largest) unreadable(option, path, "larger than 2 GiB");
  } while (got != 0);
  if (std::ferror(file.get()) != 0) unreadable(option, path, std::strerror(errno));
  bytes.resize(size);
  return bytes;
}

bool hidden(fs::path const& path) { return path.filename().string().starts_with('.'); }

std::vector<fs::path> files_below(std::string_view option, fs::path const& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    if (hidden(i->path()))
      i.disable_recursion_pending();
    else if (std::error_code gone; i->is_regular_file(gone))
      files.push_back(i->path());
  }
  if (error) unreadable(option, folder, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

/// Appends text files, at most `limit` bytes in all; returns the number of files.
std::size_t append_files(std::string_view option, std::vector<fs::path> const& files, std::size_t limit, Bytes& bytes) {
  std::size_t count = 0;
  for (fs::path const& path : files) {
    if (bytes.size() == limit) break;
    Bytes const file = read_file(option, path);
    if (file.empty() || std::memchr(file.data(), 0, file.size()) != nullptr) continue;
    std::size_t const n = std::min(file.size(), limit - bytes.size());
    bytes.insert(bytes.end(), file.data(), file.data() + n);
    ++count;
  }
  return count;
}

/// The headers in the first folder of the compiler that contains <vector>: those in it and in bits/.
std::vector<fs::path> standard_headers(std::string_view folders, fs::path& folder) {
  while (!folders.empty()) {
    std::size_t const n = std::min(folders.find_first_of("|;"), folders.size());
    folder = fs::path(folders.substr(0, n));
    folders.remove_prefix(std::min(n + 1, folders.size()));
    std::error_code error;
    if (!fs::is_regular_file(folder / "vector", error)) continue;
    std::vector<fs::path> files;
    for (fs::path const& f : {folder, folder / "bits"})
      for (fs::directory_iterator i(f, error), end; !error && i != end; i.increment(error))
        if (std::error_code gone; i->is_regular_file(gone) && !hidden(i->path())) files.push_back(i->path());
    std::sort(files.begin(), files.end());
    return files;
  }
  return {};
}

Text default_text() {
  Text text;
  fs::path folder;
  std::size_t count =
      append_files("--text", standard_headers(HEADMIX_LM_CXX_INCLUDE_DIRS, folder), default_size, text.bytes);
  text.source = "C++ standard library headers in ";
  if (count == 0) {
    folder = fs::path(HEADMIX_LM_SOURCE_DIR) / "include";
    std::error_code error;
    if (!fs::is_directory(folder, error))
      throw UsageError("--text: expected a file or folder, since neither C++ standard library headers nor " +
                       in_quotes(folder.string()) + " were found");
    count = append_files("--text", files_below("--text", folder), default_size, text.bytes);
    text.source = "headmix's own headers in ";
  }
  text.source += folder.string() + " (" + std::to_string(count) + " files)";
  return text;
}

Text named_text(std::string_view option, std::string const& path) {
  Text text;
  std::error_code error;
  bool const folder = fs::is_directory(path, error);
  text.source = path;
  if (!folder) {
    text.bytes = read_file(option, path);
    return text;
  }
  std::size_t const count = append_files(option, files_below(option, path), largest + 1, text.bytes);
  if (text.bytes.size() > largest) unreadable(option, path, "more than 2 GiB of text");
  if (count == 0) unreadable(option, path, "no text files in it");
  text.source += " (" + std::to_string(count) + " files)";
  return text;
}

}  // namespace

Text load_text(Options const& options) {
  Text text = options.text.empty() ? default_text() : named_text("--text", options.text);
  bool const one = options.validation_text.empty();
  if (one) {
    text.train = text.size() / 10 * 9 + text.size() % 10 * 9 / 10;
  } else {
    text.train = text.size();
    Text const validation = named_text("--validation-text", options.validation_text);
    if (text.bytes.size() + validation.bytes.size() > largest)
      unreadable("--validation-text", options.validation_text, "more than 2 GiB with --text");
    text.bytes.insert(text.bytes.end(), validation.bytes.begin(), validation.bytes.end());
    text.source += ", validation on " + validation.source;
  }
  Index const shorter = std::min(text.train, text.size() - text.train);
  if (shorter < options.context + 1)
    throw UsageError("--text: expected at least " + std::to_string(options.context + 1) +
                     " bytes (--context + 1) in each of " +
                     (one ? "the training 90 % and the validation 10 %" : "--text and --validation-text") + ", found " +
                     std::to_string(text.train) + " and " + std::to_string(text.size() - text.train) + " in " +
                     in_quotes(text.source));
  return text;
}

void copy_window(Text const& text, Window window, std::span<Int> inputs, std::span<Int> targets) {
  std::uint8_t const* const first = text.bytes.data() + window.begin;
  std::copy_n(first, window.length, inputs.begin());
  std::copy_n(first + 1, window.length, targets.begin());
}

void sample_batch(Text const& text, Index context, std::uint64_t seed, Index step, std::span<Int> inputs,
                  std::span<Int> targets) {
  headmix::Random const random(seed, batch_stream);
  auto const n = static_cast<std::size_t>(context);
  std::size_t const batch = inputs.size() / n;
  auto const places = static_cast<std::uint64_t>(text.train - context);
  for (std::size_t row = 0; row < batch; ++row) {
    std::uint64_t const i = static_cast<std::uint64_t>(step) * batch + row;
    copy_window(text, {static_cast<Index>(random.below(i, places)), context}, inputs.subspan(row * n, n),
                targets.subspan(row * n, n));
  }
}

std::vector<Window> validation_windows(Text const& text, Index context) {
  std::vector<Window> windows;
  Index const end = text.size() - 1;  // the last byte is only a target
  for (Index begin = text.train; begin < end; begin += context)
    windows.push_back({begin, std::min(context, end - begin)});
  return windows;
}

std::size_t utf8_length(std::string_view s) {
  auto const byte = [s](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  unsigned const lead = byte(0);
  if (lead < 0x80) return s.empty() ? 0 : 1;
  std::size_t const n = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates, and numbers above U+10FFFF.
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  return n;
}

std::string printable(std::span<Int const> bytes) {
  std::string raw, s;
  for (Int const b : bytes) raw += static_cast<char>(b);
  for (std::string_view rest = raw; !rest.empty();) {
    std::size_t const n = utf8_length(rest);
    auto const c = static_cast<unsigned char>(rest[0]);
    bool const control = n == 1 && c != '\n' && c != '\t' && (c < ' ' || c == 0x7F);
    bool const second_control = n == 2 && c == 0xC2 && static_cast<unsigned char>(rest[1]) < 0xA0;
    if (n == 0 || control || second_control) {
      constexpr std::string_view digits = "0123456789abcdef";
      s += "\\x";
      s += digits[c / 16];
      s += digits[c % 16];
      rest.remove_prefix(1);
    } else {
      s += rest.substr(0, n);
      rest.remove_prefix(n);
    }
  }
  return s;
}

}  // namespace lm
