#pragma once
// SPDX-License-Identifier: MIT
// The alignment that tensor-core kernels need, and notices on stderr, once for each kernel, that a 16-bit kernel runs
// without tensor cores, many times slower.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <string_view>
#include <vector>

#include "headmix/core/config.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// The kernels that have printed a notice in this process.
class plain_notices {
 public:
  static plain_notices& instance() {
    static plain_notices all;
    return all;
  }
  /// Prints the notice of a kernel with the reason, unless it was printed before.
  void print_once(char const* kernel, char const* why) {
    std::lock_guard const lock(mutex_);
    if (has(kernel)) return;
    printed_.emplace_back(kernel);
    std::fprintf(stderr, "headmix: %s in 16 bits runs without tensor cores, many times slower: %s\n", kernel, why);
  }
  [[nodiscard]] bool printed(std::string_view kernel) {
    std::lock_guard const lock(mutex_);
    return has(kernel);
  }

 private:
  [[nodiscard]] bool has(std::string_view kernel) const {
    return std::find(printed_.begin(), printed_.end(), kernel) != printed_.end();
  }
  std::mutex mutex_;
  std::vector<std::string_view> printed_;  // names are literals
};
inline void notify_plain_kernel(char const* kernel, char const* why) {
  plain_notices::instance().print_once(kernel, why);
}

/// True if 16-byte chunks of the rows can be copied, and a row's columns and stride are ints.
template <class T>
[[nodiscard]] bool rows_are_aligned(view<T> const& a) {
  constexpr Index chunk = 16 / sizeof(T), most = (std::numeric_limits<int>::max)() / 2;
  return a.col_stride == 1 && a.cols % chunk == 0 && a.row_stride % chunk == 0 && a.cols <= most &&
         (a.row_stride < 0 ? -a.row_stride : a.row_stride) <= most && (a.count == 1 || a.stack_stride % chunk == 0) &&
         reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0;
}
/// The reason for products whose rows are not.
inline constexpr char const* rows_not_aligned =
    "rows do not all begin at multiples of 16 bytes, or an operand is several matrices";

}  // namespace headmix::cuda_kernels
