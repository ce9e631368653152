// SPDX-License-Identifier: MIT
// Expressions are empty types, equal types are equal values, and the concepts accept their archetypes.

#include "headmix/headmix.hpp"

namespace static_concepts {

using namespace headmix;

namespace {

template <class A, class B>
inline constexpr bool same = std::is_same_v<A, B>;

struct D : size<8> {};
struct x : input<tokens, D> {};
struct z : input<tokens, D> {};
struct W : param<D, D> {};
struct word : selection<tokens, size<1>, D> {};

// Expressions have no members.
using layer = Moa<8, 4, SoftmaxTopK<4, 2>, causal>;
static_assert(std::is_empty_v<x> && std::is_empty_v<decltype(x{} % W{})>);
static_assert(std::is_empty_v<std::remove_cv_t<decltype(layer::y)>> &&
              std::is_trivial_v<std::remove_cv_t<decltype(layer::y)>>);
static_assert(sizeof(layer) == 1);

// Type identity is value identity.
static_assert(same<decltype(x{} % W{} + z{}), decltype(x{} % W{} + z{})>);
static_assert(!same<decltype(x{} % W{}), decltype(z{} % W{})>);
static_assert(same<decltype(t(t(x{}))), x>);
static_assert(detail::nodes_of<roots<decltype(x{} * x{} + x{} * x{})>>::size == 3);
static_assert(detail::nodes_of<roots<decltype(exp(x{}) * exp(x{}))>>::size == 3);
static_assert(same<detail::nodes_of<roots<decltype(x{} % W{})>>, type_list<x, W, decltype(x{} % W{})>>);
static_assert(same<leaves_of<roots<decltype(x{} % W{} + x{} * z{})>>, type_list<x, W, z>>);
static_assert(detail::schedule<type_list<>, type_list<decltype(exp(x{} % W{}) * (x{} % W{}))>>::size == 2);
// In a layer the selection, its order and the keys are computed once.
using program = Program<roots<std::remove_cv_t<decltype(layer::y)>>, Reference<float>, inference>;
static_assert(leaves_of<roots<std::remove_cv_t<decltype(layer::y)>>>::size == 6);
static_assert(detail::contains<program::forward_steps,
                               detail::run_kernel<std::remove_cv_t<decltype(sort_by_expert(layer::r::index))>>>);
// Inactive heads are not computed: neither their queries, if the router reads the layer's input, nor in inference their
// attention.
template <class Y>
using values_in = detail::nodes_of<roots<std::remove_cv_t<Y>>>;
using mixture = Moh<8, 4, TwoStage<1, 3, 2>, causal>;
using by_queries = Moh<8, 4, QueryNorm<1, 3, 2>, causal>;
static_assert(!detail::contains<values_in<decltype(mixture::y)>, decltype(mixture::x{} % mixture::W_q{})>);
static_assert(same<decltype(mixture::y), decltype(mixture::y_inference)>);
static_assert(detail::contains<values_in<decltype(by_queries::y)>,
                               decltype(attention<causal, size<4>>(by_queries::all_q, by_queries::k, by_queries::v))>);
static_assert(!detail::contains<values_in<decltype(by_queries::y_inference)>,
                                decltype(attention<causal, size<4>>(by_queries::all_q, by_queries::k, by_queries::v))>);

// let.
struct h : let<decltype(exp(x{}) + z{})> {};
struct named : let<decltype(x{} % W{})> {};
static_assert(Expr<h> && !Leaf<h> && h::grad && same<cols<h>, D> && same<rows<h>, tokens>);
static_assert(!Alias<h> && Stored<h> && Alias<named> && !Stored<named>);
struct chosen : let<decltype(arg_top_k<size<2>>(x{}))> {};
static_assert(Selection<chosen> && same<domain<chosen>, D> && !chosen::grad);

// Gradients.
static_assert(x::grad && W::grad && !word::grad && !constant<tokens, D>::grad && !number<1>::grad);
static_assert((x{} % W{}).grad && !detach(x{} % W{}).grad && (x{} + detach(x{})).grad && !arg_top_k<size<2>>(x{}).grad);
static_assert(!(detach(x{}) * number<2>{}).grad && !one_hot(word{}).grad && gather_rows(W{}, word{}).grad);

// Concepts.
static_assert(Expr<x> && Leaf<x> && !Leaf<decltype(x{} % W{})> && !Expr<int> && !Expr<D>);
static_assert(Pointwise<decltype(x{} + z{})> && Pointwise<number<1>> && !Pointwise<decltype(x{} % W{})> &&
              !Pointwise<x>);
static_assert(Selection<word> && !Selection<x>);
static_assert(Parameter<W> && !Parameter<x> && !Parameter<word>);

// Every operand of a pointwise operation is compared with the first one.
static_assert(same<pointwise::checks<x>, type_list<>> && !same<pointwise::checks<x, W>, type_list<>> &&
              !same<pointwise::checks<x, x, W>, pointwise::checks<x, x>>);

struct cube : pointwise {
  template <class T>
  static T f(T a) {
    return a * a * a;
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(number<3>{} * dy * a * a); }
};
struct to_int : pointwise {
  static int f(double a) { return static_cast<int>(a); }
};
struct no_operation {
  template <class T>
  static T f(T a) {
    return a;
  }
};
static_assert(ScalarOp<ops::tanh> && ScalarOp<cube> && !ScalarOp<to_int> && !ScalarOp<no_operation> &&
              !ScalarOp<ops::add>);

struct even {
  static constexpr bool sees(Index, Index s) { return s % 2 == 0; }
};
struct blind {};
static_assert(AttentionMask<full> && AttentionMask<causal> && AttentionMask<sliding_window<1>> && AttentionMask<even>);
static_assert(!AttentionMask<blind> && !AttentionMask<int> && dense_mask<causal> && !dense_mask<even>);

/// Every row chooses the first expert.
struct first_expert {
  struct experts : size<3> {};
  struct top_k : size<1> {};
  template <Expr X, class = void>
  struct route {
    struct W_g : param<cols<X>, experts> {};
    static constexpr auto p = softmax(X{} % W_g{});
    static constexpr auto index = arg_top_k<top_k>(p);
    static constexpr auto gate = gather_cols(p, index);
    using losses = type_list<>;
  };
};
struct without_gate {
  struct experts : size<3> {};
  struct top_k : size<1> {};
  template <Expr X, class = void>
  struct route {
    struct W_g : param<cols<X>, experts> {};
    static constexpr auto index = arg_top_k<top_k>(X{} % W_g{});
    using losses = type_list<>;
  };
};
static_assert(RouterPolicy<SoftmaxTopK<8, 2, gating::raw>> && RouterPolicy<SoftmaxTopK<dynamic, 1>> &&
              RouterPolicy<first_expert>);
static_assert(!RouterPolicy<without_gate> && !RouterPolicy<int> && !RouterPolicy<full>);

static_assert(LayerPolicy<layer> && LayerPolicy<Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>>> &&
              LayerPolicy<MultiHead<8, 2, 4>>);
static_assert(LayerPolicy<mixture> && LayerPolicy<by_queries> &&
              LayerPolicy<Moh<dynamic, dynamic, TwoStage<dynamic, dynamic, dynamic>>>);
static_assert(LayerPolicy<Moh<8, 4, first_expert>> && LayerPolicy<Moh<8, 4, TwoStage<4, 0, 0>>>);
static_assert(ReadsQueries<QueryNorm<1, 3, 2>> && !ReadsQueries<TwoStage<1, 3, 2>> && !ReadsQueries<int>);
static_assert(LayerPolicy<Moa<8, 4, first_expert>> && !LayerPolicy<x> && !LayerPolicy<int>);

/// An expert without a function of its mixture, and one whose result is equal for all rows.
struct without_mixture {
  template <Extent E, Extent D, class = void>
  struct experts {};
};
struct one_result {
  template <Extent E, Extent D, class = void>
  struct experts {
    struct b : param<D> {};
    static constexpr auto mixture(Expr auto, Expr auto, Selection auto) { return b{} + b{}; }
  };
};
static_assert(ExpertPolicy<FeedForward<8>> && ExpertPolicy<FeedForward<dynamic, activation::gelu, weights::packed>>);
static_assert(!ExpertPolicy<without_mixture> && !ExpertPolicy<one_result> && !ExpertPolicy<first_expert> &&
              !ExpertPolicy<int>);
static_assert(LayerPolicy<MhMoe<8, 2, first_expert, FeedForward<4>>> &&
              LayerPolicy<Smoe<8, first_expert, FeedForward<4>>>);
static_assert(
    LayerPolicy<MhMoe<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, FeedForward<dynamic>, capacity<dynamic>>>);

static_assert(BackendPolicy<Reference<float>> && BackendPolicy<Reference<double>> && !BackendPolicy<serial>);
static_assert(PackedGemm<Reference<float>> && PackedGemm<Cpu<float>> && !PackedGemm<archetype::backend<float>>);
static_assert(StoresProbabilities<Cpu<float>> && !StoresProbabilities<Reference<float>>);
static_assert(MapsScores<Cpu<float>> && MapsScores<Reference<double>> && !MapsScores<archetype::backend<float>>);
static_assert(PreparesWeights<Cpu<float>> && !PreparesWeights<Reference<float>>);
static_assert(!FusedRoute<Cpu<float>> && !FusedGatedAttention<Cpu<float>> && AttentionGradientInPlace<Cpu<float>>);

struct two_at_a_time {
  template <class F>
  void parallel_for(Index n, F&& f) const {
    for (Index i = 0; i < n; i += 2) {
      f(i);
      if (i + 1 < n) f(i + 1);
    }
  }
  static Index concurrency() { return 2; }
};
static_assert(Executor<serial> && Executor<two_at_a_time> && !Executor<Reference<float>>);

}  // namespace

}  // namespace static_concepts
