// SPDX-License-Identifier: MIT
#include "training.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <numeric>

#include "headmix/core/error.hpp"
#include "headmix/core/random.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/parameter_average.hpp"
#include "headmix/train/schedule.hpp"
#include "headmix/train/sgd.hpp"

namespace translation {
namespace {

/// CPU time of this process, whose work is one thread's: other programs do not lengthen it.
double seconds_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
/// Fisher and Yates.
template <class T>
void shuffle(std::vector<T>& all, headmix::Random const& random) {
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i, i)]);
}
/// Numbers 0 .. n - 1 by falling size, equal ones in this order.
template <class Size>
std::vector<std::size_t> longest_first(std::size_t n, Size size) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  return order;
}

constexpr std::uint64_t pairs_stream = 0x7061697273, batches_stream = 0x62617463686573;  // "pairs", "batches"

}  // namespace

std::vector<Batch> batches_of(std::vector<SubwordPair> const& pairs, Index most, std::uint64_t seed, Index epoch) {
  auto const number = static_cast<std::uint64_t>(epoch);
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  shuffle(order, headmix::Random(seed, pairs_stream + (number << 32)));
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return pairs[a].second.size() < pairs[b].second.size(); });
  std::vector<Batch> all;
  for (std::size_t const i : order) {
    auto const rows = static_cast<Index>(pairs[i].second.size()) + 1;
    if (all.empty() || all.back().read.rows() + rows > most) all.emplace_back();
    all.back().add(pairs[i].first, pairs[i].second);
  }
  shuffle(all, headmix::Random(seed, batches_stream + (number << 32)));
  return all;
}

void train(Translator& model, std::vector<SubwordPair> const& pairs, Options const& o, Results& results) {
  bool const draws = model.draws_experts();
  auto const groups = model.groups();
  headmix::BlockCoordinate const schedule{.g_every = draws ? 5 : 0};
  headmix::AdamW<float> optimiser(draws ? moved_by_f_steps(groups, headmix::fine_tuning::all) : model.parameters(),
                                  {.beta2 = 0.98, .eps = 1e-9, .weight_decay = 0.01});
  headmix::Sgd<float> gates(draws ? moved_by_g_steps(groups) : std::vector<headmix::parameter<float>>());
  headmix::ParameterAverage<float> average(model.parameters());
  Index const begin_of_average = o.steps - o.steps / 4, between = std::max<Index>(1, (o.steps - begin_of_average) / 10);
  std::vector<Batch> batches;
  Index epoch = 0;
  double const start = seconds_now();
  for (Index step = 0; step < o.steps; ++step) {
    if (batches.empty()) batches = batches_of(pairs, o.batch, o.seed, epoch++);
    Batch const batch = std::move(batches.back());
    batches.pop_back();
    auto const gradients = [&](Pass pass) {
      results.train_loss = model.gradients(batch, pass, step);
      if (!std::isfinite(results.train_loss)) {
        headmix::fail("step ", step + 1, ": expected a finite loss, found ", results.train_loss);
      }
    };
    schedule.step(
        step, gates, [&] { model.zero_gradients(); }, [&] { gradients(Pass::whole); },
        [&] { gradients(draws ? Pass::drawn : Pass::whole); },
        [&] { optimiser.step(headmix::warmup_inverse_sqrt(step, o.warmup, o.lr), optimiser.clip_scale(1.0)); });
    results.target_tokens += batch.read.rows();
    if (step >= begin_of_average && (o.steps - 1 - step) % between == 0) average.update();
    if ((step + 1) % 100 == 0 || step + 1 == o.steps) {
      results.seconds = seconds_now() - start;
      results.tokens_per_s = static_cast<double>(results.target_tokens) / results.seconds;
      std::fprintf(stderr, "step %td/%td, epoch %td: loss %.3f, %.0f tokens/s\n", step + 1, o.steps, epoch,
                   results.train_loss, results.tokens_per_s);
    }
  }
  average.copy_to(model);
}

double mean_loss(Translator& model, std::vector<SubwordPair> const& pairs, Index batch) {
  double sum = 0;
  Index rows = 0;
  for (Batch const& b : batches_of(pairs, batch, 0, 0)) {
    sum += model.negative_log_likelihood(b);
    rows += b.read.rows();
  }
  return sum / static_cast<double>(rows);
}

std::vector<Ids> translations(Translator& model, std::vector<Ids> const& sources, Search const& search) {
  constexpr std::size_t together = 16;  // of similar lengths, so that they end at about the same time
  std::vector<Ids> all(sources.size());
  auto const order = longest_first(sources.size(), [&](std::size_t i) { return sources[i].size(); });
  for (std::size_t first = 0; first < order.size(); first += together) {
    std::size_t const n = std::min(together, order.size() - first);
    Batch batch;
    for (std::size_t b = 0; b < n; ++b) batch.add(sources[order[first + b]], {});
    auto const found = model.translate(batch.source, search);
    for (std::size_t b = 0; b < n; ++b) all[order[first + b]] = found[b].front().tokens;
  }
  return all;
}

Check check_decoding(Translator& model, std::vector<Ids> const& sources, Search const& search) {
  Check check;
  Batch batch;
  for (Ids const& source : sources) batch.add(source, {});
  double const start = seconds_now();
  auto const cached = model.translate(batch.source, search);
  double const middle = seconds_now();
  auto const whole = model.translate_without_caches(batch.source, search);
  check.seconds = middle - start, check.seconds_without = seconds_now() - middle;
  for (std::size_t b = 0; b < sources.size(); ++b) {
    check.equal = check.equal && cached[b].size() == whole[b].size();
    for (std::size_t i = 0; i < std::min(cached[b].size(), whole[b].size()); ++i) {
      check.equal = check.equal && cached[b][i].tokens == whole[b][i].tokens;
      double const a = cached[b][i].log_probability, c = whole[b][i].log_probability;
      check.difference = std::max(check.difference, std::abs(a - c) / std::max(1.0, std::abs(c)));
    }
  }
  return check;
}

}  // namespace translation
