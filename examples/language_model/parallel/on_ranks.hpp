#pragma once
// SPDX-License-Identifier: MIT
// A training in several processes, with the interface of OneProcess (training.hpp).

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "../ending.hpp"
#include "../layers.hpp"
#include "../options.hpp"
#include "../sublayer.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/distributed/checkpoint.hpp"
#include "headmix/distributed/distributed.hpp"
#include "headmix/distributed/gradients.hpp"
#include "headmix/distributed/mpi.hpp"
#include "headmix/layer/data_parallel.hpp"

namespace lm {

using Ranked = headmix::Distributed<headmix::Cpu<float, headmix::thread_pool>, headmix::Mpi>;

/// An error during a training.
struct FailedTraining : headmix::Error {
  using headmix::Error::Error;
};

/// A training on ranks. @tparam DividesTokens processes have different sequences; otherwise all have the same ones
template <bool DividesTokens>
class OnRanks {
 public:
  using MeanLoss = std::conditional_t<DividesTokens, headmix::DataParallel<Loss>, Loss>;
  static constexpr bool caches_text = false;

  explicit OnRanks(Ranked backend) : backend_(std::move(backend)) {}

  [[nodiscard]] std::pair<Index, Index> sequences(Index batch) const {
    if (!DividesTokens) return {0, batch};
    Index const rank = ranks().rank(), size = ranks().size();
    return {headmix::first_of_share(batch, rank, size), headmix::share_of(batch, rank, size)};
  }
  [[nodiscard]] bool reports() const { return ranks().rank() == 0; }
  /// Compares the starts: a checkpoint may be visible to some processes only, or differ.
  template <class... Saved>
  void check_start(Index done, Saved const&... saved) const {
    headmix::detail::check_equal_on_all_ranks(ranks(), "the steps of the checkpoint", static_cast<std::uint64_t>(done));
    headmix::check_equal_on_ranks(ranks(), saved...);
  }
  Parameters<float> begin(Parameters<float> const& all, Parameters<float> const& moved) {
    all_ = all;
    if (!DividesTokens) return moved;
    sums_.emplace(all, backend_);
    divided_.emplace(moved, backend_);
    return divided_->own();
  }
  void sum_gradients() {
    if (sums_) sums_->complete();
  }
  template <class Optimiser>
  [[nodiscard]] double clip_scale(Optimiser&) const {
    return headmix::clip_scale(all_, 1.0, ranks());
  }
  void after_step() {
    if (divided_) divided_->gather();
  }
  /// Distributes a signal that one process received to all.
  void check_signal() const {
    std::vector<Index> const one(static_cast<std::size_t>(ranks().size()), 1);
    std::vector<Int> all(one.size());
    Int const mine = noted_signal();
    ranks().all_gather(all.data(), &mine, one);
    if (Int const signal = *std::max_element(all.begin(), all.end()); signal != 0) end_by_signal(signal);
  }
  /// An error of this process ends all processes.
  void end(Ending const& ending) const {
    if (ending.name == "error") throw FailedTraining(ending.message);
  }
  template <class... Saved>
  void save(std::string const& path, headmix::checkpoint_extras extras, Saved const&... saved) const {
    headmix::save(path, ranks(), std::move(extras), saved...);
  }

 private:
  [[nodiscard]] headmix::Mpi& ranks() const { return backend_.communicator(); }

  Ranked backend_;
  Parameters<float> all_;
  std::optional<headmix::GradientSums<float, Ranked>> sums_;
  std::optional<headmix::DividedParameters<float, Ranked>> divided_;
};

}  // namespace lm
