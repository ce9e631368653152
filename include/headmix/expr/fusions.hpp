#pragma once
// SPDX-License-Identifier: MIT
// All patterns of expr/fusion.hpp, so that every program knows all of them.

#include "headmix/expr/fusions/attention.hpp"
#include "headmix/expr/fusions/experts.hpp"
#include "headmix/expr/fusions/route.hpp"

namespace headmix {

/// True if the backend has a kernel of some pattern. Specialize it for a backend with patterns of its own. If false,
/// the long lists of steps are not searched.
template <class Backend>
inline constexpr bool fuses_steps = FusedRoute<Backend> || GatesAttention<Backend> || FusedExperts<Backend>;

}  // namespace headmix
