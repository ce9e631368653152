#pragma once
// SPDX-License-Identifier: MIT
// The passes over the tables of a program, compiled once for all programs of a backend.

#include <algorithm>
#include <cmath>
#include <vector>

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/program/run/binding.hpp"
#include "headmix/program/run/context.hpp"
#include "headmix/program/run/plan.hpp"
#include "headmix/program/run/rank_hooks.hpp"
#include "headmix/program/run/unroll.hpp"

namespace headmix::detail {

/// Runs the program of a table: owner of the binding, the plan and their state.
template <class Backend>
class Runner {
  using scalar = typename Backend::scalar;
  using accumulator = accumulator_t<scalar>;

 public:
  using backend_type = Backend;
  /// @param times  the number of instances of each repeated part
  Runner(program_table const& table, program_functions<Backend> const& functions, Backend& backend,
         std::span<Index const> times)
      : unrolled_(table, times),
        program_(&unrolled_.table()),
        functions_(&functions),
        backend_(&backend),
        binding_(program_->binding, program_->values(), Backend::host_memory, state_,
                 {sizeof(storage_t<kind::real, scalar>), sizeof(storage_t<kind::accumulator, scalar>),
                  sizeof(storage_t<kind::integer, scalar>)},
                 rank_of(backend), ranks_of(backend)),
        plan_(*program_),
        hooks_(backend),
        numbers_(program_->sources.size()) {}
  /// Derived values point into the runner.
  Runner(Runner const&) = delete;
  Runner& operator=(Runner const&) = delete;

  /// The numbers of values of the original tables.
  [[nodiscard]] Unrolled const& unrolled() const { return unrolled_; }
  /// Buffers and their offsets.
  [[nodiscard]] Plan const& memory_plan() const { return plan_; }
  /// The functions of calls, which may be replaced between two passes (program/observe.hpp).
  [[nodiscard]] program_functions<Backend> const& functions() const { return *functions_; }
  void set_functions(program_functions<Backend> const& functions) { functions_ = &functions; }
  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] Binding& binding() { return binding_; }
  [[nodiscard]] Binding const& binding() const { return binding_; }
  [[nodiscard]] State& state() { return state_; }
  [[nodiscard]] State const& state() const { return state_; }

  [[nodiscard]] std::vector<named_leaf> named_leaves() const {
    std::vector<named_leaf> leaves;
    for (std::size_t l = 0; l < binding_.leaf_count(); ++l) leaves.push_back(binding_.named(l, plan_.has_gradient(l)));
    return leaves;
  }

  std::size_t workspace_bytes() {
    hooks_.agree_on_sizes(binding_);
    if (state_.at() < program_stage::planned) plan();
    return plan_.bytes();
  }
  /// @param p  null for none
  void set_prepared(prepared_weights<Backend>* p) { prepared_ = p; }
  void bind_result(bound_result const& r) { plan_.bind_result(r, state_); }
  void set_workspace(std::span<std::byte> memory, std::span<std::byte> rest) {
    plan_.set_workspace(memory, rest, state_);
  }

