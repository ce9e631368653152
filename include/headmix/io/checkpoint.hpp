#pragma once
// SPDX-License-Identifier: MIT
// Checkpoints of a training: parameters, the state of optimisers, and the state of random numbers. A resumed training
// has the same bits.
//
//   save("run.safetensors", module, optimiser);
//   load("run.safetensors", module, optimiser);   // of the same layer and sizes; the optimiser may be omitted
//
// Published weights with other names: io/weights.hpp.

#include <charconv>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "headmix/core/version.hpp"
#include "headmix/io/safetensors.hpp"
#include "headmix/io/stored_tensor.hpp"

namespace headmix {

/// A program's additions to a checkpoint: tensors with names that begin with "extra.", and strings. load() does not
/// read them; use Safetensors::tensor() and metadata().
struct checkpoint_extras {
  TensorMap tensors;  ///< views of the program's numbers
  Metadata metadata;  ///< strings by names that save() does not use
};

namespace detail {

inline constexpr std::string_view optimiser_prefix = "optimiser.", extra_prefix = "extra.";

template <class T>
[[nodiscard]] T metadata_number(Safetensors const& file, std::string_view key, std::string_view text) {
  T value{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    fail(file.name(), ": metadata ", shown(key), ": expected a whole number in its range, found ", shown(text));
  }
  return value;
}

/// Metadata key of the step numbers, one for each optimiser, separated by spaces.
inline constexpr std::string_view steps_key = "optimiser_steps";
[[nodiscard]] inline std::vector<Index> saved_steps(Safetensors const& file, std::size_t optimisers) {
  auto const found = file.metadata().find(steps_key);
  if (found == file.metadata().end()) {
    fail(file.name(), ": expected the state of an optimiser, found none: load it without one");
  }
  std::vector<Index> steps;
  for (std::string_view text = found->second; !text.empty();) {
    std::size_t const end = text.find(' ');
    steps.push_back(metadata_number<Index>(file, steps_key, text.substr(0, end)));
    if (steps.back() < 0) fail(file.name(), ": metadata ", shown(steps_key), ": expected 0 or more, found ", text);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  if (steps.size() != optimisers) {
    fail(file.name(), ": expected the state of ", optimisers, " optimisers, found that of ", steps.size());
  }
  return steps;
}

template <class O>
void add_state(std::vector<stored_tensor>& all, O const& optimiser) {
  for (auto const& s : optimiser.state()) {
    std::string name = message(optimiser_prefix, s.name);
    if constexpr (requires { optimiser.backend(); }) {
      all.push_back(stored(optimiser.backend(), std::move(name), "state of an optimiser", s.value, s.part));
    } else {
      all.push_back(stored(on_host, std::move(name), "state of an optimiser", s.value, s.part));
    }
  }
}
template <class M, class... O>
[[nodiscard]] std::vector<stored_tensor> all_tensors(M const& m, O const&... optimisers) {
  auto all = stored_parameters(m);
  for (auto const& t : all) {
    if (t.name.starts_with(optimiser_prefix) || t.name.starts_with(extra_prefix)) {
      fail(t.name, ": expected a parameter's name that begins neither with \"", optimiser_prefix, "\" nor with \"",
           extra_prefix, "\"");
    }
  }
  (add_state(all, optimisers), ...);
  return all;
}

inline void write_checkpoint(std::string const& path, std::vector<stored_tensor> const& tensors,
                             checkpoint_extras extras) {
  std::vector<std::vector<std::byte>> copies;
  copies.reserve(tensors.size());
  for (auto const& [name, t] : by_name(tensors)) {
    std::span<std::byte const> bytes(t->host, t->bytes());
    if (t->host == nullptr) {
      copies.emplace_back(t->bytes());
      t->download(copies.back().data());
      bytes = copies.back();
    }
    extras.tensors.insert_or_assign(std::string(name), tensor_view{t->type, t->shape(), bytes});
  }
  write_safetensors(path, extras.tensors, extras.metadata);
}

/// Reads the part t of a file's tensor.
inline void add_part(TensorReads& reads, stored_tensor const& t, tensor_view const& from, std::string const& where) {
  auto const whole = t.whole();
  std::vector<Index> columns = counted_from_zero(t.cols);
  for (Index& c : columns) c += t.part.first[2];
  reads.begin(t, std::move(columns));
  auto const each = static_cast<std::size_t>(t.rows * t.cols * info_of(t.type).size);
  for (Index n = 0; n < t.count; ++n) {
    Index const first = ((t.part.first[0] + n) * whole[1] + t.part.first[1]) * whole[2];
    reads.add(static_cast<std::size_t>(n) * each, from, first, t.rows, whole[2], where);
  }
}

/// Checks all tensors of a file; store() of the result copies them.
[[nodiscard]] inline TensorReads read_checkpoint(Safetensors const& file, std::vector<stored_tensor> const& tensors,
                                                 bool has_optimiser, load_options const& options) {
  auto const expected = by_name(tensors);
  TensorReads reads(options);
  for (auto const& [name, t] : expected) {
    std::string const where = message(file.name(), ": ", shown(name));
    auto const shape = t->shape();
    auto const found = file.tensors().find(name);
    if (found == file.tensors().end()) fail(where, ": expected ", type_text(t->type, shape), ", found no such tensor");
    tensor_view const& from = found->second;
    bool const type = from.type == t->type || (options.convert && is_floating_point(from.type));
    if (!type || from.shape != shape) {
      fail(where, ": expected ", type_text(t->type, shape), ", found ", type_text(from.type, from.shape));
    }
    add_part(reads, *t, from, where);
  }
  for (auto const& [name, t] : file.tensors()) {
    bool const other = name.starts_with(extra_prefix) || (!has_optimiser && name.starts_with(optimiser_prefix));
    if (other || expected.count(name) > 0) continue;
    fail(file.name(), ": ", shown(name), ", ", type_text(t.type, t.shape), ": expected the name of a parameter",
         has_optimiser ? " or of an optimiser's state" : "", ", found neither the module's nor anybody's");
  }
  return reads;
}

/// The metadata of a checkpoint.
template <class M, class... O>
void describe(std::string const& path, checkpoint_extras& extras, std::vector<stored_tensor> const& tensors, M const& m,
              O const&... optimisers) {
  Metadata& about = extras.metadata;
  about["headmix"] = message(HEADMIX_VERSION_MAJOR, ".", HEADMIX_VERSION_MINOR, ".", HEADMIX_VERSION_PATCH);
  std::string names;
  for (auto const& p : with_buffers(m)) names += message(names.empty() ? "" : " ", p.name);
  about["parameters"] = names;
  if (!tensors.empty()) about["scalar"] = name_of(tensors.front().type);
  if constexpr (requires { m.passes(); }) {
    about["seed"] = std::to_string(m.seed());
    about["passes"] = std::to_string(m.passes());
  }
  if constexpr (sizeof...(O) > 0) {
    std::string steps;
    ((steps += message(steps.empty() ? "" : " ", static_cast<Index>(optimisers.steps()))), ...);
    about[std::string(steps_key)] = steps;
  }
  for (auto const& [name, t] : extras.tensors) {
    if (!name.starts_with(extra_prefix))
      fail(path, ": ", shown(name), ": expected a name that begins with \"", extra_prefix, "\"");
  }
}

}  // namespace detail

/// Writes the parameters and buffers of a module, the state of optimisers (StatefulOptimiser), and the module's seed
/// and number of passes, from which noise and dropout are drawn. The file is created or replaced atomically
/// (OutputFile). Tensors have the parameters' names; those of optimisers begin with "optimiser.". Errors name the path
/// or the tensor; two parameters of one name are an error.
///
/// Random numbers are functions of the seed and the pass, and these functions are not in the file: a training that was
/// saved before streams were separated by purpose (core/random.hpp) continues with other noise and dropout.
///
/// Not saved: settings (learning rate, betas), selections and inputs, and the argument of set_randomness().
template <HasParameters M, StatefulOptimiser... O>
void save(std::string const& path, checkpoint_extras extras, M const& m, O const&... optimisers) {
  auto const tensors = detail::all_tensors(m, optimisers...);
  for (auto const& t : tensors) {
    if (t.part.divided) {
      fail(t.name, " is divided among ranks: save it with their communicator, save(path, ranks, ...)");
    }
  }
  detail::describe(path, extras, tensors, m, optimisers...);
  detail::write_checkpoint(path, tensors, std::move(extras));
}
/// save() without extras.
template <HasParameters M, StatefulOptimiser... O>
void save(std::string const& path, M const& m, O const&... optimisers) {
  save(path, checkpoint_extras{}, m, optimisers...);
}

/// Reads a file of save(). Everything is checked first: missing and surplus tensors, shapes, types, NaN and infinities.
/// After an error, which names the file, the tensor, the expected and the found value, nothing has changed, also when
/// memory runs out (std::bad_alloc). The number and order of optimisers must be those of the file. Without optimisers,
/// the file's are ignored: a module for inference can load a training. The seed and the number of passes are taken from
/// the file if it has them, which it must if an optimiser is loaded.
template <HasParameters M, StatefulOptimiser... O>
void load(Safetensors const& file, load_options const& options, M& m, O&... optimisers) {
  constexpr bool resumes = sizeof...(O) > 0;
  auto const tensors = detail::all_tensors(m, optimisers...);
  std::vector<Index> steps;
  if constexpr (resumes) steps = detail::saved_steps(file, sizeof...(O));
  auto reads = detail::read_checkpoint(file, tensors, resumes, options);
  if constexpr (requires { m.passes(); }) {
    auto const seed = file.metadata().find("seed"), passes = file.metadata().find("passes");
    bool const known = seed != file.metadata().end() && passes != file.metadata().end();
    if (resumes && !known) fail(file.name(), ": metadata: expected \"seed\" and \"passes\", found none");
    if (known) {
      auto const s = detail::metadata_number<std::uint64_t>(file, "seed", seed->second);
      auto const p = detail::metadata_number<std::uint32_t>(file, "passes", passes->second);
      m.continue_from(s, p);
    }
  }
  reads.store();
  std::size_t i = 0;
  (static_cast<void>(optimisers.set_steps(steps[i++])), ...);
  static_cast<void>(i);
  if constexpr (requires { m.parameters_changed(); }) m.parameters_changed();
}
/// load() with default options.
template <HasParameters M, StatefulOptimiser... O>
void load(Safetensors const& file, M& m, O&... optimisers) {
  load(file, load_options{}, m, optimisers...);
}
/// load() from the file at this path.
template <HasParameters M, StatefulOptimiser... O>
void load(std::string const& path, load_options const& options, M& m, O&... optimisers) {
  load(Safetensors::read(path), options, m, optimisers...);
}
/// load() from the file at this path, with default options.
template <HasParameters M, StatefulOptimiser... O>
void load(std::string const& path, M& m, O&... optimisers) {
  load(Safetensors::read(path), load_options{}, m, optimisers...);
}

}  // namespace headmix
