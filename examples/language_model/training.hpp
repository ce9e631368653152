#pragma once
// SPDX-License-Identifier: MIT
// Training, validation and sampling, on one backend.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

#include "checkpoint.hpp"
#include "ending.hpp"
#include "expert_use.hpp"
#include "headmix/decode/sampling.hpp"
#include "headmix/io/checkpoint.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/block_coordinate.hpp"
#include "headmix/train/schedule.hpp"
#include "headmix/train/sgd.hpp"
#include "model.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "text.hpp"

namespace lm {

/// Mean loss over the validation part, and the use of experts. Each of several processes reads all of it.
template <class Model, class Ranks>
double validate(Model& model, Pass pass, Options const& o, Text const& text, ExpertUse& experts, Ranks const& ranks) {
  std::vector<Window> const windows = validation_windows(text, o.context);
  std::vector<Int> inputs(static_cast<std::size_t>(o.batch * o.context)), targets(inputs.size());
  std::vector<Int> offsets(static_cast<std::size_t>(o.batch) + 1);
  double sum = 0;
  Index predicted = 0;
  for (std::size_t first = 0; first < windows.size(); first += static_cast<std::size_t>(o.batch)) {
    ranks.check_signal();
    std::size_t const n = std::min(windows.size() - first, static_cast<std::size_t>(o.batch));
    Index rows = 0;
    for (std::size_t b = 0; b < n; ++b) {
      Window const& w = windows[first + b];
      auto const at = static_cast<std::size_t>(rows), length = static_cast<std::size_t>(w.length);
      copy_window(text, w, std::span(inputs).subspan(at, length), std::span(targets).subspan(at, length));
      rows += w.length;
      offsets[b + 1] = static_cast<Int>(rows);
    }
    model.set_pass(pass, o.steps + static_cast<Index>(first));
    double const loss =
        model.forward(inputs.data(), targets.data(), headmix::ragged(offsets.data(), static_cast<Index>(n)));
    for (std::size_t l = 0; l < model.blocks().size(); ++l) {
      auto const& [attention, network] = model.blocks()[l];
      observe(o, l, attention->chosen(), attention->gate(), network->chosen(), inputs.data(), experts);
    }
    sum += loss * static_cast<double>(rows);
    predicted += rows;
  }
  if (pass == Pass::mixture) {
    for (double& e : experts.gate_entropy) e /= static_cast<double>(predicted);
  }
  return sum / static_cast<double>(predicted);
}

/// Continues the beginning of the validation part byte by byte, drawn from the model's distribution. Returns both
/// texts, or nothing without --sample.
template <class Model, class Ranks>
std::string sample(Model& model, Options const& o, Text const& text, Ranks const& ranks) {
  if (o.sample == 0) return {};
  Index const prompt = std::min<Index>({o.context, 32, text.size() - text.train});
  std::vector<Int> bytes;
  for (Index i = 0; i < prompt; ++i) bytes.push_back(text.bytes[static_cast<std::size_t>(text.train + i)]);
  headmix::Random const random(o.seed, 0x73616d706c65);
  Index n = prompt;  // number of bytes not yet read by the model
  model.begin_text();
  for (Index i = 0; i < o.sample; ++i) {
    ranks.check_signal();
    if (model.text_length() + n > o.context) {
      // The model has no further positions: the last half of the text begins another one.
      n = std::max<Index>(1, o.context / 2);
      model.begin_text();
    }
    Index const known = model.text_length() + n;
    auto const logits = model.continue_text(bytes.data() + bytes.size() - n, n);
    n = 1;
    if (!Ranks::caches_text) {
      n = known + 1;  // the whole text
      model.begin_text();
    }
    bytes.push_back(headmix::sample_token(view<float const>(logits.data(), 1, Index{256}), {}, random,
                                          static_cast<std::uint64_t>(i)));
  }
  model.end_text();
  std::span<Int const> const all(bytes);
  auto const from = static_cast<std::size_t>(prompt);
  return printable(all.first(from)) + ">>>" + printable(all.subspan(from));
}

/// The function that makes the attention of the options.
template <class Backend>
struct MakeAttention {
  MakeSublayer<Backend> dense, moa, moh, mae;  ///< null if not built

