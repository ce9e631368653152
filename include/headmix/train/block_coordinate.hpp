#pragma once
// SPDX-License-Identifier: MIT
// Block coordinate descent of MAE (Peng et al. 2020, section 3.2 and Algorithm 3). A G step mixes all experts and
// updates only the gates; an F step draws one expert for each sequence and updates everything else.

#include <concepts>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/expr/leaf.hpp"
#include "headmix/program/parameter.hpp"

namespace headmix {

/// The parameters of a model, grouped for block coordinate descent.
template <class T>
struct ParameterGroups {
  std::vector<parameter<T>> gates;    ///< of routers: leaves that derive from router_param
  std::vector<parameter<T>> outputs;  ///< W_o and b_o of attention: leaves that derive from attention_output
  /// All other parameters.
  std::vector<parameter<T>> rest;

  /// Adds the parameters of a module, of a layer or a network, in order. Routers of feed-forward mixtures are among the
  /// gates.
  template <class Module>
  void add(Module const& module) {
    auto const& all = module.parameters();
    std::vector<std::vector<parameter<T>>*> group(all.size(), &rest);
    for_each(typename Module::parameter_leaves{}, [&]<class P>() {
      for (Index time = 0; time < module.template times_of<P>(); ++time) {
        auto const number = static_cast<std::size_t>(&module.template get<P>(time) - all.data());
        if (RouterParameter<P>) group[number] = &gates;
        if (AttentionOutput<P>) group[number] = &outputs;
      }
    });
    for (std::size_t i = 0; i < all.size(); ++i) group[i]->push_back(all[i]);
  }
};

/// The parameters that a training updates.
enum class fine_tuning {
  all,                ///< FTALL, and training from scratch: gates by G steps, all others by F steps
  gates,              ///< FTG: G steps alone
  gates_and_outputs,  ///< FTG+: gates by G steps, output matrices by F steps
};

/// The parameters that G steps update. An Error if there are none.
template <class T>
[[nodiscard]] std::vector<parameter<T>> moved_by_g_steps(ParameterGroups<T> const& groups) {
  if (groups.gates.empty()) {
    fail("G steps: expected parameters of gates, which derive from router_param, found none among ",
         groups.outputs.size() + groups.rest.size(), " parameters");
  }
  return groups.gates;
}
/// The parameters that F steps update. An Error if there are none, or if the fine-tuning updates gates and the model
/// has none.
template <class T>
[[nodiscard]] std::vector<parameter<T>> moved_by_f_steps(ParameterGroups<T> const& groups, fine_tuning which) {
  if (which != fine_tuning::all && which != fine_tuning::gates && which != fine_tuning::gates_and_outputs) {
    fail("fine_tuning: expected one of its enumerators, found ", static_cast<int>(which));
  }
  if (which != fine_tuning::all) static_cast<void>(moved_by_g_steps(groups));
  if (which == fine_tuning::gates) return {};
  std::vector<parameter<T>> moved = groups.outputs;
  if (which == fine_tuning::all) moved.insert(moved.end(), groups.rest.begin(), groups.rest.end());
  if (moved.empty()) {
    fail("F steps: expected ",
         which == fine_tuning::all ? "parameters besides those of gates"
                                   : "output matrices of attention, which derive from attention_output",
         ", found none among ", groups.gates.size() + groups.rest.size(), " parameters");
  }
  return moved;
}

/// The schedule of G steps: every `g_every`-th period, the last one of each round. A period is an epoch in the paper
/// (Algorithm 3: epochs e with e mod 5 = 0, counted from 1), or a batch. The only state to save is the period.
struct BlockCoordinate {
  /// Number of periods of a round.
  Index g_every = 5;
  double gate_rate = 1;  ///< of plain gradient descent on the gates; momentum would favour the largest gates
  /// With `gates`, every step is a G step without an F step.
  fine_tuning moves = fine_tuning::all;

  /// True if a G step precedes the F step; periods count from 0.
  [[nodiscard]] constexpr bool g_step_in(Index period) const {
    return moves == fine_tuning::gates || (g_every > 0 && (period + 1) % g_every == 0);
  }

  /// One step: if a G step is due, `mixture()` computes the gradients of a soft mixture and the gates are updated;
  /// then, unless only gates are trained, `expert()` computes the gradients of drawn experts and `move()` updates
  /// moved_by_f_steps(). Both start from zero gradients: `zero()`. Gradients that a step does not use are discarded.
  /// @param gates an optimiser with step(rate)
  template <class Gates, std::invocable Zero, std::invocable Mixture, std::invocable Expert, std::invocable Move>
  void step(Index period, Gates& gates, Zero zero, Mixture mixture, Expert expert, Move move) const {
    if (g_step_in(period)) {
      zero();
      mixture();
      gates.step(gate_rate);
    }
    if (moves == fine_tuning::gates) return;
    zero();
    expert();
    move();
  }
};

}  // namespace headmix
