// SPDX-License-Identifier: MIT
// Drawing of the progress line.

#include "progress.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

namespace lm {
namespace {

bool stderr_is_terminal() {
#ifdef _WIN32
  return _isatty(_fileno(stderr)) != 0;
#else
  return isatty(STDERR_FILENO) != 0;
#endif
}

/// 1:02:03, or 2:03 below an hour.
std::string clock_text(double seconds) {
  auto const s = static_cast<long long>(std::ceil(std::min(seconds, 3.6e8)));
  std::array<char, 48> b;
  if (s >= 3600)
    std::snprintf(b.data(), b.size(), "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else
    std::snprintf(b.data(), b.size(), "%lld:%02lld", s / 60, s % 60);
  return b.data();
}

}  // namespace

Progress::Progress(ProgressMode mode, Index steps, Index tokens_per_step)
    : style_(mode == ProgressMode::off                          ? Style::none
             : mode == ProgressMode::on || stderr_is_terminal() ? Style::redraw
                                                                : Style::lines),
      steps_(steps),
      tokens_per_step_(tokens_per_step) {}

double Progress::tokens_per_second() const {
  bool const more = done_ > 1;
  double const seconds = more ? trained_ - first_ : trained_;
  return seconds > 0 ? static_cast<double>((more ? done_ - 1 : done_) * tokens_per_step_) / seconds : 0;
}

void Progress::pause() { paused_at_ = Clock::now(); }

void Progress::resume() { start_ += Clock::now() - paused_at_; }

void Progress::continue_after(Index done, Times times) {
  done_ = done;
  trained_ = times.trained;
  first_ = times.first;
  start_ = Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(trained_));
}

void Progress::update(Index done, double loss) {
  auto const now = Clock::now();
  trained_ = std::chrono::duration<double>(now - start_).count();
  if (done_ == 0) first_ = trained_;
  bool const fifth = done * 20 / steps_ != done_ * 20 / steps_;
  done_ = done;
  bool const due = style_ == Style::redraw ? done == steps_ || now - drawn_at_ >= std::chrono::milliseconds(100)
                                           : style_ == Style::lines && fifth;
  if (!due) return;
  drawn_at_ = now;
  double const left = trained_ / static_cast<double>(done) * static_cast<double>(steps_ - done);
  std::array<char, 160> b;
  std::snprintf(b.data(), b.size(), "step %lld/%lld (%3.0f %%)  loss %.4f  %.0f tokens/s  %s left",
                static_cast<long long>(done), static_cast<long long>(steps_),
                100.0 * static_cast<double>(done) / static_cast<double>(steps_), loss, tokens_per_second(),
                clock_text(left).c_str());
  std::string line = b.data();
  if (style_ == Style::lines) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  std::size_t const length = line.size();
  line.resize(std::max(length, drawn_), ' ');  // covers the rest of a longer line; works on every terminal
  drawn_ = length;
  std::fprintf(stderr, "\r%s", line.c_str());
  std::fflush(stderr);
}

void Progress::finish() {
  if (drawn_ == 0) return;
  std::fputc('\n', stderr);
  drawn_ = 0;
}

}  // namespace lm
