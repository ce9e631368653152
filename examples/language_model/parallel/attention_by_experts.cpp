// SPDX-License-Identifier: MIT
#include "sublayers.hpp"

namespace lm {

std::unique_ptr<Sublayer<float>> moa_by_experts(Options const& o, Index layer, Ranked const& backend) {
  using L = MoaWith<expert_parallel>;
  return make_ranked<Scaled<L>>(o, layer, "attn", backend, at<L::model_dim>(o.width), at<L::head_dim>(o.head_dim),
                                at<L::experts>(o.experts), at<L::top_k>(o.top_k));
}

}  // namespace lm
