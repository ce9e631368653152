#pragma once
// SPDX-License-Identifier: MIT
// Progress of the training on stderr: one redrawn line on a terminal, else a line every 5 %.

#include <chrono>
#include <cstddef>

#include "options.hpp"

namespace lm {

class Progress {
 public:
  /// Starts the clock.
  Progress(ProgressMode mode, Index steps, Index tokens_per_step);
  ~Progress() { finish(); }
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;

  /// `done` steps are done, the last one with this loss.
  void update(Index done, double loss);
  /// Excludes other work (a validation) from the training time and from tokens_per_second.
  void pause();
  void resume();
  /// The times of the updates so far, in seconds.
  struct Times {
    double trained = 0, first = 0;
  };
  [[nodiscard]] Times times() const { return {trained_, first_}; }
  /// Continues after `done` steps with these times. Starts the clock.
  void continue_after(Index done, Times times);
  /// Ends the redrawn line, so that other output can follow; the next update begins a new one.
  void finish();

  /// Over all updates so far, without pauses, and without the first if there are more, since it allocates memory.
  [[nodiscard]] double tokens_per_second() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Style { none, redraw, lines };

  Style style_;
  Index steps_, tokens_per_step_, done_ = 0;
  double trained_ = 0, first_ = 0;  // seconds at the last update and at the first, without pauses
  Clock::time_point start_ = Clock::now(), paused_at_{}, drawn_at_{};
  std::size_t drawn_ = 0;  // characters on the redrawn line
};

}  // namespace lm