  void forward() {
    prepare_forward();
    run(0, program_->forward_calls);
    state_.reach(program_stage::forward_done);
  }
  void resume() {
    prepare_forward();
    state_.reach(program_stage::forward_done);
  }
  /// Fails unless backward() may run with such arguments.
  void check_backward(untyped_view const& result, untyped_view const& dy, std::span<double const> weights) const {
    binding_.check_has_run("backward()");
    if (state_.bar() != nullptr) fail("backward() cannot follow the last forward(): ", state_.bar());
    plan_.check_output_gradients(result, dy, weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!std::isfinite(static_cast<accumulator>(weights[i]))) {
        fail("backward(): expected a finite weight of loss ", i, ", found ", weights[i]);
      }
    }
  }
  /// After check_backward(). Weights of losses are numbers of the host, or values [1, 1] of the backend.
  void backward(untyped_view const& dy, std::span<double const> weights) {
    begin_backward();
    std::size_t const losses = plan_.losses();
    constexpr std::size_t most = tree_numbers<accumulator>::most;
    bool changed =
        bind_output_gradients(dy, losses, [&](std::size_t i) { return untyped(plan_.weights<accumulator>(i, 1)); });
    for (std::size_t first = 0; first < losses; first += most) {
      tree_numbers<accumulator> part = {};
      std::size_t const n = (std::min)(losses - first, most);
      for (std::size_t i = 0; i < n && !weights.empty(); ++i) {
        part.number[i] = static_cast<accumulator>(weights[first + i]);
      }
      // By a kernel: the workspace may be memory of a device.
      backend_->map(plan_.weights<accumulator>(first, n), part, false);
    }
    run_backward(changed);
  }
  void backward(untyped_view const& dy, std::span<untyped_view const> weights) {
    begin_backward();
    std::size_t const losses = plan_.losses();
    if (weights.size() != losses) fail("backward(): expected ", losses, " weights of losses, found ", weights.size());
    for (untyped_view const& w : weights) {
      if (w.data == nullptr || w.size() != 1) fail("backward(): expected a weight [1, 1], found ", text(w));
    }
    run_backward(bind_output_gradients(dy, losses, [&](std::size_t i) { return weights[i]; }));
  }

 private:
  void prepare_forward() {
    state_.begin_forward();
    begin_pass();
    hooks_.begin_forward(binding_);
    if (state_.at() < program_stage::planned) plan();
    if (state_.at() < program_stage::placed) {
      plan_.check_outside(binding_);
      plan_.check_result(binding_);
      plan_.place(binding_.values());
      derive();
      state_.reach(program_stage::placed);
    }
    binding_.check_memory();
    check_numbers();
  }
  void begin_backward() {
    begin_pass();
    plan_.check_outside(binding_);  // gradients may have been bound since
    plan_.check_result(binding_);
    state_.reach(program_stage::forward_done);
  }
  /// True if one of them has other memory than before.
  template <class Weight>
  bool bind_output_gradients(untyped_view const& dy, std::size_t losses, Weight const& weight) {
    std::size_t bound = 0;
    bool changed = false;
    auto const bind = [&](untyped_view const& value) {
      untyped_view& mine = binding_.values()[program_->first_output_gradient() + bound++];
      changed = changed || !same_view(mine, value);
      mine = value;
    };
    if (program_->result_has_gradient) bind(dy);
    for (std::size_t i = 0; i < losses; ++i) bind(weight(i));
    return changed;
  }
  void run_backward(bool changed) {
    if (changed) derive();
    auto const anew = binding_.gradients_to_overwrite();
    unwritten_.assign(anew.begin(), anew.end());
    run(program_->forward_calls, program_->calls.size());
    for (std::size_t const n : unwritten_) {  // the roots do not depend on the leaf
      backend_->map(typed<scalar>(binding_.values()[n]), tree_number<accumulator>{0}, false);
    }
    state_.reach(program_stage::backward_done);
  }
  void begin_pass() {
    if constexpr (ChecksPass<Backend>) backend_->begin_pass();
  }
  [[nodiscard]] run_context<Backend> context(std::span<std::byte> scratch) const {
    return {*backend_, binding_.sizes(), scratch, prepared_};
  }
  /// Checks of numbers in bound memory: offsets and past lengths of sequences, selections, positive constants.
  void check_numbers() const {
    if constexpr (Backend::host_memory) binding_.check_numbers();
    validate();
  }
  void validate() const {
    for (auto const validator : functions_->validators) validator(context({}));
  }
  void plan() {
    binding_.resolve();
    validate();
    plan_.shape_values(binding_);
    derive();
    std::size_t const calls = program_->calls.size();
    for (std::size_t c = 0; c < calls; ++c) {
      if (int const sized = functions_of(c).sized_output; sized > 0) {
        auto const number = static_cast<std::size_t>(plan_.values_of_call(c)[static_cast<std::size_t>(sized)]);
        untyped_view& output = binding_.values()[number];
        output = without_memory("what a kernel stores", output.count, output.rows,
                                functions_of(c).columns(context({}), values_for(c)));
      }
    }
    for (std::size_t c = 0; c < calls; ++c) {
      auto const scratch = functions_of(c).scratch;
      plan_.set_scratch(c, scratch == nullptr ? 0 : scratch(context({}), values_for(c)));
    }
    plan_.lay_out(binding_.values());
    state_.reach(program_stage::planned);
  }
  /// Computes the values that need no kernel.
  void derive() {
    auto const values = binding_.values();
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      std::size_t const i = unrolled_.derived_in_order(n);
      derived_row<Backend> const& row = functions_->derived[unrolled_.derived_of(i)];
      untyped_view& value = values[program_->first_derived() + i];
      if (row.view != nullptr) value = row.view(context({}), values[static_cast<std::size_t>(program_->sources[i])]);
      if (row.number != nullptr) {
        numbers_[i] = row.number(context({}));
        value.data = reinterpret_cast<std::byte*>(&numbers_[i]);
      }
    }
  }
  void run(std::size_t first, std::size_t last) {
    hooks_.complete([&] {
      for (std::size_t c = first; c < last; ++c) run_call(c);
    });
  }
  void run_call(std::size_t c) {
    call_row const& row = program_->calls[c];
    value_reader const values = values_for(c);
    if (row.accumulates_gradient && values.values[*values.next].data == nullptr) return;
    hooks_.before_call(plan_, c);
    if (row.received >= 0) {
      binding_.set_received(row.received, functions_of(c).received(context({}), values));
      plan_.reshape_values(binding_, row.received);
      derive();
    }
    bool const adds =
        plan_.adds_to_result(c) || (row.accumulate && !(row.accumulates_gradient && overwrites(*values.next)));
    functions_of(c).run(context(plan_.scratch_of(c)), values, adds);
    hooks_.after_call(*program_, plan_, c, values.values);
  }
  /// True for the first call of a backward pass that writes a gradient to be overwritten.
  bool overwrites(int gradient) {
    auto const found = std::find(unwritten_.begin(), unwritten_.end(), static_cast<std::size_t>(gradient));
    if (found == unwritten_.end()) return false;
    unwritten_.erase(found);
    return true;
  }
  [[nodiscard]] call_functions<Backend> const& functions_of(std::size_t c) const {
    return functions_->calls[unrolled_.call_of(c)];
  }
  [[nodiscard]] value_reader values_for(std::size_t c) const {
    return {binding_.values().data(), plan_.values_of_call(c).data()};
  }

  Unrolled unrolled_;
  program_table const* program_;
  program_functions<Backend> const* functions_;
  Backend* backend_;
  prepared_weights<Backend>* prepared_ = nullptr;
  State state_;
  Binding binding_;
  Plan plan_;
  RankHooks<Backend> hooks_;
  std::vector<std::size_t> unwritten_;  // gradients that the backward pass has yet to overwrite
  std::vector<double> numbers_;         // derived values point into it
};

}  // namespace headmix::detail
