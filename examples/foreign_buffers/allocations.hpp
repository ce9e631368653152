#pragma once
// SPDX-License-Identifier: MIT

/// How often this program has allocated memory so far, on all threads.
long allocations();