  [[nodiscard]] MakeSublayer<Backend> of(Options const& o) const {
    MakeSublayer<Backend> const all[] = {dense, moa, moh, mae};
    if (auto const make = all[static_cast<std::size_t>(o.attention)]) return make;
    throw UsageError(headmix::message("--backend ", name(o.backend), " with --attention ", name(o.attention),
                                      " is not in this build"));
  }
};

/// Calls f(std::type_identity<T>) for the scalar type of the options.
template <class F>
int with_scalar(Options const& o, F f) {
  if (o.scalar == Scalar::bfloat16) return f(std::type_identity<headmix::bfloat16>{});
  return f(std::type_identity<float>{});
}

/// A training in one process; for several, see parallel/on_ranks.hpp.
template <class Backend>
struct OneProcess {
  using T = typename Backend::scalar;
  using MeanLoss = Loss;
  static constexpr bool caches_text = true;  ///< false: it reads the whole text again for every generated byte

  /// The sequences of a batch in this process: the first, and their number.
  [[nodiscard]] std::pair<Index, Index> sequences(Index batch) const { return {0, batch}; }
  /// True for the process that prints.
  [[nodiscard]] bool reports() const { return true; }
  /// Fails unless all processes have equal steps, parameters and state.
  template <class... Saved>
  void check_start(Index /*done*/, Saved const&... /*saved*/) const {}
  /// The parts of these parameters that this process updates.
  Parameters<T> const& begin(Parameters<T> const& /*all*/, Parameters<T> const& moved) { return moved; }
  void sum_gradients() {}
  template <class Optimiser>
  [[nodiscard]] double clip_scale(Optimiser& optimiser) const {
    return optimiser.clip_scale(1.0);
  }
  void after_step() {}
  /// Ends the training in all processes if one of them received a signal.
  void check_signal() const { lm::check_signal(); }
  void end(Ending const&) const {}
  template <class... Saved>
  void save(std::string const& path, headmix::checkpoint_extras extras, Saved const&... saved) const {
    headmix::save(path, std::move(extras), saved...);
  }
};

template <class Backend, class Ranks>
int train(Options const& o, Text const& text, Backend const& backend, MakeSublayer<Backend> make_attention,
          MakeSublayer<Backend> make_feed_forward, Ranks& ranks) {
  using T = typename Backend::scalar;
  LanguageModel<Backend, typename Ranks::MeanLoss> model(o, backend, make_attention, make_feed_forward);
  // The gates of mae have a separate optimiser, or none.
  bool const is_mae = o.attention == Attention::mae;
  bool const experts = is_mae && o.training != Training::joint;
  SavedParameters const parameters{model.parameters(), AnyMemory::of(backend)};
  load_start(o, model.parameters(), parameters.backend());
  bool const bcd = experts && o.training == Training::bcd;
  headmix::BlockCoordinate const schedule{.g_every = bcd ? o.g_every : 0,
                                          .moves = bcd ? o.fine_tune : headmix::fine_tuning::all};
  Parameters<T> const moved = experts ? moved_by_f_steps(model.groups(), schedule.moves) : model.parameters();
  headmix::AdamW<T, Backend> optimiser(ranks.begin(model.parameters(), moved), {}, backend);
  headmix::Sgd<T, Backend> gates(bcd ? moved_by_g_steps(model.groups()) : Parameters<T>(), backend);
  Results results;
  auto const count = [&results](Parameters<T> const& all) {
    for (auto const& p : all) results.parameters += p.whole()[0] * p.whole()[1] * p.whole()[2];
  };
  count(model.groups().rest);
  count(model.groups().outputs);
  if (!is_mae || o.training != Training::uniform) count(model.groups().gates);
  std::vector<Int> inputs(static_cast<std::size_t>(o.batch * o.context)), targets(inputs.size());
  Progress progress(ranks.reports() ? o.progress : ProgressMode::off, o.steps, o.batch * o.context);
  Checkpoint checkpoint(o, text, ranks.reports());
  Saved<T> training{parameters,
                    SavedOptimiser(optimiser, parameters.backend()),
                    SavedOptimiser(gates, parameters.backend()),
                    results,
                    progress,
                    [&](std::string const& path, headmix::checkpoint_extras extras, auto const&... saved) {
                      ranks.save(path, std::move(extras), saved...);
                    }};
  checkpoint.resume(training);
  ranks.check_start(results.steps, parameters, training.optimiser, training.gates);
  std::string kinds(name(o.attention));
  if (o.ffn != Ffn::dense) kinds.append(" with ").append(name(o.ffn));
  if (ranks.reports())
    std::fprintf(stderr, "%s: %td bytes, %td train; %s, %td parameters, %td threads\n", text.source.c_str(),
                 text.size(), text.train, kinds.c_str(), results.parameters, o.threads);
  auto const train_step = [&](Index step) {
    sample_batch(text, o.context, o.seed, step, inputs, targets);
    double loss = 0;
    auto const [first, sequences] = ranks.sequences(o.batch);
    auto const gradients = [&, first = first * o.context, rows = sequences * o.context](Pass pass) {
      model.set_pass(pass, step);
      auto const s = headmix::uniform(std::max<Index>(1, rows / o.context), rows == 0 ? 0 : o.context);
      loss = model.forward(inputs.data() + first, targets.data() + first, s);
      check_loss(loss, "the loss", step + 1);
      model.backward();
      ranks.sum_gradients();
    };
    schedule.step(
        step, gates, [&] { model.zero_gradients(); }, [&] { gradients(Pass::mixture); },
        [&] { gradients(experts ? Pass::drawn : Pass::mixture); },
        [&] {
          double const scale = ranks.clip_scale(optimiser);
          optimiser.step(headmix::warmup_cosine(step, o.warmup, o.steps, o.lr, o.min_lr), scale);
          ranks.after_step();
        });
    results.train.push_back({step + 1, loss});
    results.steps = step + 1;
    progress.update(step + 1, loss);
  };
  auto const validate_all = [&] {
    ExpertUse use;
    double const val_loss = validate(model, Pass::mixture, o, text, use, ranks);
    if (is_mae) {
      if (o.training == Training::uniform) {
        use.gate_entropy.assign(static_cast<std::size_t>(o.layers), std::log(static_cast<double>(o.experts)));
      }
      results.one_expert_loss = validate(model, Pass::most_probable, o, text, use, ranks);
      model.set_pass(Pass::mixture, o.steps);
    }
    results.val_loss = val_loss;
    results.validation.push_back({o.steps, val_loss});
    results.experts = std::move(use);
    check_loss(val_loss, "the validation loss", o.steps);
  };
  // Before the next step rather than after the last one: if a signal ends it, the resuming process repeats it.
  auto const validation_is_due = [&] {
    return o.validate_every > 0 && results.steps > 0 && results.steps % o.validate_every == 0 &&
           (results.validation.empty() || results.validation.back().step < results.steps);
  };
  auto const validate_between = [&] {
    progress.pause();
    ExpertUse use;
    results.validation.push_back({results.steps, validate(model, Pass::mixture, o, text, use, ranks)});
    progress.resume();
  };
  Index const last = o.stop_after > 0 ? o.stop_after : o.steps;
  results.ending = run_training(results.steps, o.steps, [&] {
    while (results.steps < last) {
      ranks.check_signal();
      if (validation_is_due()) validate_between();
      train_step(results.steps);
      if (checkpoint.is_due(results.steps)) checkpoint.save(training);
    }
    progress.finish();
    checkpoint.save(training);
    if (results.steps < o.steps) return;
    validate_all();
    results.continuation = sample(model, o, text, ranks);
  });
  progress.finish();
  checkpoint.end(training);
  ranks.end(results.ending);
  results.tokens_per_s = progress.tokens_per_second();
  return ranks.reports() ? give_results(o, text, results) : results.ending.status;
}

/// `variant` makes the mixtures of --ffn-variant; other backends refuse them.
template <class Backend>
int train(Options const& o, Text const& text, Backend const& backend, MakeAttention<Backend> const& make_attention,
          MakeSublayer<Backend> variant = nullptr) {
  OneProcess<Backend> one;
  MakeSublayer<Backend> make_feed_forward = variant;
  if (o.ffn_variant == FfnVariant::none) {
    make_feed_forward = o.weights == Weights::real ? &lm::make_feed_forward<Weights::real, Backend>
                                                   : &lm::make_feed_forward<Weights::ternary, Backend>;
  }
  return train(o, text, backend, make_attention.of(o), make_feed_forward, one);
}

}  // namespace lm
