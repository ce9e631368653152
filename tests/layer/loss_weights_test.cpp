// SPDX-License-Identifier: MIT
// Weights of losses by order and by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <headmix/headmix.hpp>

#include "../error_of.hpp"

namespace loss_weights_test {

using namespace headmix;
using headmix::test::error_of;

namespace {

struct router_entropy : loss::policy {
  template <class R>
  static constexpr auto of = number<-1>{} * sum(R::p* log(R::p));
};
using Router = SoftmaxTopK<3, 2, loss::load_balance, router_entropy, init<fan_in_uniform>>;
struct Net {
  struct x : input<tokens, size<8>> {};
  static constexpr auto first = use<Smoe<8, Router, FeedForward<4>>, "first">(x{});
  static constexpr auto blocks = repeat<2, Smoe<8, Router, FeedForward<4>>, "blocks">(x{} + first.y);
  static constexpr auto y = blocks.y;
  static constexpr auto size_of_y = named_loss<"size">(mean(square(first.y)));
  using losses = concat<losses_of<first, blocks>, type_list<std::remove_cv_t<decltype(size_of_y)>>>;
  using observed = observed_of<first, blocks>;
};

/// The router of the page on new routers, with more of the library's losses.
template <Index Experts, Index TopK>
struct SigmoidTopK {
  struct experts : size<Experts> {};
  struct top_k : size<TopK> {};
  template <Expr X, class Tag = void>
  struct route {
    struct W_g : router_param<cols<X>, experts> {
      using initializer = fan_in_uniform;
    };
    static constexpr auto z = upcast(X{} % W_g{});
    static constexpr auto p = sigmoid(z);
    static constexpr auto index = arg_top_k<top_k>(p);
    static constexpr auto gate = gather_cols(p, index);
    static constexpr auto load = load_balance(p, index);
    static constexpr auto logits = z_loss(z);
    static constexpr auto importance = cv_squared(gate, index);
    static constexpr auto other = named_loss<"other">(load_balance(p, index));
    static constexpr auto sum = load + number<2>{} * logits;
    using losses = type_list<std::remove_cv_t<decltype(load)>, std::remove_cv_t<decltype(logits)>,
                             std::remove_cv_t<decltype(importance)>, std::remove_cv_t<decltype(other)>,
                             std::remove_cv_t<decltype(sum)>>;
  };
};

}  // namespace

TEST_CASE("ready-made losses name themselves, and a message says how to name others") {
  Module<Smoe<8, SigmoidTopK<3, 2>, FeedForward<4>>, Cpu<double>> m(1);
  CHECK(m.loss_names() ==
        std::vector<std::string_view>{"load_balance", "z", "cv_squared", "other", "(a loss without a name)"});
  std::vector<double> x(5 * 8, 0.5);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(2).normal(i);
  view<double const> const rows(x.data(), 5, 8);
  m.forward(rows);
  CHECK(m.loss<4>() == doctest::Approx(m.loss<0>() + 2 * m.loss<1>()));
  CHECK(m.loss<3>() == m.loss<0>());
  CHECK(error_of([&] {
          m.backward(rows, {{"load_balance", 1}, {"z", 1}, {"cv_squared", 1}, {"other", 1}});
        }) ==
        "headmix: backward(): expected a weight for the loss (a loss without a name), found none; the losses are "
        "load_balance, z, cv_squared, other, (a loss without a name); name it in the layer, "
        "named_loss<\"name\">(loss), or give weights in this order");
}
TEST_CASE("weights by name are those by order") {
  Module<Net, Cpu<float>> m(1);
  CHECK(m.loss_names() == std::vector<std::string_view>{"first.load_balance", "first.router_entropy",
                                                        "blocks.*.load_balance", "blocks.*.router_entropy", "size"});
  std::vector<float> x(12 * 8), dy(12 * 8, 0.5f);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(Random(2).normal(i));
  view<float const> const rows(x.data(), 12, 8), gradient(dy.data(), 12, 8);
  m.forward(rows);
  auto const gradients = [&](auto&& weights) {
    m.zero_gradients();
    m.backward(gradient, weights);
    std::vector<float> all;
    for (auto const& p : m.parameters()) all.insert(all.end(), p.gradient.data, p.gradient.data + p.gradient.size());
    return all;
  };
  auto const expected = gradients(std::initializer_list<double>{0.25, 0.5, 0.25, 0.75, 2});
  CHECK(expected == gradients(std::vector<double>{0.25, 0.5, 0.25, 0.75, 2}));
  CHECK(expected ==
        gradients(loss_weights{
            {"load_balance", 0.25}, {"first.router_entropy", 0.5}, {"blocks.*.router_entropy", 0.75}, {"size", 2}}));
  CHECK(expected != gradients(loss_weights{{"load_balance", 0.25}, {"router_entropy", 0.5}, {"size", 2}}));

  CHECK(error_of([&] {
          m.backward(gradient, {{"load_balance", 0.25}, {"size", 2}});
        }) ==
        "headmix: backward(): expected a weight for the loss first.router_entropy, found none; the losses are "
        "first.load_balance, first.router_entropy, blocks.*.load_balance, blocks.*.router_entropy, size");
  CHECK(error_of([&] {
          m.backward(gradient, {{"load_balance", 1}, {"first.load_balance", 1}, {"router_entropy", 1}, {"size", 2}});
        }) ==
        "headmix: backward(): expected one weight for the loss first.load_balance, found two: load_balance and "
        "first.load_balance");
  CHECK(error_of([&] {
          m.backward(gradient, {{"load_balance", 1}, {"router_entropy", 1}, {"size", 2}, {"z", 1}});
        }).find("expected the name of a loss, found z; the losses are first.load_balance") != std::string::npos);
}

}  // namespace loss_weights_test
