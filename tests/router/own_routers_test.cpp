// SPDX-License-Identifier: MIT
// Routers of users: groups of experts (DeepSeek-V3), and experts that choose tokens (Zhou et al. 2022), by a custom
// operation; experts without rows cost nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <headmix/headmix.hpp>
#include <numeric>

namespace own_routers_test {

using namespace headmix;

namespace {

/// The TopK best experts of the TopGroups groups with the best pairs of experts.
template <Index Experts, Index Groups, Index TopGroups, Index TopK>
struct GroupLimited {
  struct experts : size<Experts> {};
  struct top_k : size<TopK> {};
  template <Expr X, class Tag = void>
  struct route : LossFreeTopK<Experts, TopK>::template route<X, Tag> {
    using base = typename LossFreeTopK<Experts, TopK>::template route<X, Tag>;
    using G = size<Groups>;
    static constexpr auto s = split_rows<G>(base::p + typename base::selection_bias{});
    static constexpr auto of_group = merge_rows<G>(row_sum(gather_cols(s, arg_top_k<size<2>>(s))));
    static constexpr auto open = split_rows<G>(one_hot(arg_top_k<size<TopGroups>>(of_group)));
    static constexpr auto index = arg_top_k<top_k>(merge_rows<G>(s - (number<1>{} - open) * number<1000>{}));
    static constexpr auto gate = normalize_sum(gather_cols(base::p, index)) * number<5, 2>{};
  };
};

/// Int [T, E]: e where token t is among the Capacity best of column e, else -1.
template <class Capacity>
struct columns_choose : operation {
  template <class...>
  static constexpr kind kind_of = kind::integer;
  static constexpr bool differentiable = false;
  template <class A>
  using shape_of = shape<rows<A>, cols<A>>;
  template <class A>
  using domain_of = cols<A>;
  static void eval(auto const& run, auto y, auto a) {
    std::vector<Index> order(static_cast<std::size_t>(a.rows));
    for (Index e = 0; e < a.cols; ++e) {
      std::iota(order.begin(), order.end(), Index{0});
      std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return a(i, e) > a(j, e); });
      for (Index n = 0; n < a.rows; ++n) {
        y(order[static_cast<std::size_t>(n)], e) = n < run.template extent<Capacity>() ? static_cast<Int>(e) : Int{-1};
      }
    }
  }
};
/// Every expert takes so many tokens that a token has PerToken experts on average.
template <Index Experts, Index PerToken>
struct ExpertChoice {
  struct experts : size<Experts> {};
  using top_k = experts;
  template <Expr X, class Tag = void>
  struct route {
    struct W_g : router_param<cols<X>, experts> {
      using initializer = fan_in_uniform;
    };
    static constexpr auto p = softmax(upcast(X{} % W_g{}));
    static constexpr auto index = make<columns_choose<over<times<size<PerToken>, rows<X>>, experts>>>(p);
    static constexpr auto gate = gather_cols(p, index);
    using losses = type_list<>;
  };
};
static_assert(RouterPolicy<GroupLimited<12, 4, 2, 3>> && RouterPolicy<ExpertChoice<6, 2>>);

/// Counts the rows of products with weights of experts.
struct counting : Reference<double> {
  inline static Index rows = 0;
  void grouped_gemm(view<double> y, view<double const> x, view<double const> w, view<Int const> perm,
                    view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
    rows += offsets(0, offsets.cols - 1);
    Reference<double>::grouped_gemm(y, x, w, perm, offsets, slots_per_row, scratch);
  }
};

}  // namespace

TEST_CASE("own routers: groups of experts") {
  using L = Smoe<12, GroupLimited<12, 4, 2, 3>, FeedForward<4>>;
  auto const r = gradcheck(L::y, at<tokens>(12));
  CHECK_MESSAGE(r.ok(), r.text);
  Module<L, counting> m(1);
  std::vector<double> x(20 * 12);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(2).normal(i);
  m.forward({x.data(), 20, 12});
  for (Index t = 0; t < 20; ++t) {
    std::array<bool, 4> used{};
    for (Index k = 0; k < 3; ++k) used[static_cast<std::size_t>(m.observed()(t, k) / 3)] = true;
    CHECK(std::count(used.begin(), used.end(), true) <= 2);
  }
}

TEST_CASE("own routers: experts choose tokens, and a choice of -1 costs no product") {
  using L = Smoe<12, ExpertChoice<6, 2>, FeedForward<4, activation::gelu>>;
  auto const r = gradcheck(L::y, at<tokens>(12));
  CHECK_MESSAGE(r.ok(), r.text);
  Module<L, counting> m(1);
  std::vector<double> x(36 * 12);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(2).normal(i);
  counting::rows = 0;
  m.forward({x.data(), 36, 12});
  std::array<Index, 6> load{};
  for (Index t = 0; t < 36; ++t) {
    for (Index e = 0; e < 6; ++e) load[static_cast<std::size_t>(e)] += m.observed()(t, e) == e ? 1 : 0;
  }
  CHECK(load == std::array<Index, 6>{12, 12, 12, 12, 12, 12});
  // Of 36 * 6 slots, 36 * 2 are chosen; one product computes slots, the other sums them.
  CHECK(counting::rows == 72);
}

}  // namespace own_routers_test
