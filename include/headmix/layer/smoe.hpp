#pragma once
// SPDX-License-Identifier: MIT
// Sparse mixture of feed-forward experts (Shazeer et al. 2017; Fedus et al. 2021): every token picks k of E experts.

#include "headmix/layer/mh_moe.hpp"

namespace headmix {

/// x [tokens, D] -> y [tokens, D]: MhMoe without splitting, head and merge layers; its other options apply. Many
/// experts of a small inner width are the fine-grained mixture (Dai et al. 2024).
template <Index Width, GivenRouter Router, GivenExpert Expert, class... Options>
using Smoe = MhMoe<Width, 1, Router, Expert, no_head, no_merge, Options...>;

}  // namespace headmix
