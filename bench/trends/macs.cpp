// SPDX-License-Identifier: MIT
// headmix-trends-macs OPTION...: multiply-accumulates of a token in the forward pass of headmix-lm with these options,
// the mean over a sequence of --context bytes. Exit status 2 and one line on stderr for options that headmix-lm refuses
// or ignores.

#include <cstdio>
#include <string_view>
#include <vector>

#include "../../examples/language_model/attention.hpp"
#include "../../examples/language_model/feed_forward_variants.hpp"
#include "../../examples/language_model/mae.hpp"
#include "../../examples/language_model/options.hpp"
#include "../../examples/program.hpp"
#include "headmix/count/count.hpp"

namespace {

using headmix::at, headmix::count_macs, headmix::Index;
using lm::Attention, lm::Ffn, lm::Options;

template <class Router>
Index moh(Options const& o) {
  using L = lm::Moh<Router>;
  auto const count = [&](auto... shared_heads) {
    return count_macs<L>(at<headmix::tokens>(o.context), at<typename L::model_dim>(o.width),
                         at<typename L::head_dim>(o.head_dim),
                         at<typename Router::routed_heads>(o.heads - o.shared_heads),
                         at<typename Router::routed_top_k>(o.top_k), shared_heads...);
  };
  if constexpr (Router::shared_heads::value == headmix::dynamic) {
    return count(at<typename Router::shared_heads>(o.shared_heads));
  } else {
    return count();
  }
}

Index attention(Options const& o) {
  using headmix::dynamic;
  auto const tokens = at<headmix::tokens>(o.context);
  if (o.attention == Attention::dense)
    return count_macs<lm::Dense>(tokens, at<lm::Dense::model_dim>(o.width), at<lm::Dense::head_dim>(o.head_dim),
                                 at<lm::Dense::heads>(o.heads));
  if (o.attention == Attention::moa) {
    using L = lm::MoaWith<>;
    return count_macs<L>(tokens, at<L::model_dim>(o.width), at<L::head_dim>(o.head_dim), at<L::experts>(o.experts),
                         at<L::top_k>(o.top_k));
  }
  if (o.attention == Attention::mae) {
    auto const count = [&]<class L>(std::type_identity<L>) {
      return std::apply([&](auto... sizes) { return count_macs<L>(tokens, sizes...); }, lm::mae_sizes(o));
    };
    return o.training == lm::Training::uniform ? count(std::type_identity<lm::Mae::mean>{})
                                               : count(std::type_identity<lm::Mae>{});
  }
  if (o.router == lm::HeadRouter::query_norm)
    return o.shared_heads == 0 ? moh<headmix::QueryNorm<0, dynamic, dynamic>>(o)
                               : moh<headmix::QueryNorm<dynamic, dynamic, dynamic>>(o);
  if (o.router == lm::HeadRouter::one_stage) return moh<lm::OneStage<dynamic, dynamic, dynamic>>(o);
  return o.shared_heads == 0 ? moh<headmix::TwoStage<0, dynamic, dynamic>>(o)
                             : moh<headmix::TwoStage<dynamic, dynamic, dynamic>>(o);
}

Index network(Options const& o, Index layer) {
  auto const tokens = at<headmix::tokens>(o.context);
  using Real = headmix::weights::real;  // ternary weights have as many
  if (!lm::has_mixture(o, layer)) {
    using L = lm::Gelu<Real>;
    return count_macs<L>(tokens, at<L::model_dim>(o.width), at<L::hidden_dim>(4 * o.width));
  }
  if (o.ffn_variant != lm::FfnVariant::none) {
    return lm::with_variant(
        o, [&]<class L>(std::type_identity<L>, auto... sizes) { return count_macs<L>(tokens, sizes...); });
  }
  auto const experts = at<lm::ExpertRouter::experts>(o.ffn_experts);
  auto const top_k = at<lm::ExpertRouter::top_k>(o.ffn_top_k);
  if (o.ffn == Ffn::smoe) {
    using L = lm::Smoe<Real>;
    return count_macs<L>(tokens, at<L::model_dim>(o.width), experts, top_k, at<L::network::hidden_dim>(o.hidden));
  }
  using L = lm::MhMoe<Real>;
  return count_macs<L>(tokens, at<L::model_dim>(o.width), at<L::split>(o.split), experts, top_k,
                       at<L::network::hidden_dim>(o.hidden));
}

double macs_per_token(Options const& o) {
  Index macs = count_macs<lm::Logits>(at<headmix::tokens>(o.context), at<lm::Stream::D>(o.width));
  for (Index layer = 0; layer < o.layers; ++layer) macs += attention(o) + network(o, layer);
  return static_cast<double>(macs) / static_cast<double>(o.context);
}

}  // namespace

int main(int argc, char** argv) {
  return program::run("headmix-trends-macs", [&] {
    Options const options = lm::parse_options({argv + (argc > 0 ? 1 : 0), argv + argc});
    if (!options.notes.empty()) throw lm::UsageError(options.notes.front());
    std::printf("%.0f\n", macs_per_token(options));
    return program::done;
  });
}
