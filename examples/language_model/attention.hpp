#pragma once
// SPDX-License-Identifier: MIT
// The kinds of attention except mae: all heads, experts of attention, heads as experts.

#include <type_traits>

#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "module_sublayer.hpp"

namespace lm {

using headmix::at;

/// Layers with rotary embedding and these options.
template <class... Option>
using DenseWith = headmix::MultiHead<dynamic, dynamic, dynamic, headmix::causal, headmix::rope<>, Option...>;
template <class... Option>
using MoaWith =
    headmix::Moa<dynamic, dynamic, headmix::SoftmaxTopK<dynamic, dynamic>, headmix::causal, headmix::rope<>, Option...>;
template <class Router, class... Option>
using Moh = headmix::Moh<dynamic, dynamic, Router, headmix::causal, headmix::rope<>, Option...>;
using Dense = DenseWith<>;
using Moa = Scaled<MoaWith<>>;
/// MoH with one stage: one softmax weighs the shared heads and the best routed ones. The mean weight is 1.
template <Index Shared, Index Routed, Index TopK>
struct OneStage {
  struct shared_heads : headmix::size<Shared> {};
  struct routed_heads : headmix::size<Routed> {};
  struct routed_top_k : headmix::size<TopK> {};
  using experts = headmix::plus<shared_heads, routed_heads>;
  using top_k = headmix::plus<shared_heads, routed_top_k>;

  template <headmix::Expr X, class Tag>
  struct values {
    struct W_r : headmix::router_param<headmix::cols<X>, experts> {
      using initializer = headmix::normal<2, 100>;
    };
    static constexpr auto z = upcast(X{} % W_r{});
    static constexpr auto p = softmax(gather_cols(z, headmix::iota_cols<shared_heads, routed_heads, experts>(z)));
    static constexpr auto chosen = headmix::arg_top_k<routed_top_k>(p);
    static constexpr auto index = headmix::shared_and<shared_heads>(chosen);
    static constexpr auto gate = headmix::value_of<top_k>{} * softmax(gather_cols(z, index));
  };
  template <headmix::Expr X, class Tag = void>
  struct route : values<X, Tag> {
    static constexpr auto balance =
        headmix::named_loss<"head_balance">(headmix::loss::head_balance::of<values<X, Tag>>);
    using losses = headmix::type_list<std::remove_cv_t<decltype(balance)>>;
    using observed = headmix::type_list<std::remove_cv_t<decltype(values<X, Tag>::chosen)>>;
  };
};

template <class L, class Backend>
class AttentionSublayer final : public ModuleSublayer<L, Backend> {
  using T = typename Backend::scalar;

 public:
  /// Passes on the sizes of the layer.
  template <class... Sizes>
  AttentionSublayer(Options const& o, Index layer, Backend const& backend, Sizes... sizes)
      : ModuleSublayer<L, Backend>(o, seed_of(o, layer, "attn"), backend, sizes...), text_(o, this->module_, sizes...) {
    auto const scale = static_cast<T>(static_cast<float>(o.moa_scale));
    headmix::upload(backend, scale_.template as<T>(), &scale, 1);
    bind_scale(this->module_.program());
  }

  void begin_text() override { bind_scale(text_.begin()); }
  view<T const> continue_text(view<T const> h) override { return text_.read(h); }
  void end_text() override { text_.end(); }

 private:
  void bind_scale([[maybe_unused]] auto& program) {
    if constexpr (requires { typename L::scale; }) {
      program.bind(Residual<L>::of_layer(typename L::scale{}), {scale_.template as<T>(), 1, 1});
    }
  }

  TextReader<L, Backend> text_;
  headmix::backend_memory<Backend> scale_{sizeof(T)};
};

template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_dense(Options const& o, Index layer, Backend const& backend) {
  return std::make_unique<AttentionSublayer<Dense, Backend>>(o, layer, backend, at<Dense::model_dim>(o.width),
                                                             at<Dense::head_dim>(o.head_dim), at<Dense::heads>(o.heads),
                                                             at<Dense::kv_heads>(o.heads));
}
template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_moa(Options const& o, Index layer, Backend const& backend) {
  using L = MoaWith<>;
  return std::make_unique<AttentionSublayer<Moa, Backend>>(o, layer, backend, at<L::model_dim>(o.width),
                                                           at<L::head_dim>(o.head_dim), at<L::experts>(o.experts),
                                                           at<L::top_k>(o.top_k));
}
template <class Router, class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_moh_with(Options const& o, Index layer,
                                                                  Backend const& backend) {
  using L = Moh<Router>;
  auto const make = [&](auto... shared_heads) {
    return std::make_unique<AttentionSublayer<L, Backend>>(o, layer, backend, at<typename L::model_dim>(o.width),
                                                           at<typename L::head_dim>(o.head_dim),
                                                           at<typename Router::routed_heads>(o.heads - o.shared_heads),
                                                           at<typename Router::routed_top_k>(o.top_k), shared_heads...);
  };
  if constexpr (Router::shared_heads::value == dynamic) {
    return make(at<typename Router::shared_heads>(o.shared_heads));
  } else {
    return make();
  }
}
template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_moh(Options const& o, Index layer, Backend const& backend) {
  using headmix::QueryNorm, headmix::TwoStage;
  if (o.router == HeadRouter::query_norm) {
    return o.shared_heads == 0 ? make_moh_with<QueryNorm<0, dynamic, dynamic>>(o, layer, backend)
                               : make_moh_with<QueryNorm<dynamic, dynamic, dynamic>>(o, layer, backend);
  }
  if constexpr (std::is_same_v<typename Backend::scalar, float> && Backend::host_memory) {  // otherwise refused
    if (o.router == HeadRouter::one_stage) return make_moh_with<OneStage<dynamic, dynamic, dynamic>>(o, layer, backend);
  }
  return o.shared_heads == 0 ? make_moh_with<TwoStage<0, dynamic, dynamic>>(o, layer, backend)
                             : make_moh_with<TwoStage<dynamic, dynamic, dynamic>>(o, layer, backend);
}

}  // namespace lm
