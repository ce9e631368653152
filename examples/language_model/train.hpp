#pragma once
// SPDX-License-Identifier: MIT
// The job itself: build the model, train it, validate, sample, report. One file per backend and kind of attention, so
// that they compile in parallel and only where the backend is; feed-forward networks have files of their own.

#include "options.hpp"
#include "text.hpp"

namespace lm {

/// All return the exit status.
int train_dense(Options const& options, Text const& text);
int train_moa(Options const& options, Text const& text);
int train_moh(Options const& options, Text const& text);
int train_mae(Options const& options, Text const& text);
int train_dense_cuda(Options const& options, Text const& text);
int train_moa_cuda(Options const& options, Text const& text);
int train_moh_cuda(Options const& options, Text const& text);
int train_mae_cuda(Options const& options, Text const& text);
int train_moa_emulated(Options const& options, Text const& text);
int train_moh_emulated(Options const& options, Text const& text);
int train_mae_emulated(Options const& options, Text const& text);

}  // namespace lm
