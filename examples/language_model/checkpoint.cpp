// SPDX-License-Identifier: MIT
// The folder, the options and the results of a checkpoint.

#include "checkpoint.hpp"

#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "headmix/core/digest.hpp"
#include "headmix/io/checkpoint.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <cerrno>
#include <csignal>
#endif

namespace lm {
namespace {

namespace fs = std::filesystem;

std::string file_in(std::string const& folder) { return (fs::path(folder) / "checkpoint.safetensors").string(); }

/// True for a file headmix-PROCESS-N.tmp of a process that has ended.
bool is_left_over([[maybe_unused]] std::string const& name) {
#if defined(__unix__) || defined(__APPLE__)
  std::string_view const prefix = "headmix-", suffix = ".tmp";
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return false;
  int process = 0;
  auto const end = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), process).ptr;
  return process > 0 && *end == '-' && kill(process, 0) != 0 && errno == ESRCH;
#else
  return false;
#endif
}

/// The hash of the text's bytes (FNV-1a), for comparison.
std::string text_setting(Text const& text) {
  std::uint64_t hash = headmix::detail::fnv1a_basis;
  for (std::uint8_t const byte : text.bytes) hash = headmix::detail::fnv1a(hash, byte);
  std::array<char, 16> digits;
  auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16).ptr;
  return std::to_string(text.size()) + " bytes with hash " + std::string(digits.data(), end);
}

std::string number_text(double x) {
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr};
}
double number_in(headmix::Safetensors const& file, std::string const& key) {
  auto const found = file.metadata().find(key);
  std::string const text = found == file.metadata().end() ? "" : found->second;
  double x = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw UsageError(file.name() + ": metadata " + key + ": expected a number, found " + in_quotes(text));
  return x;
}

}  // namespace

void create_checkpoint_folder(Options const& o) {
  if (o.checkpoint.empty()) return;
  std::error_code error, gone;
  if (o.resume && !fs::is_directory(o.checkpoint, error))
    throw UsageError("--resume: expected a folder, found none at " + in_quotes(o.checkpoint));
  fs::create_directories(o.checkpoint, error);
  if (!fs::is_directory(o.checkpoint, gone))
    throw UsageError("--checkpoint: expected a folder, cannot create " + in_quotes(o.checkpoint) + ": " +
                     (error ? error.message() : "it is a file"));
  std::string const path = file_in(o.checkpoint);
  if (!o.resume && fs::exists(path, gone))
    throw UsageError("--checkpoint: expected a folder without a checkpoint, or --resume to continue it, found " +
                     in_quotes(path));
  for (auto const& entry : fs::directory_iterator(o.checkpoint, error)) {
    if (is_left_over(entry.path().filename().string())) fs::remove(entry.path(), gone);
  }
  try {
    headmix::OutputFile const file(path);
  } catch (headmix::Error const& e) {
    throw UsageError("--checkpoint: " + program::reason(e));
  }
}

Checkpoint::Checkpoint(Options const& o, Text const& text, bool speaks)
    : folder_(o.checkpoint), resume_(o.resume), speaks_(speaks), every_(o.every), steps_(o.steps) {
  if (folder_.empty()) return;
  path_ = file_in(folder_);
  settings_ = settings(o);
  settings_.emplace_back("--text", text_setting(text));
  if (!o.validation_text.empty())
    settings_.emplace_back("--validation-text", std::to_string(text.size() - text.train) + " bytes of these");
}

void Checkpoint::check_settings(headmix::Safetensors const& file) const {
  std::string wrong;
  for (auto const& [option, value] : settings_) {
    auto const saved = file.metadata().find("option " + option);
    bool const known = saved != file.metadata().end();
    if (known && saved->second == value) continue;
    wrong += (wrong.empty() ? "" : "; ") + option + ": expected ";
    wrong += (known ? saved->second : "none") + ", found " + value;
  }
  if (!wrong.empty())
    throw UsageError("--resume: other options than those of the checkpoint in " + in_quotes(folder_) + ": " + wrong);
}

