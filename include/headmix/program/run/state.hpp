#pragma once
// SPDX-License-Identifier: MIT
// How far a program has come: the only flags there are about what may run.

#include <cstddef>

namespace headmix {

/// Each stage needs the one before it. Only a step that has completed advances; one that fails leaves a program before
/// it, so that trying again meets the same error and nothing runs on what an earlier batch has left.
enum class stage {
  bound,          ///< leaves and sizes may be bound; nothing of them is checked yet
  planned,        ///< everything that extents decide is checked and laid out: workspace_bytes()
  placed,         ///< values lie in the workspace
  forward_done,   ///< the roots can be read, and backward() may run
  backward_done,  ///< gradients are there; backward() may run again
};

namespace detail {

class State {
 public:
  [[nodiscard]] stage at() const { return at_; }
  [[nodiscard]] bool has_run() const { return at_ >= stage::forward_done; }
  /// Why backward() may not run over the forward pass that there is; null where it may.
  [[nodiscard]] char const* bar() const { return bar_; }
  /// Why there is no forward pass to read or to go back from; about leaf `leaf()` unless that is `no_leaf`.
  [[nodiscard]] char const* reason() const { return reason_; }
  static constexpr std::size_t no_leaf = static_cast<std::size_t>(-1);
  [[nodiscard]] std::size_t leaf() const { return leaf_; }

  /// A step has completed.
  void reach(stage s) { at_ = s; }
  /// The values of the forward pass stay, but what they were made with has gone.
  void bar_backward(char const* reason) {
    if (has_run()) bar_ = reason;
  }
  /// What came after `s` is not valid any more.
  void fall_back(stage s, char const* reason, std::size_t leaf = no_leaf) {
    if (has_run() && s < stage::forward_done) reason_ = reason, leaf_ = leaf;
    if (at_ > s) at_ = s;
  }
  /// A forward pass begins.
  void begin_forward() {
    fall_back(stage::placed, "");
    bar_ = nullptr;
    reason_ = "the last forward() failed", leaf_ = no_leaf;
  }

 private:
  stage at_ = stage::bound;
  char const* reason_ = "no forward() has run";
  char const* bar_ = nullptr;
  std::size_t leaf_ = no_leaf;
};

}  // namespace detail
}  // namespace headmix
