// SPDX-License-Identifier: MIT
#include "sublayers.hpp"

namespace lm {

std::unique_ptr<Sublayer<float>> dense_by_heads(Options const& o, Index layer, Ranked const& backend) {
  using L = DenseWith<tensor_parallel>;
  return make_ranked<L>(o, layer, "attn", backend, at<L::model_dim>(o.width), at<L::head_dim>(o.head_dim),
                        at<L::heads>(o.heads));
}

std::unique_ptr<Sublayer<float>> moh_by_heads(Options const& o, Index layer, Ranked const& backend) {
  return make_ranked_moh<std::type_identity_t, tensor_parallel>(o, layer, backend);
}

}  // namespace lm
