#pragma once
// SPDX-License-Identifier: MIT
// The checkpoint of a training in the --checkpoint folder, from which --resume continues with equal bits. Batches and
// drawn experts are functions of the seed and the step, so only the number of steps is saved.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "sublayer.hpp"
#include "text.hpp"

namespace headmix {
class Safetensors;
struct checkpoint_extras;
}  // namespace headmix

namespace lm {

/// Creates the --checkpoint folder, if any, and checks that it is writable. A folder with a checkpoint is an error
/// without --resume. Removes temporary files of killed processes.
void create_checkpoint_folder(Options const& options);

/// The memory of any backend, for code that is compiled once.
struct AnyMemory {
  static constexpr bool host_memory = false;
  std::function<void(void*, void const*, std::size_t)> upload, download;

  template <class Backend>
  static AnyMemory of(Backend const& backend) {
    using std::byte;
    return {[backend](void* to, void const* from, std::size_t bytes) {
              headmix::upload(backend, static_cast<byte*>(to), static_cast<byte const*>(from), bytes);
            },
            [backend](void* to, void const* from, std::size_t bytes) {
              headmix::download(backend, static_cast<byte*>(to), static_cast<byte const*>(from), bytes);
            }};
  }
};

/// An optimiser in the form of headmix::StatefulOptimiser.
class SavedOptimiser {
 public:
  template <class Optimiser>
  explicit SavedOptimiser(Optimiser& optimiser, AnyMemory memory)
      : memory_(std::move(memory)),
        state_(optimiser.state()),
        steps_([&optimiser] { return optimiser.steps(); }),
        set_steps_([&optimiser](Index steps) { optimiser.set_steps(steps); }) {}

  [[nodiscard]] auto const& state() const { return state_; }
  [[nodiscard]] Index steps() const { return steps_(); }
  void set_steps(Index steps) { set_steps_(steps); }
  [[nodiscard]] AnyMemory const& backend() const { return memory_; }

 private:
  AnyMemory memory_;
  std::vector<headmix::state_tensor<float>> state_;
  std::function<Index()> steps_;
  std::function<void(Index)> set_steps_;
};

/// The parameters of a model in the form of headmix::HasParameters.
template <class T>
class SavedParameters {
 public:
  SavedParameters(Parameters<T> const& all, AnyMemory memory) : all_(all), memory_(std::move(memory)) {}

  [[nodiscard]] Parameters<T> const& parameters() const { return all_; }
  [[nodiscard]] AnyMemory const& backend() const { return memory_; }

 private:
  Parameters<T> const& all_;
  AnyMemory memory_;
};

/// The parts of a training in a checkpoint.
template <class T>
struct Saved {
  SavedParameters<T> const& parameters;
  SavedOptimiser optimiser;  ///< of the F steps, or of all steps
  SavedOptimiser gates;      ///< of the G steps
  Results& results;
  Progress& progress;
  /// Writes the file; in one process, headmix::save().
  std::function<void(std::string const& path, headmix::checkpoint_extras, SavedParameters<T> const&,
                     SavedOptimiser const&, SavedOptimiser const&)>
      write;
};

/// With --from: sets the parameters of `all` from that checkpoint, which must have no others.
template <class T>
void load_start(Options const& options, Parameters<T> const& all, AnyMemory const& memory);

/// With --from: sets the parameters of `all` from that checkpoint, which must have no others.
template <class T>
void load_start(Options const& options, Parameters<T> const& all, AnyMemory const& memory);

/// Saves and resumes; does nothing without --checkpoint. T of its functions is float or bfloat16.
class Checkpoint {
 public:
  /// @param speaks whether this process writes to stderr: one of several does
  Checkpoint(Options const& options, Text const& text, bool speaks);

  /// With --resume and a checkpoint: restores the training. Options that differ from the checkpoint's are an error.
  template <class T>
  void resume(Saved<T>& training);
  /// Saves the steps since the last checkpoint, if any.
  template <class T>
  void save(Saved<T> const& training);
  /// True if --every requests a checkpoint.
  [[nodiscard]] bool is_due(Index steps) const { return every_ > 0 && steps % every_ == 0; }
  /// After the training: saves it if a signal has ended it, and prints how to continue.
  template <class T>
  void end(Saved<T> const& training);

 private:
  void check_settings(headmix::Safetensors const& file) const;

  std::string path_, folder_;  // empty: no checkpoints
  bool resume_, speaks_;
  Index every_, steps_, saved_ = 0;
  std::vector<std::pair<std::string, std::string>> settings_;  // including that of the text
};

}  // namespace lm
