// SPDX-License-Identifier: MIT
// Signals and losses that end a training.

#include "ending.hpp"

#include <atomic>
#include <cmath>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <utility>

namespace lm {
namespace {

constexpr std::pair<int, char const*> signals[] = {
    {SIGINT, "SIGINT"},
    {SIGTERM, "SIGTERM"},
#ifdef SIGHUP
    {SIGHUP, "SIGHUP"},
#endif
};

std::atomic<int> noted = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // required in a signal handler

extern "C" void note_signal(int signal) {
  noted = signal;
  for (auto const& s : signals) std::signal(s.first, SIG_DFL);
}

struct Signalled : std::exception {};
struct NotFinite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

void note_signals() {
  for (auto const& s : signals) {
    // Signals are ignored in a shell's background jobs and under nohup.
    if (std::signal(s.first, note_signal) == SIG_IGN) std::signal(s.first, SIG_IGN);
  }
}

void check_signal() {
  if (noted != 0) throw Signalled();
}

int noted_signal() { return noted; }

void end_by_signal(int signal) {
  noted = signal;
  throw Signalled();
}

void check_loss(double loss, char const* what, Index step) {
  if (!std::isfinite(loss)) {
    throw NotFinite(std::string(what) + " of step " + std::to_string(step) + " is " +
                    (std::isnan(loss) ? "not a number" : "infinite") +
                    ": the training ends here; a smaller --lr or a longer --warmup may help");
  }
}

Ending run_training(Index const& done, Index steps, std::function<void()> const& training) {
  auto const so_far = [&] { return " after " + std::to_string(done) + " of " + std::to_string(steps) + " steps"; };
  try {
    training();
    return {};
  } catch (Signalled const&) {
    int const signal = noted;
    std::string text;
    for (auto const& s : signals) {
      if (s.first == signal) text = s.second;
    }
    return {program::signalled + signal, "signal", text + so_far() + "; another one ends the program at once"};
  } catch (NotFinite const& e) {
    return {program::not_finite, "loss_not_finite", e.what()};
  } catch (std::exception const& e) {
    if (done == 0) throw;
    return {program::failed, "error", program::reason(e) + so_far()};
  }
}

}  // namespace lm
