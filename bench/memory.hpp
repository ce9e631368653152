#pragma once
// SPDX-License-Identifier: MIT
// What this program asks malloc for, of glibc: operator new, Eigen and C libraries alike.

namespace bench {

/// How often it has asked for memory so far, on all threads.
[[nodiscard]] long allocations();

/// Bytes that it has and did not give back.
[[nodiscard]] double bytes_in_use();

}  // namespace bench
