// SPDX-License-Identifier: MIT
#include "sublayers.hpp"

namespace lm {

std::unique_ptr<Sublayer<float>> dense_by_data(Options const& o, Index layer, Ranked const& backend) {
  return make_ranked<headmix::DataParallel<Dense>>(o, layer, "attn", backend, at<Dense::model_dim>(o.width),
                                                   at<Dense::head_dim>(o.head_dim), at<Dense::heads>(o.heads),
                                                   at<Dense::kv_heads>(o.heads));
}

std::unique_ptr<Sublayer<float>> moa_by_data(Options const& o, Index layer, Ranked const& backend) {
  using L = MoaWith<>;
  return make_ranked<headmix::DataParallel<Moa>>(o, layer, "attn", backend, at<L::model_dim>(o.width),
                                                 at<L::head_dim>(o.head_dim), at<L::experts>(o.experts),
                                                 at<L::top_k>(o.top_k));
}

std::unique_ptr<Sublayer<float>> moh_by_data(Options const& o, Index layer, Ranked const& backend) {
  return make_ranked_moh<headmix::DataParallel>(o, layer, backend);
}

}  // namespace lm
