#pragma once
// SPDX-License-Identifier: MIT
// Every pattern of expr/fusion.hpp, so that all programs know the same ones.

#include "headmix/expr/fusions/attention.hpp"
#include "headmix/expr/fusions/experts.hpp"
#include "headmix/expr/fusions/route.hpp"

namespace headmix {

/// True when the backend has a kernel that some pattern asks for; to be specialized for a backend with a pattern of its
/// own. Lists of steps are long: nothing is made of them where it is false.
template <class Backend>
inline constexpr bool fuses_steps = FusedRoute<Backend> || GatesAttention<Backend> || FusedExperts<Backend>;

}  // namespace headmix
