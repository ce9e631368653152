#pragma once
// SPDX-License-Identifier: MIT
// The passes over the tables of a program, compiled once for all programs of one backend and the same dynamic sizes.

#include <vector>

#include "headmix/program/call.hpp"
#include "headmix/program/plan.hpp"

namespace headmix::detail {

/// The functions of a call.
template <class Run>
struct call_functions {
  void (*run)(Run const&, value_reader, bool accumulate);
  std::size_t (*scratch)(Run const&, value_reader);
  int sized_output;  ///< 0 for none
  Index (*columns)(Run const&, value_reader);
};
/// How a derived value is made when a pass begins.
template <class Run>
struct derived_row {
  untyped_view (*view)(Run const&, untyped_view const& source);
  double (*number)(Run const&);
};
template <class Run>
struct program_functions {
  std::span<call_functions<Run> const> calls;
  std::span<derived_row<Run> const> derived;
  std::span<void (*const)(Run const&)> validators;
};

template <class Run>
class Runner : public Plan {
  using Backend = typename Run::backend_type;
  using wide = accumulator_t<typename Backend::scalar>;

 protected:
  Runner(program_table const& table, program_functions<Run> const& functions, Backend& backend)
      : Plan(table, Backend::host_memory), functions_(&functions), backend_(&backend), numbers_(table.sources.size()) {}

  void plan() {
    resolve();
    for (auto const validate : functions_->validators) validate(context({}));
    shape_values();
    derive();
    for (std::size_t c = 0; c < scratch_.size(); ++c) {
      if (int const sized = functions_->calls[c].sized_output; sized > 0) {
        untyped_view& output = values_[static_cast<std::size_t>(values_of_call(c)[static_cast<std::size_t>(sized)])];
        output = {nullptr, output.count, output.rows, functions_->calls[c].columns(context({}), values_for(c))};
      }
    }
    for (std::size_t c = 0; c < scratch_.size(); ++c) {
      auto const scratch = functions_->calls[c].scratch;
      scratch_[c].bytes = scratch == nullptr ? 0 : scratch(context({}), values_for(c));
    }
    lay_out();
  }
  void run_forward() {
    if (changed()) plan();
    place();
    check_memory();
    if constexpr (Backend::host_memory) check_selections();
    run(0, program_->forward_calls);
    ran_ = true;
    rebound_ = false;
  }
  void run_backward(untyped_view const& result, untyped_view const& dy, std::span<double const> weights) {
    check_seeds(result, dy, weights.size());
    std::size_t seed = 0;
    if (program_->result_has_gradient) bind_seed(seed++, dy);
    for (std::size_t i = 0; seed < program_->seeds; ++i) {
      auto const number = weights.empty() ? wide{0} : static_cast<wide>(weights[i]);
      auto const memory = weight<wide>(i);
      backend_->map(memory, tree_number<wide>{number}, false);  // written by the backend: it may be a device's memory
      bind_seed(seed++, untyped(memory));
    }
    run(program_->forward_calls, program_->calls.size());
  }
  /// What views and operations see.
  [[nodiscard]] Run context(std::span<std::byte> scratch) const { return {*backend_, sizes(), scratch}; }

 private:
  /// Makes the values that need no kernel.
  void derive() {
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      derived_row<Run> const& row = functions_->derived[i];
      untyped_view& value = values_[program_->first_derived() + i];
      if (row.view != nullptr) value = row.view(context({}), values_[static_cast<std::size_t>(program_->sources[i])]);
      if (row.number != nullptr) {
        numbers_[i] = row.number(context({}));
        value.data = reinterpret_cast<std::byte*>(&numbers_[i]);
      }
    }
    derived_ = true;
  }
  void run(std::size_t first, std::size_t last) {
    if (!derived_) derive();
    for (std::size_t c = first; c < last; ++c) {
      call_row const& row = program_->calls[c];
      value_reader const values = values_for(c);
      if (row.into_leaf && values.values[*values.next].data == nullptr) continue;
      functions_->calls[c].run(context(scratch_of(c)), values, row.accumulate);
    }
  }
  [[nodiscard]] value_reader values_for(std::size_t c) const { return {values_.data(), values_of_call(c).data()}; }

  program_functions<Run> const* functions_;
  Backend* backend_;
  std::vector<double> numbers_;  // the derived values point to theirs
};

}  // namespace headmix::detail
