#pragma once
// SPDX-License-Identifier: MIT
#include "../../examples/language_model/options.hpp"

namespace trends {

/// Multiply-accumulates of a token in the forward pass of headmix-lm: the mean over a sequence of --context bytes, as
/// headmix::count_macs has them of its layers.
[[nodiscard]] double macs_per_token(lm::Options const& options);

}  // namespace trends
