#pragma once
// SPDX-License-Identifier: MIT
// Requests of this program to glibc's malloc, by operator new, Eigen and C libraries. 0 with another C library.

namespace bench {

/// The number of allocations so far, on all threads.
[[nodiscard]] long allocations();

/// Bytes allocated and not freed.
[[nodiscard]] double bytes_in_use();

}  // namespace bench
