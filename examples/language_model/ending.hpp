#pragma once
// SPDX-License-Identifier: MIT
// How a training ends: after its last step, by a signal, or by a loss or an error that leaves nothing to go on with.

#include <functional>
#include <string>

#include "../program.hpp"
#include "options.hpp"

namespace lm {

struct Ending {
  int status = program::done;
  std::string name;     ///< in the results; empty after the last step
  std::string message;  ///< for stderr
};

/// From here on the first SIGINT, SIGTERM or SIGHUP is only noted, for check_signal; the next one ends the program.
void note_signals();
/// Ends the training if a signal was noted.
void check_signal();
/// The signal that was noted, or 0.
[[nodiscard]] int noted_signal();
/// Ends the training as if this signal had come.
[[noreturn]] void end_by_signal(int signal);
/// Ends the training if the loss is no finite number: no later step would make it one. `what` is the loss of `step`.
void check_loss(double loss, char const* what, Index step);

/// Runs a training, which appends to `done`, the steps that are done, of `steps`, and calls check_signal and
/// check_loss. What else is thrown before the first step is done is left to the caller: there are no results yet.
Ending run_training(Index const& done, Index steps, std::function<void()> const& training);

}  // namespace lm
