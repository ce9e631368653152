#pragma once
// SPDX-License-Identifier: MIT
// The stage of a program, which decides what may run.

#include <cstddef>

namespace headmix {

/// The stages of a program in their order. Only a completed step advances the stage; a failed step can be repeated,
/// with the same error, and no pass runs on values of an earlier batch.
enum class program_stage {
  bound,          ///< leaves and sizes may be bound; they are not checked yet
  planned,        ///< extents are checked, and the workspace is laid out: workspace_bytes()
  placed,         ///< values lie in the workspace
  forward_done,   ///< the roots can be read, and backward() may run
  backward_done,  ///< gradients can be read; backward() may run again
};

namespace detail {

class State {
 public:
  [[nodiscard]] program_stage at() const { return at_; }
  [[nodiscard]] bool has_run() const { return at_ >= program_stage::forward_done; }
  /// The reason why backward() may not follow the last forward pass; null if it may.
  [[nodiscard]] char const* bar() const { return bar_; }
  /// The reason why there is no completed forward pass, about leaf `leaf()` unless that is `no_leaf`.
  [[nodiscard]] char const* reason() const { return reason_; }
  static constexpr std::size_t no_leaf = static_cast<std::size_t>(-1);
  [[nodiscard]] std::size_t leaf() const { return leaf_; }

  /// Advances to a completed stage.
  void reach(program_stage s) { at_ = s; }
  /// The values of the forward pass stay valid, but its random numbers or weights changed.
  void bar_backward(char const* reason) {
    if (has_run()) bar_ = reason;
  }
  /// Invalidates the stages after `s`.
  void fall_back(program_stage s, char const* reason, std::size_t leaf = no_leaf) {
    if (has_run() && s < program_stage::forward_done) reason_ = reason, leaf_ = leaf;
    if (at_ > s) at_ = s;
  }
  /// Begins a forward pass.
  void begin_forward() {
    fall_back(program_stage::placed, "");
    bar_ = nullptr;
    reason_ = "the last forward() failed", leaf_ = no_leaf;
  }

 private:
  program_stage at_ = program_stage::bound;
  char const* reason_ = "no forward() has run";
  char const* bar_ = nullptr;
  std::size_t leaf_ = no_leaf;
};

}  // namespace detail
}  // namespace headmix
