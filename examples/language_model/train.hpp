#pragma once
// SPDX-License-Identifier: MIT
// The job itself: build the model, train it, validate, sample, report.

#include "options.hpp"
#include "text.hpp"

namespace lm {

/// Returns the exit status.
int run(Options const& options, Text const& text);

}  // namespace lm
