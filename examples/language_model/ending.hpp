#pragma once
// SPDX-License-Identifier: MIT
// The end of a training: after its last step, by a signal, or by a loss or an error after which it cannot continue.

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

/// From now on the first SIGINT, SIGTERM or SIGHUP is recorded for check_signal; the second one ends the program.
void note_signals();
/// Ends the training if a signal was recorded.
void check_signal();
/// The recorded signal, or 0.
[[nodiscard]] int noted_signal();
/// Ends the training as if this signal had come.
[[noreturn]] void end_by_signal(int signal);
/// Ends the training if the loss is not finite, as all later losses would be. `what` is the loss of `step`.
void check_loss(double loss, char const* what, Index step);

/// Runs a training of `steps` steps, which counts finished steps in `done`, and calls check_signal and check_loss.
/// Other exceptions before the first step is done are left to the caller: there are no results yet.
Ending run_training(Index const& done, Index steps, std::function<void()> const& training);

}  // namespace lm
