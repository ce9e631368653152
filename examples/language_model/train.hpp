#pragma once
// SPDX-License-Identifier: MIT
// The whole job: builds the model, trains, validates, samples, reports. One file per backend; sublayers are in other
// files, to compile in parallel and only for available backends.

#include <functional>

#include "options.hpp"
#include "text.hpp"

namespace lm {

/// All functions return the exit status.
int train_cpu(Options const& options, Text const& text);
int train_cuda(Options const& options, Text const& text);
int train_emulated(Options const& options, Text const& text);
/// The whole program in each process started by mpirun: body() reads options and trains. Prints an error once.
int in_processes(std::function<int()> const& body);
/// The training inside in_processes().
int train_parallel(Options const& options);

}  // namespace lm
