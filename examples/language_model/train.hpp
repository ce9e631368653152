#pragma once
// SPDX-License-Identifier: MIT
// The job itself: build the model, train it, validate, sample, report.

#include "options.hpp"
#include "text.hpp"

namespace lm {

/// Both return the exit status.
int train_dense(Options const& options, Text const& text);
int train_moa(Options const& options, Text const& text);

}  // namespace lm
