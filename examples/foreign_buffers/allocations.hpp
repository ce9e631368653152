#pragma once
// SPDX-License-Identifier: MIT

/// The number of allocations of this program so far, on all threads.
long allocations();
