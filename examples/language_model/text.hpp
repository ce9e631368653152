#pragma once
// SPDX-License-Identifier: MIT
// The text: loading, the validation part (a text of its own, or the last tenth), random training windows, the windows
// of the validation part. A token is a byte. An input window of n bytes has as its targets the same bytes shifted by
// one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headmix/core/config.hpp"
#include "options.hpp"

namespace lm {

using headmix::Int;

struct Text {
  std::vector<std::uint8_t> bytes;
  Index train = 0;     ///< bytes [0, train) train, the others validate
  std::string source;  ///< where it came from, for the log

  [[nodiscard]] Index size() const { return static_cast<Index>(bytes.size()); }
};

/// Reads --text: a file as it is; of a folder all files below it, in the order of their paths, without hidden ones and
/// without binary ones (a zero byte). Without --text: the C++ standard library headers of the compiler that built the
/// program, else headmix's own. --validation-text is read as --text is and follows it; without it the last tenth
/// validates. Throws UsageError if that cannot be read or is too short for --context.
[[nodiscard]] Text load_text(Options const& options);

/// Fills `inputs` and `targets` (both batch x context, row-major) with random windows of the training part. Row b of
/// step s depends on (seed, s, b) only. Does not allocate.
void sample_batch(Text const& text, Index context, std::uint64_t seed, Index step, std::span<Int> inputs,
                  std::span<Int> targets);

/// Predictions of bytes [begin + 1, begin + length] from bytes [begin, begin + length) of the text.
struct Window {
  Index begin, length;
};

/// Windows that follow each other and together predict every byte of the validation part but its first; all have
/// `context` bytes, only the last may be shorter.
[[nodiscard]] std::vector<Window> validation_windows(Text const& text, Index context);

/// Writes the window's `length` inputs and targets. Does not allocate.
void copy_window(Text const& text, Window window, std::span<Int> inputs, std::span<Int> targets);

/// Bytes as text for a terminal: line breaks, tabs and valid UTF-8 stay, other bytes become \xHH.
[[nodiscard]] std::string printable(std::span<Int const> bytes);

/// The length of the UTF-8 character that `s` begins with, 0 if there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view s);

}  // namespace lm
