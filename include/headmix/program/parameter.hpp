#pragma once
// SPDX-License-Identifier: MIT
// parameter<T>: a named weight of a module and its gradient, for optimisers and checkpoints. The module owns the memory
// and the name. state_tensor: a named tensor of an optimiser.

#include <array>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// The part of a tensor that a rank has: from `first` on along each dimension of the whole, [count, rows, cols].
struct tensor_part {
  bool divided = false;  ///< false: the whole tensor; the other members are not set
  std::array<Index, 3> first{};
  std::array<Index, 3> whole{};

  /// The number in the whole tensor of element [matrix, row, col] of the part.
  [[nodiscard]] Index number(Index matrix, Index row, Index col) const {
    return ((first[0] + matrix) * whole[1] + first[1] + row) * whole[2] + first[2] + col;
  }
};

/// A weight and the gradient that backward passes add to; both contiguous, with the same count, rows and cols. The
/// gradient of a module for inference is empty.
template <class T>
struct parameter {
  std::string_view name;
  view<T> value;
  view<T> gradient;
  std::string_view qualified = {};  ///< of the leaf's type: two routers of a layer may have a W_g each
  tensor_part part = {};            ///< of the weight of a single process

  /// Count, rows and columns of the whole weight.
  [[nodiscard]] std::array<Index, 3> whole() const {
    return part.divided ? part.whole : std::array<Index, 3>{value.count, value.rows, value.cols};
  }
};

/// Ternary matrices [in, out] packed for inference (core/ternary.hpp): [matrices, 1, words].
struct packed_parameter {
  std::string_view name;
  view<Int> words;
  Index in, out;
  std::string_view qualified = {};
};

/// A named tensor of an optimiser's state, contiguous; the optimiser owns the memory.
template <class T>
struct state_tensor {
  std::string name;
  view<T> value;
  tensor_part part = {};
};

/// An optimiser whose state can be saved (io/checkpoint.hpp). `state()` is a list of state_tensors with unique names
/// ("m.W_q"), which save() reads and load() writes. `steps()` is the number of completed steps.
/// State in the memory of a backend: the optimiser also has `backend()`.
template <class O>
concept StatefulOptimiser = requires(O& optimiser, O const& saved, Index steps) {
  saved.state().begin()->value.data;
  { saved.steps() } -> std::convertible_to<Index>;
  optimiser.set_steps(steps);
};

namespace detail {

struct parameter_name {
  std::string_view name, qualified;
};
template <class Parameters>
std::vector<parameter_name> names_of(Parameters const& parameters) {
  std::vector<parameter_name> names;
  for (auto const& p : parameters) names.push_back({p.name, p.qualified});
  return names;
}
/// The parameters of a module, then its buffers.
template <class M>
auto with_buffers(M const& m) {
  auto const& parameters = m.parameters();
  std::vector<std::remove_cvref_t<decltype(*parameters.begin())>> all(parameters.begin(), parameters.end());
  if constexpr (requires { m.buffers(); }) {
    auto const& buffers = m.buffers();
    all.insert(all.end(), buffers.begin(), buffers.end());
  }
  return all;
}
/// Fails if several parameters have the name; `whose` names their module.
inline void check_unambiguous(std::string_view name, std::vector<parameter_name> const& all, char const* whose) {
  std::string found;
  int n = 0;
  for (auto const& p : all) {
    if (p.name != name) continue;
    found += message(n++ == 0 ? "" : " and ", p.qualified);
  }
  if (n > 1) {
    fail(name, " is the name of ", n, " parameters of ", whose, ": ", found,
         "; give the leaves names of their own, `static constexpr char const* name = \"...\"`, or copy values one by "
         "one "
         "with get<Leaf>()");
  }
}
/// The index in `all` of parameter `wanted[which]`: the same leaf, else the only one of its name; -1 for none. Fails if
/// several leaves have the name.
inline int find_parameter(std::vector<parameter_name> const& wanted, std::size_t which, char const* whose_wanted,
                          std::vector<parameter_name> const& all, char const* whose) {
  auto const& p = wanted[which];
  int found = -1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == p.name) found = static_cast<int>(i);
    if (all[i].name == p.name && !p.qualified.empty() && all[i].qualified == p.qualified) return found;
  }
  if (found < 0) return found;
  check_unambiguous(p.name, all, whose);
  check_unambiguous(p.name, wanted, whose_wanted);
  return found;
}

}  // namespace detail
}  // namespace headmix
