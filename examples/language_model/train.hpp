#pragma once
// SPDX-License-Identifier: MIT
// The job itself: build the model, train it, validate, sample, report. One file per backend; sublayers have files of
// their own, so that they compile in parallel and only where the backend is.

#include "options.hpp"
#include "text.hpp"

namespace lm {

/// All return the exit status.
int train_cpu(Options const& options, Text const& text);
int train_cuda(Options const& options, Text const& text);
int train_emulated(Options const& options, Text const& text);

}  // namespace lm
