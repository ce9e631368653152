#pragma once
// SPDX-License-Identifier: MIT
// The job itself: build the model, train it, validate, sample, report. One file per backend; sublayers have files of
// their own, so that they compile in parallel and only where the backend is.

#include <functional>

#include "options.hpp"
#include "text.hpp"

namespace lm {

/// All return the exit status.
int train_cpu(Options const& options, Text const& text);
int train_cuda(Options const& options, Text const& text);
int train_emulated(Options const& options, Text const& text);
/// The whole program in each of the processes that mpirun has started: body() reads options and trains. Says what went
/// wrong, once.
int in_processes(std::function<int()> const& body);
/// Inside of it.
int train_parallel(Options const& options);

}  // namespace lm
