// SPDX-License-Identifier: MIT
#include "sublayers.hpp"

namespace lm {
namespace {

using Network = Gelu<headmix::weights::real>;
template <class... Option>
using RankedSmoe = headmix::Smoe<dynamic, ExpertRouter, Experts<headmix::weights::real>, Option...>;
template <class... Option>
using RankedMhMoe = headmix::MhMoe<dynamic, dynamic, ExpertRouter, Experts<headmix::weights::real>, Option...>;

/// A mixture wrapped by Over, which may divide tokens, with options that may divide experts.
template <template <class> class Over, class... Option>
std::unique_ptr<Sublayer<float>> mixture(Options const& o, Index layer, Ranked const& backend) {
  auto const experts = at<ExpertRouter::experts>(o.ffn_experts);
  auto const top_k = at<ExpertRouter::top_k>(o.ffn_top_k);
  if (o.ffn == Ffn::smoe) {
    using L = RankedSmoe<Option...>;
    return make_ranked<Over<L>>(o, layer, "ffn", backend, at<typename L::model_dim>(o.width), experts, top_k,
                                at<typename L::network::hidden_dim>(o.hidden));
  }
  using L = RankedMhMoe<Option...>;
  return make_ranked<Over<L>>(o, layer, "ffn", backend, at<typename L::model_dim>(o.width),
                              at<typename L::split>(o.split), experts, top_k,
                              at<typename L::network::hidden_dim>(o.hidden));
}
std::unique_ptr<Sublayer<float>> dense(Options const& o, Index layer, Ranked const& backend) {
  return make_ranked<Network>(o, layer, "ffn", backend, at<Network::model_dim>(o.width),
                              at<Network::hidden_dim>(4 * o.width));
}

}  // namespace

std::unique_ptr<Sublayer<float>> network_by_data(Options const& o, Index layer, Ranked const& backend) {
  return has_mixture(o, layer) ? mixture<headmix::DataParallel>(o, layer, backend) : dense(o, layer, backend);
}

std::unique_ptr<Sublayer<float>> network_by_heads(Options const& o, Index layer, Ranked const& backend) {
  if (has_mixture(o, layer)) return mixture<std::type_identity_t>(o, layer, backend);
  return make_ranked<DividedGelu>(o, layer, "ffn", backend, at<DividedGelu::model_dim>(o.width),
                                  at<DividedGelu::hidden_dim>(4 * o.width));
}

std::unique_ptr<Sublayer<float>> network_by_experts(Options const& o, Index layer, Ranked const& backend) {
  if (!has_mixture(o, layer)) return dense(o, layer, backend);
  return mixture<headmix::DataParallel, expert_parallel>(o, layer, backend);
}

}  // namespace lm
