#pragma once
// SPDX-License-Identifier: MIT
// The part of a running program that its calls see, for programs of any sizes.

#include <span>

#include "headmix/contract/optional_kernels.hpp"
#include "headmix/program/table/rows.hpp"

namespace headmix {

namespace detail {
/// Prepared weights of backends without any.
struct no_prepared_weights {
  template <class T>
  void add(view<T>) {}
};
template <class Backend>
struct prepared_weights_of {
  using type = no_prepared_weights;
};
template <PreparesWeights Backend>
struct prepared_weights_of<Backend> {
  using type = typename Backend::prepared_weights;
};
}  // namespace detail

/// Copies of constant weights in the layout that a backend's kernels read; nothing where the backend has no such
/// layout.
template <class Backend>
using prepared_weights = typename detail::prepared_weights_of<Backend>::type;

namespace detail {

template <class Backend>
struct run_context {
  using backend_type = Backend;
  /// Runs the kernels.
  Backend& backend;
  /// The values of dynamic sizes.
  bound_sizes const& sizes;
  /// Memory for the duration of the call.
  std::span<std::byte> scratch;
  prepared_weights<Backend>* prepared = nullptr;
};

}  // namespace detail
}  // namespace headmix
