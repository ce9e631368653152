#pragma once
// SPDX-License-Identifier: MIT
// Which type a value is stored in and which type it is computed in.

#include <type_traits>

#include "headmix/core/config.hpp"

namespace headmix {

/// How a value is stored: `real` in the backend's Scalar, `wide` in at least float (router arithmetic, statistics),
/// `integer` in Int (selections).
enum class kind { real, wide, integer };

template <class T>
struct wide_of {
  using type = float;
};
template <>
struct wide_of<double> {
  using type = double;
};
/// The type in which a storage type is accumulated: double for double, float for everything narrower.
template <class T>
using wide_t = typename wide_of<std::remove_const_t<T>>::type;

template <kind K, class Scalar>
using storage_t =
    std::conditional_t<K == kind::integer, Int, std::conditional_t<K == kind::wide, wide_t<Scalar>, Scalar>>;

}  // namespace headmix
