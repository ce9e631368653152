#pragma once
// SPDX-License-Identifier: MIT
// parameter<T>: one named weight of a module, as an optimiser, a checkpoint or a printout sees it.
// The module owns the memory and the name; a parameter is a handle to both. And what an optimiser keeps of it.

#include <array>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// Which part of a tensor is here, where it is divided among ranks: what lies from `first` on in all matrices, rows and
/// columns of the whole, [count, rows, cols].
struct tensor_part {
  bool divided = false;  ///< false: all of it is here, and nothing else is said
  std::array<Index, 3> first{};
  std::array<Index, 3> whole{};

  /// The number of an element in the whole, where its place in the part is [matrix, row, col].
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
  std::string_view qualified = {};  ///< the whole name of the leaf's type: two routers of a layer may have a W_g each
  tensor_part part = {};            ///< of the weight as one process would have it

  /// The extents that it has in one process: count, rows and columns.
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

/// One named tensor of an optimiser's state; whoever makes it owns the numbers, which are contiguous.
template <class T>
struct state_tensor {
  std::string name;
  view<T> value;
  tensor_part part = {};
};

/// An optimiser whose state can be saved (io/checkpoint.hpp). `state()` is a list of state_tensors, whose names are its
/// own ("m.W_q"), and which are read when it is saved and written when it is loaded. `steps()` counts the steps done.
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
/// The parameters of a module, and its buffers where it has any.
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
/// Fails if the name is that of several parameters; `whose` says of which module they are.
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
/// Which of `all` parameter `wanted[which]` is: the same leaf, or else the only one of its name; -1 for none. A name
/// that several leaves have is an error.
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
