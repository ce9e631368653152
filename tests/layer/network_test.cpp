// SPDX-License-Identifier: MIT
// Networks: layers used on expressions, repeated blocks. They equal modules called in sequence, and uses written out.

#include <doctest/doctest.h>

#include "../test_program.hpp"
#include "headmix/headmix.hpp"
#include "headmix/layer/repeat.hpp"

namespace network_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr Index width = 16;
using Heads = Moa<width, 4, SoftmaxTopK<4, 2, loss::load_balance>, causal, rope<>, output_dropout<1, 10>>;
using Ffn = Smoe<width, SoftmaxTopK<4, 2, gating::raw, loss::first_choice_balance>, FeedForward<12>>;

/// A decoder block: h = x + heads(norm(x)), y = h + ffn(norm(h)).
struct Block {
  struct x : input<tokens, size<width>> {};
  struct attn_gain : param<size<width>> {
    using initializer = ones;
  };
  struct ffn_gain : param<size<width>> {
    using initializer = ones;
  };
  static constexpr auto attn = use<Heads, "attn">(rms_norm(x{}, attn_gain{}));
  struct h : let<decltype(x{} + attn.y)> {};
  static constexpr auto ffn = use<Ffn, "ffn">(rms_norm(h{}, ffn_gain{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = losses_of<attn, ffn>;
  using observed = observed_of<attn, ffn>;
};
struct Two {
  using x = Block::x;
  static constexpr auto first = use<Block, "blocks.0">(x{});
  static constexpr auto second = use<Block, "blocks.1">(first.y);
  static constexpr auto y = second.y;
  using losses = losses_of<first, second>;
  using observed = observed_of<first, second>;
};
template <class Count, class... Options>
struct Repeated {
  using x = Block::x;
  static constexpr auto blocks = repeat<Count, Block, "blocks", Options...>(x{});
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};
struct depth : size<dynamic> {};

std::vector<double> numbers(Index n, std::uint64_t seed) {
  std::vector<double> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = Random(seed).normal(i);
  return v;
}
view<double const> rows_of_width(std::vector<double> const& v) {
  return {v.data(), static_cast<Index>(v.size()) / width, width};
}
void require_equal(view<double const> a, view<double const> b, double tolerance = 0) {
  REQUIRE(a.size() == b.size());
  for (Index i = 0; i < a.size(); ++i) {
    if (tolerance == 0) {
      REQUIRE(a.data[i] == b.data[i]);
    } else {
      REQUIRE(close(a.data[i], b.data[i], tolerance));
    }
  }
}
/// Forward and backward pass; y, the gradient of x, and those of the parameters.
template <class M>
void run(M& m, std::vector<double> const& x, std::vector<double> const& dy, std::initializer_list<double> weights) {
  m.zero_gradients();
  m.forward(rows_of_width(x), uniform(2, 9));
  m.backward(rows_of_width(dy), weights);
}
template <class M, class N>
void require_equal_passes(M& m, N& n) {
  require_equal(m.program().get(std::remove_cvref_t<decltype(M::layer::y)>{}),
                n.program().get(std::remove_cvref_t<decltype(N::layer::y)>{}));
  require_equal(m.input_gradient(), n.input_gradient());
  REQUIRE(m.parameters().size() == n.parameters().size());
  for (std::size_t i = 0; i < m.parameters().size(); ++i) {
    auto const &p = m.parameters()[i], &q = n.parameters()[i];
    REQUIRE(p.name == q.name);
    require_equal(p.value, q.value);
    require_equal(p.gradient, q.gradient);
  }
}

// ---- equality with modules called in sequence ----

struct Norm {
  struct x : input<tokens, size<width>> {};
  struct gain : param<size<width>> {
    using initializer = ones;
  };
  static constexpr auto y = rms_norm(x{}, gain{});
  using losses = type_list<>;
  using observed = type_list<>;
};
template <class L>
struct Added {
  using x = typename L::x;
  struct h : constant<tokens, size<width>> {};
  static constexpr auto y = h{} + L::y;
  using losses = typename L::losses;
  using observed = typename L::observed;
};
struct ChainedBlock {
  using B = Cpu<double>;
  Module<Norm, B> attn_norm{1}, ffn_norm{1};
  Module<Added<Heads>, B> attn{1};
  Module<Added<Ffn>, B> ffn{1};

  std::vector<parameter<double>> parameters() {
    std::vector<parameter<double>> all;
    auto const add = [&](auto const& m) { all.insert(all.end(), m.parameters().begin(), m.parameters().end()); };
    add(attn_norm), add(attn), add(ffn_norm), add(ffn);
    return all;
  }
  view<double const> forward(view<double const> h, view<double> d_h, segments s) {
    attn_norm.program().bind(Norm::x{}, h, d_h);
    attn_norm.program().bind_tokens(s);
    attn.program().bind(Added<Heads>::h{}, h);
    auto const sum = attn.forward(attn_norm.forward(), s);
    ffn_norm.program().bind(Norm::x{}, sum, d_h);
    ffn_norm.program().bind_tokens(s);
    ffn.program().bind(Added<Ffn>::h{}, sum);
    return ffn.forward(ffn_norm.forward(), s);
  }
  void backward(view<double> d_h, double w) {
    ffn.backward(d_h, {w});
    ffn_norm.backward(ffn.input_gradient());
    attn.backward(d_h, {w});
    attn_norm.backward(attn.input_gradient());
  }
  std::size_t workspace() {
    return attn_norm.program().workspace_bytes() + ffn_norm.program().workspace_bytes() +
           attn.program().workspace_bytes() + ffn.program().workspace_bytes();
  }
};

}  // namespace

TEST_CASE("networks: two blocks are as modules called in turn, in less memory") {
  Module<Two, Cpu<double>> m(3);
  ChainedBlock chain[2];
  std::vector<parameter<double>> all = chain[0].parameters(), more = chain[1].parameters();
  all.insert(all.end(), more.begin(), more.end());
  REQUIRE(all.size() == m.parameters().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const& p = m.parameters()[i];
    CAPTURE(p.name);
    std::string const end = message(".", all[i].name);
    bool const same_name = p.name.substr(p.name.size() - end.size()) == end || all[i].name == "gain";
    REQUIRE(same_name);
    REQUIRE(p.value.size() == all[i].value.size());
    std::copy_n(p.value.data, p.value.size(), all[i].value.data);
  }
  auto const x = numbers(18 * width, 5), dy = numbers(18 * width, 6);
  m.set_randomness(randomness::off());
  for (auto& c : chain) c.attn.set_randomness(randomness::off());
  run(m, x, dy, {0.1, 0.1, 0.1, 0.1});

  auto d_h = dy;
  view<double> const by_h(d_h.data(), 18, width);
  segments const s = uniform(2, 9);
  auto const y = chain[1].forward(chain[0].forward(rows_of_width(x), by_h, s), by_h, s);
  chain[1].backward(by_h, 0.1);
  chain[0].backward(by_h, 0.1);
  require_equal(m.program().get(Two::y), y, 1e-12);
  require_equal(m.input_gradient(), by_h, 1e-11);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(m.parameters()[i].name);
    require_equal(m.parameters()[i].gradient, all[i].gradient, 1e-11);
  }
  std::size_t const chained = chain[0].workspace() + chain[1].workspace();
  CAPTURE(m.program().workspace_bytes());
  CAPTURE(chained);
  CHECK(10 * m.program().workspace_bytes() <= 6 * chained);
}

TEST_CASE("networks: uses of a layer differ in parameters, names and what they draw") {
  Module<Two, Cpu<double>> m(3);
  auto const& first = m.get<decltype(Two::first)::as<decltype(Block::attn)::as<Heads::W_q>>>();
  auto const& second = m.get<decltype(Two::second)::as<decltype(Block::attn)::as<Heads::W_q>>>();
  CHECK(first.name == "blocks.0.attn.W_q");
  CHECK(second.name == "blocks.1.attn.W_q");
  Index same = 0;
  for (Index i = 0; i < first.value.size(); ++i) same += first.value.data[i] == second.value.data[i];
  CHECK(same == 0);
}

namespace {
struct Dropped {
  struct x : input<tokens, size<width>> {};
  static constexpr auto y = dropout<1, 2>(x{});
  using losses = type_list<>;
  using observed = type_list<>;
};
struct DroppedTwice {
  using x = Dropped::x;
  static constexpr auto y = use<Dropped, "b">(use<Dropped, "a">(x{}).y).y;
  using losses = type_list<>;
  using observed = type_list<>;
};
struct DroppedTimes {
  using x = Dropped::x;
  static constexpr auto y = repeat<2, Dropped, "d">(x{}).y;
  using losses = type_list<>;
  using observed = type_list<>;
};
template <class L>
double alive(bool on = true) {
  Module<L, Cpu<double>> m(1);
  if (!on) m.set_randomness(randomness::off());
  std::vector<double> const x(512 * width, 1.0);
  auto const y = m.forward(rows_of_width(x));
  return static_cast<double>(std::count_if(y.data, y.data + y.size(), [](double v) { return v != 0; })) /
         static_cast<double>(y.size());
}
}  // namespace

TEST_CASE("networks: dropout twice keeps a quarter") {
  CHECK(std::abs(alive<Dropped>() - 0.5) < 0.03);
  CHECK(std::abs(alive<DroppedTwice>() - 0.25) < 0.03);
  CHECK(std::abs(alive<DroppedTimes>() - 0.25) < 0.03);
  CHECK(alive<DroppedTwice>(false) == 1);
}

TEST_CASE("networks: a repeated block is the block used as often, bit for bit, and recomputation changes no bit") {
  Module<Two, Cpu<double>> uses(3);
  Module<Repeated<size<2>>, Cpu<double>> twice(3);
  Module<Repeated<depth, recompute>, Cpu<double>> again(3, {}, at<depth>(2));
  auto const x = numbers(18 * width, 5), dy = numbers(18 * width, 6);
  // Passes draw the same numbers, also for dropout.
  uses.set_randomness(randomness(9));
  twice.set_randomness(randomness(9));
  again.set_randomness(randomness(9));
  run(uses, x, dy, {0.1, 0.2, 0.1, 0.2});
  run(twice, x, dy, {0.1, 0.2});
  run(again, x, dy, {0.1, 0.2});
  require_equal_passes(uses, twice);
  require_equal_passes(twice, again);
  CHECK(twice.loss<0>() == doctest::Approx(uses.loss<0>() + uses.loss<2>()).epsilon(1e-14));
  CHECK(again.loss<1>() == twice.loss<1>());
  for (Index i = 0; i < twice.observed<0>(1).size(); ++i) {
    REQUIRE(twice.observed<0>(1).data[i] == uses.observed<2>().data[i]);
    REQUIRE(again.observed<1>(0).data[i] == uses.observed<1>().data[i]);
  }
  auto const& gain = twice.get<decltype(Repeated<size<2>>::blocks)::as<Block::ffn_gain>>(1);
  CHECK(gain.name == "blocks.1.ffn_gain");
  CHECK(&gain > &twice.parameters()[twice.parameters().size() / 2]);
  // A second pass, with other extents in between.
  again.forward(rows_of_width(x), uniform(18, 1));
  again.backward(rows_of_width(dy));
  run(again, x, dy, {0.1, 0.2});
  require_equal_passes(twice, again);
}

TEST_CASE("networks: recomputation keeps the values of one time") {
  auto const bytes = [](auto&& m) {
    std::vector<double> const x(64 * width, 0.5);
    m.forward(rows_of_width(x), uniform(1, 64));
    return m.program().workspace_bytes();
  };
  auto const keeps = [&](Index n) { return bytes(Module<Repeated<depth>, Cpu<double>>(1, {}, at<depth>(n))); };
  auto const recomputes = [&](Index n) {
    return bytes(Module<Repeated<depth, recompute>, Cpu<double>>(1, {}, at<depth>(n)));
  };
  std::size_t const one = keeps(8) - keeps(7), carried = recomputes(8) - recomputes(7);
  CHECK(carried <= 2 * 64 * width * sizeof(double));  // the input of a block, and its selections
  CHECK(carried * 9 < one);
}

TEST_CASE("networks: one time, many times, and what is no number of times") {
  auto const x = numbers(18 * width, 5), dy = numbers(18 * width, 6);
  Module<Block, Cpu<double>> block(3);
  Module<Repeated<depth>, Cpu<double>> once(3, {}, at<depth>(1)), many(3, {}, at<depth>(40));
  block.set_randomness(randomness::off());
  once.set_randomness(randomness::off());
  run(block, x, dy, {0.1, 0.2});
  run(once, x, dy, {0.1, 0.2});
  require_equal(block.input_gradient(), once.input_gradient());
  run(many, x, dy, {});
  CHECK(many.parameters().size() == 40 * block.parameters().size());
  CHECK(std::all_of(many.input_gradient().data, many.input_gradient().data + 18 * width,
                    [](double v) { return std::isfinite(v); }));
  using M = Module<Repeated<depth>, Cpu<double>>;
  CHECK_THROWS_WITH_AS(M(3, {}, at<depth>(0)), "headmix: repeat blocks: it is done 0 times; expected at least one",
                       Error);
  CHECK_THROWS_WITH_AS(M(3, {}, at<depth>(1000000000)),
                       doctest::Contains("repeat blocks: it is done 1000000000 times; expected at most "), Error);
  CHECK_THROWS_WITH_AS(M(3), "headmix: repeat blocks: give its number to the constructor: at<depth>(n)", Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(many.get<decltype(Repeated<depth>::blocks)::as<Block::ffn_gain>>(40)),
                       doctest::Contains("there is no instance 40 of blocks.0.ffn_gain"), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(many.observed<0>(40)), doctest::Contains("there is no instance 40"), Error);
}

static_assert(count_macs<Repeated<depth>>(at<tokens>(64), at<depth>(5)) == 5 * count_macs<Block>(at<tokens>(64)));
static_assert(count_parameters<Repeated<size<4>>>() == 4 * count_parameters<Block>());

TEST_CASE("networks: gradients of a repeated layer by central differences") {
  struct D : size<3> {};
  struct a : input<tokens, D> {};
  using Small = Moa<3, 2, SoftmaxTopK<2, 2>, causal>;
  constexpr auto blocks = repeat<3, Small, "m">(a{});
  gradcheck_options options;
  options.token_sequences = uniform(2, 2);
  options.detached = {"detach(row_sum(gather_cols(...)))"};  // the sum over all experts, which is 1
  auto const checked = gradcheck(rms_norm(blocks.y, a{}), options);
  INFO(checked.text);
  CHECK(checked.ok());
  constexpr auto recomputed = repeat<3, Small, "m", recompute>(a{});
  auto const again = gradcheck(rms_norm(recomputed.y, a{}), options);
  INFO(again.text);
  CHECK(again.ok());
}

namespace {
struct Outer {
  using x = Block::x;
  static constexpr auto net = use<Repeated<size<2>>, "outer">(x{});
  static constexpr auto y = use<Repeated<size<2>>, "more">(net.y).y;
  using losses = losses_of<net>;
  using observed = type_list<>;
};
struct OneName {
  using x = Dropped::x;
  static constexpr auto first = repeat<2, Dropped, "d">(x{});
  static constexpr auto y = repeat<2, Dropped, "d">(first.y).y;
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace

TEST_CASE("networks: two repeated layers of one name, and gradients that cannot reach the first blocks") {
  using M = Module<OneName, Cpu<double>>;
  CHECK_THROWS_WITH_AS(
      M(1), "headmix: repeat d: the program repeats two layers under this name; give each a name of its own", Error);
  using gain = decltype(Repeated<size<2>>::blocks)::as<Block::ffn_gain>;
  using N = Module<Repeated<size<2>>, Cpu<double>, gradients_by<gain>>;
  CHECK_THROWS_WITH_AS(N(1), doctest::Contains("repeat blocks: gradients by its parameters need one by what it works"),
                       Error);
}

TEST_CASE("networks: a network of networks, and a program for inference") {
  auto const x = numbers(18 * width, 5), dy = numbers(18 * width, 6);
  Module<Outer, Cpu<double>> m(3);
  // Equal to four blocks in sequence.
  Module<Repeated<depth>, Cpu<double>> four(3, {}, at<depth>(4));
  m.set_randomness(randomness::off());
  four.set_randomness(randomness::off());
  run(m, x, dy, {});
  run(four, x, dy, {});
  require_equal(m.input_gradient(), four.input_gradient());
  REQUIRE(m.parameters().size() == four.parameters().size());
  for (std::size_t i = 0; i < m.parameters().size(); ++i) {
    CAPTURE(m.parameters()[i].name);
    require_equal(m.parameters()[i].gradient, four.parameters()[i].gradient);
  }
  auto const y = m.forward(rows_of_width(x), uniform(2, 9));
  std::size_t const each = m.parameters().size() / 4;
  CHECK(m.parameters()[each].name == "outer.blocks.1.attn_gain");
  CHECK(m.parameters()[3 * each].name == "more.blocks.1.attn_gain");
  Module<Outer, Cpu<double>, inference> same(uninitialized{});
  CHECK(same.parameters()[3].gradient.data == nullptr);
  CHECK(same.parameters()[3].value.data[0] == 0);
  copy_parameters(m, same);
  require_equal(y, same.forward(rows_of_width(x), uniform(2, 9)));
}

namespace {
struct Cross {
  using L = MultiHead<width, 2, 8, context_dim<width>>;
  struct x : input<tokens, size<width>> {};
  struct context : input<context_tokens, size<width>> {};
  static constexpr auto y = use<L, "b">(use<L, "a">(x{}, context{}).y, context{}).y;
  using losses = type_list<>;
  using observed = type_list<>;
};

struct Padded {
  using L = Moa<width, 4, SoftmaxTopK<4, 2>, causal, padded>;
  using valid_rows = valid_rows_of_uses;
  struct x : input<padded_tokens, size<width>> {};
  static constexpr auto y = use<L, "b">(use<L, "a">(x{}).y).y;
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace

TEST_CASE("networks: inputs with padding and a second input") {
  std::vector<std::uint8_t> const valid = {1, 1, 0, 1, 0, 0};
  Padding const padding(view<std::uint8_t const>(valid.data(), 2, 3));
  auto const x = numbers(6 * width, 5);
  Module<Padded, Cpu<double>> m(1);
  auto const y = m.forward(rows_of_width(x), padding);
  for (Index j = 0; j < width; ++j) CHECK(y(2, j) == 0);
  CHECK(y(3, 0) != 0);

  Module<Cross, Cpu<double>> cross(1);
  auto const c = numbers(4 * width, 7);
  cross.forward(rows_of_width(x), uniform(2, 3), rows_of_width(c), uniform(2, 2));
  cross.backward(rows_of_width(x));
  CHECK(cross.context_gradient()(3, 3) != 0);
}

namespace {
struct TwoNorms {
  using x = Norm::x;
  static constexpr auto y = use<Norm, "b">(use<Norm, "a">(x{}).y).y;
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace

TEST_CASE("networks: modules can be moved, and share parameters with other executors") {
  auto const x = numbers(18 * width, 5), dy = numbers(18 * width, 6);
  Module<TwoNorms, Cpu<double>> m(3);
  run(m, x, dy, {});
  std::vector<Module<TwoNorms, Cpu<double>>> moved;
  moved.push_back(std::move(m));
  moved.emplace_back(4);
  require_equal(moved[0].program().get(TwoNorms::y), moved[0].forward(rows_of_width(x), uniform(2, 9)));
  thread_pool pool(2);
  Module<TwoNorms, Cpu<double, thread_pool>, inference> served(share_parameters{}, moved[0],
                                                               Cpu<double, thread_pool>(pool));
  CHECK(served.parameters()[0].value.data == moved[0].parameters()[0].value.data);
  require_equal(moved[0].forward(rows_of_width(x), uniform(2, 9)), served.forward(rows_of_width(x), uniform(2, 9)));
}

}  // namespace network_test
