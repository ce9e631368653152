#pragma once
// SPDX-License-Identifier: MIT
// The hooks of a pass for programs on several ranks: sizes that are sums over ranks, asynchronous operations, and
// observers of gradients. On a backend without a communicator every hook is empty.

#include <vector>

#include "headmix/contract/communicator.hpp"
#include "headmix/program/run/binding.hpp"
#include "headmix/program/run/plan.hpp"

namespace headmix::detail {

/// The rank of a backend, 0 without a communicator.
template <class Backend>
Index rank_of(Backend& backend) {
  if constexpr (HasCommunicator<Backend>) {
    return backend.communicator().rank();
  } else {
    return 0;
  }
}
/// The number of ranks, 1 without a communicator.
template <class Backend>
Index ranks_of(Backend& backend) {
  if constexpr (HasCommunicator<Backend>) {
    return backend.communicator().size();
  } else {
    return 1;
  }
}
/// Sums numbers in host memory over all ranks.
template <class C>
void sum_on_host(C& communicator, std::vector<Index>& numbers) {
  if constexpr (requires { communicator.on_host(); }) {
    sum_on_host(communicator.on_host(), numbers);
  } else {
    communicator.all_sum(numbers.data(), numbers.data(), static_cast<Index>(numbers.size()));
  }
}

template <class Backend>
class RankHooks {
 public:
  explicit RankHooks(Backend& backend) : backend_(&backend) {}

  /// Sums the sizes over all ranks that are such sums.
  void agree_on_sizes([[maybe_unused]] Binding& binding) {
    if constexpr (HasCommunicator<Backend>) {
      if (!binding.agrees()) return;
      binding.own_terms(terms_);
      sum_on_host(backend_->communicator(), terms_);
      binding.agree(terms_);
      agreed_ = true;
    }
  }
  /// Once for each forward pass, whether sizes have changed or not: a rank knows only its own.
  void begin_forward(Binding& binding) {
    if (!agreed_) agree_on_sizes(binding);
    agreed_ = false;
  }
  /// Runs calls(), then waits for all asynchronous operations; abandons them if a call fails, since they must not
  /// outlive the memory that they use.
  template <class Calls>
  void complete(Calls const& calls) {
    if constexpr (Asynchronous<Backend>) {
      struct guard {
        Backend& backend;
        bool completed = false;
        ~guard() {
          if (!completed) backend.abandon();
        }
      } all{*backend_};
      calls();
      backend_->wait_for();
      all.completed = true;
    } else {
      calls();
    }
  }
  /// Waits for the pending operations on memory that call c reads or writes.
  void before_call([[maybe_unused]] Plan const& plan, [[maybe_unused]] std::size_t c) {
    if constexpr (Asynchronous<Backend>) {
      if (!backend_->has_pending()) return;
      for (int const n : plan.values_of_call(c)) {
        if (auto const memory = plan.memory_of(n); !memory.empty()) backend_->wait_for(memory);
      }
      if (auto const scratch = plan.scratch_of(c); !scratch.empty()) backend_->wait_for(scratch);
    }
  }
  /// Tells an observer of gradients which gradient no later call adds to.
  void after_call([[maybe_unused]] program_table const& program, [[maybe_unused]] Plan const& plan,
                  [[maybe_unused]] std::size_t c, [[maybe_unused]] untyped_view const* values) {
    if constexpr (ObservesGradients<Backend>) {
      if (program.calls[c].accumulates_gradient) {
        if (last_for_leaf_.empty()) find_last_calls(program, plan);
        if (last_for_leaf_[c]) backend_->gradient_done(values[plan.values_of_call(c)[0]].data);
      }
      backend_->between_kernels();
    }
  }

 private:
  void find_last_calls(program_table const& program, Plan const& plan) {
    std::size_t const calls = program.calls.size();
    last_for_leaf_.resize(calls);
    std::vector<bool> later(2 * program.binding.leaves.size());
    for (std::size_t i = calls; i-- > 0;) {
      if (!program.calls[i].accumulates_gradient) continue;
      auto const leaf = static_cast<std::size_t>(plan.values_of_call(i)[0]);
      last_for_leaf_[i] = !later[leaf];
      later[leaf] = true;
    }
  }

  Backend* backend_;
  std::vector<Index> terms_;         // this rank's terms of the sums
  bool agreed_ = false;              // for the next forward pass
  std::vector<bool> last_for_leaf_;  // by call
};

}  // namespace headmix::detail
