#pragma once
// SPDX-License-Identifier: MIT
// The parts of a layer that its module uses: roots, parameters, buffers, other leaves with memory, and losses.

#include <array>
#include <type_traits>

#include "headmix/expr/loss_name.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/program/lower/gradient.hpp"
#include "headmix/program/module/memory.hpp"

namespace headmix {

namespace detail {
template <class Y, class Losses, class Observed>
struct module_roots;
template <class Y, class... L, class... O>
struct module_roots<Y, type_list<L...>, type_list<O...>> {
  using type = roots<Y, L..., O...>;
};
/// The result y in a mode.
template <class L, class Mode>
constexpr auto result_of() {
  if constexpr (requires { L::y_inference; } && std::is_same_v<Mode, inference>) {
    return std::remove_cvref_t<decltype(L::y_inference)>{};
  } else {
    return std::remove_cvref_t<decltype(L::y)>{};
  }
}
struct is_known {
  template <class E>
  static constexpr bool value = requires {
    E::element(Index{}, Index{});
  }
  || requires { E::element(Index{}, Index{}, Index{}); };
};
/// Element (row, column) of a leaf of known elements, with so many columns.
template <class E>
auto known_element(Index row, Index col, Index cols) {
  if constexpr (requires { E::element(row, col); }) {
    return E::element(row, col);
  } else {
    return E::element(row, col, cols);
  }
}
/// Writes the elements of a known leaf in row-major order.
template <class Leaf, class T>
void write_known(T* to, Index rows, Index cols) {
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) *to++ = static_cast<T>(detail::known_element<Leaf>(i, j, cols));
  }
}
struct is_parameter {
  template <class E>
  static constexpr bool value = Parameter<E>;
};
struct is_packed {
  template <class E>
  static constexpr bool value = PackedParameter<E>;
};
struct is_buffer {
  template <class E>
  static constexpr bool value = ModuleBuffer<E>;
};
/// Printed by compilers: the name of a loss and its extents, -1 for one that is not static.
template <class Name, Index Rows, Index Cols>
inline constexpr bool is_one_number = Rows == 1 && Cols == 1;
template <class Name, Index Rows, Index Cols>
struct checked_loss : std::true_type {
  static_assert(is_one_number<Name, Rows, Cols>,
                "headmix: a loss is a single number, [1, 1]; see 'is_one_number<name, rows, columns>', and write the "
                "mean() or the sum() of these numbers");
};
template <class List>
struct checked_losses;
template <class... E>
struct checked_losses<type_list<E...>> {
  static constexpr bool value =
      (checked_loss<typename name_of_loss<E>::type, rows<E>::value, cols<E>::value>::value && ...);
};
template <class List>
struct loss_names;
template <class... E>
struct loss_names<type_list<E...>> {
  static constexpr std::array<char const*, sizeof...(E)> sources = {loss_name_source<E>...};
};
template <class Initial>
double initial_value(Random const& random, std::uint64_t element, Index rows, Index cols) {
  return Initial::value(random, element, rows, cols);
}
struct is_random_key {
  template <class E>
  static constexpr bool value = std::is_base_of_v<random_key, E>;
};
template <class Leaves, class... P>
consteval auto parameter_rows_of(type_list<P...>) {
  return std::array<parameter_row, sizeof...(P)>{
      parameter_row{position_in<Leaves, P>::value, &initial_value<typename P::initializer>}...};
}
}  // namespace detail

}  // namespace headmix
