#pragma once
// SPDX-License-Identifier: MIT
// The checkpoint of a training in the --checkpoint folder: what --resume continues from, with the same bits. Batches
// and drawn experts are functions of the seed and the step, so the number of steps is all that there is to say of them.

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headmix/io/checkpoint.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "text.hpp"

namespace lm {

/// Creates the --checkpoint folder, if there is to be one, and proves that it can be written. One with a checkpoint is
/// an error without --resume. Removes what processes that were killed have left of files.
void create_checkpoint_folder(Options const& options);

/// The parameters of a model, with names that are unique: where several have one, "number.name".
template <class Backend>
class NamedParameters {
 public:
  using Parameters = std::vector<headmix::parameter<float>>;

  NamedParameters(Parameters const& all, Backend const& backend) : backend_(backend), all_(all) {
    std::map<std::string_view, int> count;
    for (auto const& p : all) ++count[p.name];
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (count[all[i].name] > 1) all_[i].name = names_.emplace_back(headmix::message(i, ".", all[i].name));
    }
  }
  NamedParameters(NamedParameters const&) = delete;
  NamedParameters& operator=(NamedParameters const&) = delete;

  /// Some of them, with these names.
  [[nodiscard]] Parameters names_of(Parameters some) const {
    for (auto& p : some) {
      for (auto const& q : all_) {
        if (q.value.data == p.value.data) p.name = q.name;
      }
    }
    return some;
  }
  [[nodiscard]] Parameters const& parameters() const { return all_; }
  [[nodiscard]] Backend const& backend() const { return backend_; }

 private:
  Backend backend_;
  Parameters all_;
  std::deque<std::string> names_;
};

/// Does nothing without --checkpoint.
class Checkpoint {
 public:
  Checkpoint(Options const& options, Text const& text);

  /// With --resume and a checkpoint: everything is as it was. Other options than those of the checkpoint are an error.
  template <class Model, class... Optimisers>
  void resume(Model const& model, Results& results, Progress& progress, Optimisers&... optimisers) {
    if (!begins_with_file()) return;
    auto const file = headmix::Safetensors::read(path_);
    check_settings(file);
    Results saved = results;
    Progress::Times const times = read_results(file, saved);
    headmix::load(file, model, optimisers...);
    results = std::move(saved);
    progress.continue_after(results.steps, times);
    saved_ = results.steps;
  }
  /// Saves what the last one does not have.
  template <class Model, class... Optimisers>
  void save(Model const& model, Results const& results, Progress& progress, Optimisers const&... optimisers) {
    if (path_.empty() || results.steps == saved_) return;
    progress.pause();
    std::vector<double> losses;
    headmix::save(path_, extras(results, progress.times(), losses), model, optimisers...);
    saved_ = results.steps;
    progress.resume();
  }
  /// Whether --every asks for one.
  [[nodiscard]] bool is_due(Index steps) const { return every_ > 0 && steps % every_ == 0; }
  /// After a training: saves one that a signal has ended, and says how it goes on.
  template <class Save>
  void end(Results& results, Save save) const {
    if (path_.empty()) return;
    bool const stopped = results.ending.name.empty() && results.steps < steps_;
    if (stopped) results.ending = stop(results.steps);
    if (results.ending.name != "signal") return;
    try {
      save();
      results.ending.message += "; --resume continues after these";
    } catch (std::exception const& e) {
      program::complain(program::reason(e));
    }
  }

 private:
  /// Of --resume; a note says if there is nothing to resume.
  [[nodiscard]] bool begins_with_file() const;
  void check_settings(headmix::Safetensors const& file) const;
  [[nodiscard]] static Progress::Times read_results(headmix::Safetensors const& file, Results& results);
  [[nodiscard]] headmix::checkpoint_extras extras(Results const& results, Progress::Times times,
                                                  std::vector<double>& losses) const;
  [[nodiscard]] Ending stop(Index steps) const;

  std::string path_, folder_;  // empty: no checkpoints
  bool resume_;
  Index every_, steps_, saved_ = 0;
  std::vector<std::pair<std::string, std::string>> settings_;  // with that of the text
};

}  // namespace lm