template <class T>
void Checkpoint::resume(Saved<T>& training) {
  if (path_.empty() || !resume_) return;
  std::error_code error;
  if (!fs::exists(path_, error)) {
    if (speaks_) program::complain("note: --resume: no checkpoint in " + in_quotes(folder_) + ", the training begins");
    return;
  }
  auto const file = headmix::Safetensors::read(path_);
  check_settings(file);
  auto const losses = file.values<double>("extra.train_loss");
  Progress::Times const times{number_in(file, "seconds"), number_in(file, "seconds of the first step")};
  headmix::load(file, training.parameters, training.optimiser, training.gates);
  Results& results = training.results;
  results.steps = training.optimiser.steps();
  if (static_cast<Index>(losses.size()) != results.steps)
    throw UsageError(path_ + ": extra.train_loss: expected a loss for each of the optimiser's " +
                     std::to_string(results.steps) + " steps, found " + std::to_string(losses.size()));
  for (double const loss : losses) results.train.push_back({static_cast<Index>(results.train.size()) + 1, loss});
  if (file.tensors().find("extra.validation") != file.tensors().end()) {
    auto const points = file.values<double>("extra.validation");
    for (std::size_t i = 0; i + 1 < points.size(); i += 2) {
      results.validation.push_back({static_cast<Index>(points[i]), points[i + 1]});
    }
  }
  training.progress.continue_after(results.steps, times);
  saved_ = results.steps;
}

template <class T>
void Checkpoint::save(Saved<T> const& training) {
  Results const& results = training.results;
  if (path_.empty() || results.steps == saved_) return;
  training.progress.pause();
  std::vector<double> losses;
  for (auto const& point : results.train) losses.push_back(point.loss);
  headmix::checkpoint_extras all;
  all.tensors["extra.train_loss"] = {
      headmix::dtype::f64, {static_cast<Index>(losses.size())}, std::as_bytes(std::span(losses))};
  std::vector<double> points;  // previous validations: steps and loss
  for (auto const& point : results.validation)
    points.insert(points.end(), {static_cast<double>(point.step), point.loss});
  if (!points.empty())
    all.tensors["extra.validation"] = {
        headmix::dtype::f64, {static_cast<Index>(results.validation.size()), 2}, std::as_bytes(std::span(points))};
  Progress::Times const times = training.progress.times();
  all.metadata["seconds"] = number_text(times.trained);
  all.metadata["seconds of the first step"] = number_text(times.first);
  for (auto const& [option, value] : settings_) all.metadata["option " + option] = value;
  training.write(path_, std::move(all), training.parameters, training.optimiser, training.gates);
  saved_ = results.steps;
  training.progress.resume();
}

template <class T>
void Checkpoint::end(Saved<T> const& training) {
  Results& results = training.results;
  if (path_.empty()) return;
  std::string const goes_on = "--resume continues after these";
  if (results.ending.name.empty() && results.steps < steps_) {
    results.ending = {
        program::done, "stop_after",
        "stopped after " + std::to_string(results.steps) + " of " + std::to_string(steps_) + " steps; " + goes_on};
  }
  if (results.ending.name != "signal") return;
  try {
    save(training);
    results.ending.message += "; " + goes_on;
  } catch (std::exception const& e) {
    if (speaks_) program::complain(program::reason(e));
  }
}

template <class T>
void load_start(Options const& o, Parameters<T> const& all, AnyMemory const& memory) {
  if (o.from.empty()) return;
  std::error_code error;
  if (!fs::exists(file_in(o.from), error))
    throw UsageError("--from: expected a folder with a checkpoint, found none in " + in_quotes(o.from));
  auto const file = headmix::Safetensors::read(file_in(o.from));
  Parameters<T> saved;
  for (auto const& p : all) {
    if (file.tensors().find(p.name) != file.tensors().end()) saved.push_back(p);
  }
  try {
    SavedParameters<T> const start(saved, memory);
    headmix::load(file, start);
  } catch (headmix::Error const& e) {
    throw UsageError("--from: " + program::reason(e));
  }
}

template void load_start(Options const&, Parameters<float> const&, AnyMemory const&);
template void load_start(Options const&, Parameters<headmix::bfloat16> const&, AnyMemory const&);
template void Checkpoint::resume(Saved<float>&);
template void Checkpoint::resume(Saved<headmix::bfloat16>&);
template void Checkpoint::save(Saved<float> const&);
template void Checkpoint::save(Saved<headmix::bfloat16> const&);
template void Checkpoint::end(Saved<float> const&);
template void Checkpoint::end(Saved<headmix::bfloat16> const&);

}  // namespace lm
