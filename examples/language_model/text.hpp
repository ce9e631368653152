#pragma once
// SPDX-License-Identifier: MIT
// The text: loading, the validation part (a separate text, or the last tenth), random training windows, and windows of
// the validation part. A token is a byte. The targets of an input window of n bytes are these bytes shifted by one.

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
  Index train = 0;     ///< bytes [0, train) are for training, the others for validation
  std::string source;  ///< origin, for the log

  [[nodiscard]] Index size() const { return static_cast<Index>(bytes.size()); }
};

/// Reads --text: a file, or of a folder all files below it in the order of their paths, without hidden and binary ones
/// (with a zero byte). Without --text: the C++ standard library headers of the compiler that built the program, else
/// headmix's own. --validation-text is read likewise and appended; without it the last tenth is for validation. Throws
/// UsageError if it cannot be read or is too short for --context.
[[nodiscard]] Text load_text(Options const& options);

/// Fills `inputs` and `targets` (both batch x context, row-major) with random windows of the training part. Row b of
/// step s depends on (seed, s, b) only. Does not allocate.
void sample_batch(Text const& text, Index context, std::uint64_t seed, Index step, std::span<Int> inputs,
                  std::span<Int> targets);

/// Predictions of bytes [begin + 1, begin + length] from bytes [begin, begin + length) of the text.
struct Window {
  Index begin, length;
};

/// Consecutive windows that together predict every byte of the validation part except the first; all have `context`
/// bytes, the last one possibly fewer.
[[nodiscard]] std::vector<Window> validation_windows(Text const& text, Index context);

/// Writes the window's `length` inputs and targets. Does not allocate.
void copy_window(Text const& text, Window window, std::span<Int> inputs, std::span<Int> targets);

/// Bytes as text for a terminal: line breaks, tabs and valid UTF-8 stay, other bytes become \xHH.
[[nodiscard]] std::string printable(std::span<Int const> bytes);

/// The length of the UTF-8 character at the beginning of `s`, 0 if there is none.
[[nodiscard]] std::size_t utf8_length(std::string_view s);

}  // namespace lm
