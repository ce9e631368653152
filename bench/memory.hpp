#pragma once
// SPDX-License-Identifier: MIT
// What this program asks glibc's malloc for: operator new, Eigen and C libraries alike. 0 with another C library.

namespace bench {

/// How often it has asked for memory so far, on all threads.
[[nodiscard]] long allocations();

/// Bytes that it has and did not give back.
[[nodiscard]] double bytes_in_use();

}  // namespace bench
