// SPDX-License-Identifier: MIT
// Repeated layers with further inputs, which all instances read: they equal the uses written out, and the gradient by a
// shared value is the sum of those of the instances.

#include <doctest/doctest.h>

#include "../test_program.hpp"
#include "headmix/count/count.hpp"
#include "headmix/headmix.hpp"
#include "headmix/layer/repeat.hpp"

namespace repeat_inputs_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr Index width = 6;

/// A block of a translation decoder; a conditioning of the sequence scales what the context adds.
struct Block {
  using Self = Moa<width, 3, SoftmaxTopK<4, 2, loss::load_balance>, causal>;
  using Cross = MultiHead<width, 2, 3, context_dim<width>>;
  struct x : input<tokens, size<width>> {};
  struct context : input<context_tokens, size<width>> {};
  struct c : input<sequences, size<width>> {};
  struct W_c : param<size<width>, size<width>> {};
  static constexpr auto self = use<Self, "self">(x{});
  struct h : let<decltype(x{} + self.y)> {};
  static constexpr auto cross = use<Cross, "cross">(h{}, context{});
  static constexpr auto y = h{} + cross.y * of_sequence<tokens>(silu(c{}) % W_c{});
  using losses = losses_of<self>;
  using observed = observed_of<self>;
};
struct inputs {
  using x = Block::x;
  using context = Block::context;
  using c = Block::c;
};
struct depth : size<dynamic> {};
template <class... Options>
struct Repeated : inputs {
  static constexpr auto blocks = repeat<depth, Block, "blocks", Options...>(x{}, context{}, feed<c>(c{}));
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};
struct Uses : inputs {
  static constexpr auto b0 = use<Block, "blocks.0">(x{}, context{}, feed<c>(c{}));
  static constexpr auto b1 = use<Block, "blocks.1">(b0.y, context{}, feed<c>(c{}));
  static constexpr auto b2 = use<Block, "blocks.2">(b1.y, context{}, feed<c>(c{}));
  static constexpr auto y = b2.y;
  using losses = losses_of<b0, b1, b2>;
  using observed = observed_of<b0, b1, b2>;
};

// The gradient by the memory has terms before and behind both repetitions: the first one works on a value made of the
// memory, and the result adds it again.
struct Encoded : inputs {
  struct W : param<size<width>, size<width>> {};
  struct memory : let<decltype(gelu(context{} % W{}))> {};
  struct scale : let<decltype(sequence_mean(memory{}))> {};
  static constexpr auto start = x{} + of_sequence<tokens>(scale{});
};
template <class... Options>
struct EncodedRepeated : Encoded {
  static constexpr auto first = repeat<2, Block, "first", Options...>(start, memory{}, feed<c>(c{}));
  static constexpr auto second = repeat<size<2>, Block, "second", Options...>(first.y, memory{}, feed<c>(scale{}));
  static constexpr auto y = second.y * of_sequence<tokens>(scale{} + c{});
  using losses = losses_of<first, second>;
  using observed = observed_of<first, second>;
};
struct EncodedUses : Encoded {
  static constexpr auto a0 = use<Block, "first.0">(start, memory{}, feed<c>(c{}));
  static constexpr auto a1 = use<Block, "first.1">(a0.y, memory{}, feed<c>(c{}));
  static constexpr auto b0 = use<Block, "second.0">(a1.y, memory{}, feed<c>(scale{}));
  static constexpr auto b1 = use<Block, "second.1">(b0.y, memory{}, feed<c>(scale{}));
  static constexpr auto y = b1.y * of_sequence<tokens>(scale{} + c{});
  using losses = losses_of<a0, a1, b0, b1>;
  using observed = observed_of<a0, a1, b0, b1>;
};

/// y, and the gradients by x, the context, the conditioning and the parameters.
struct numbers_of_pass {
  std::vector<double> values;
  std::vector<std::string> parameters;
};
template <class Net, Extent... X>
numbers_of_pass pass(std::initializer_list<double> weights, size_value<X>... sizes) {
  Module<Net, Cpu<double>> m(1, {}, sizes...);
  auto const random = [](Index rows, std::uint64_t seed) {
    std::vector<double> v(static_cast<std::size_t>(rows * width));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = Random(seed).normal(i);
    return v;
  };
  auto const x = random(10, 2), context = random(14, 3), c = random(2, 4), dy = random(10, 5);
  std::vector<double> by_c(c.size());
  auto const of = [](std::vector<double> const& v) {
    return view<double const>(v.data(), static_cast<Index>(v.size()) / width, width);
  };
  m.program().bind(Block::c{}, of(c), view<double>(by_c.data(), 2, width));
  numbers_of_pass all;
  auto const add = [&](view<double const> v) { all.values.insert(all.values.end(), v.data, v.data + v.size()); };
  // The second pass adds to the gradients of the first one.
  for (int times = 0; times < 2; ++times) {
    add(m.forward(of(x), uniform(2, 5), of(context), uniform(2, 7)));
    m.backward(of(dy), weights);
  }
  add(m.input_gradient()), add(m.context_gradient()), add(of(by_c));
  for (auto const& p : m.parameters()) add(p.gradient), all.parameters.emplace_back(p.name);
  return all;
}
void check_equal(numbers_of_pass const& a, numbers_of_pass const& b, double tolerance) {
  REQUIRE(a.parameters == b.parameters);
  REQUIRE(a.values.size() == b.values.size());
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    CAPTURE(i);
    if (tolerance == 0) REQUIRE(a.values[i] == b.values[i]);
    REQUIRE(close(a.values[i], b.values[i], tolerance));
  }
}

}  // namespace

TEST_CASE("repeat inputs: context and conditioning of all blocks, as the uses written out") {
  auto const uses = pass<Uses>({0.1, 0.1, 0.1});
  auto const kept = pass<Repeated<>>({0.1}, at<depth>(3));
  auto const again = pass<Repeated<recompute>>({0.1}, at<depth>(3));
  check_equal(kept, uses, 1e-13);
  check_equal(kept, again, 0);
  CHECK(kept.parameters[1] == "blocks.0.self.W_q");
}

TEST_CASE("repeat inputs: two repetitions share a computed value that other terms read as well") {
  auto const uses = pass<EncodedUses>({0.1, 0.1, 0.2, 0.2});
  auto const kept = pass<EncodedRepeated<>>({0.1, 0.2});
  check_equal(kept, uses, 1e-12);
  check_equal(kept, pass<EncodedRepeated<recompute>>({0.1, 0.2}), 0);
}

namespace {
struct Whole {
  using x = Block::x;
  using context = Block::context;
  static constexpr auto decoder = use<EncodedRepeated<>, "decoder">(x{}, context{});
  static constexpr auto y = decoder.y;
  using losses = losses_of<decoder>;
  using observed = observed_of<decoder>;
};
}  // namespace

TEST_CASE("repeat inputs: a network that repeats is used under a name") {
  using C = decltype(Whole::decoder)::as<Block::c>;
  Module<Whole, Cpu<double>> m(1);
  Module<EncodedRepeated<>, Cpu<double>> plain(1);
  REQUIRE(m.parameters().size() == plain.parameters().size());
  for (std::size_t i = 0; i < m.parameters().size(); ++i) {
    CHECK(m.parameters()[i].name == message("decoder.", plain.parameters()[i].name));
    std::copy_n(plain.parameters()[i].value.data, plain.parameters()[i].value.size(), m.parameters()[i].value.data);
  }
  std::vector<double> x(5 * width, 0.3), context(7 * width, -0.2), c(width, 0.7), by_c(2 * width);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += Random(2).normal(i);
  view<double const> const at_x(x.data(), 5, width), at_context(context.data(), 7, width), at_c(c.data(), 1, width);
  m.program().bind(C{}, at_c, view<double>(by_c.data(), 1, width));
  plain.program().bind(Block::c{}, at_c, view<double>(by_c.data() + width, 1, width));
  auto const y = m.forward(at_x, uniform(1, 5), at_context, uniform(1, 7));
  auto const z = plain.forward(at_x, uniform(1, 5), at_context, uniform(1, 7));
  for (Index i = 0; i < y.size(); ++i) REQUIRE(y.data[i] == z.data[i]);
  m.backward(at_x);
  plain.backward(at_x);
  for (Index i = 0; i < y.size(); ++i) REQUIRE(m.input_gradient().data[i] == plain.input_gradient().data[i]);
  for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(by_c[i] == by_c[width + i]);
}

// ---- an input without a value, and a selection ----

namespace {
struct Shifted {
  struct x : input<tokens, size<width>> {};
  struct shift : input<size<1>, size<width>> {};
  struct kinds : selection<tokens, size<1>, size<3>> {};
  struct table : param<size<3>, size<width>> {};
  static constexpr auto y = gelu(x{} + shift{}) + gather_rows(table{}, kinds{});
  using losses = type_list<>;
  using observed = type_list<>;
};
struct ShiftedTwice {
  struct x : input<tokens, size<width>> {};
  struct ids : selection<tokens, size<1>, size<3>> {};
  static constexpr auto blocks = repeat<2, Shifted, "blocks">(x{}, feed<Shifted::kinds>(ids{}));
  static constexpr auto y = blocks.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace

TEST_CASE("repeat inputs: an input without a value is a leaf of all instances, and a selection is shared") {
  using shift = decltype(ShiftedTwice::blocks)::as<Shifted::shift>::args;
  using leaf = std::remove_pointer_t<decltype(headmix::detail::pack<shift>())>;
  static_assert(leaf::size == 1);
  auto const checked = gradcheck(ShiftedTwice::y, at<tokens>(5));
  INFO(checked.text);
  CHECK(checked.ok());
}

namespace {
struct Reader {
  using Cross = MultiHead<2, 1, 2, context_dim<2>>;
  struct x : input<tokens, size<2>> {};
  struct context : input<context_tokens, size<2>> {};
  static constexpr auto cross = use<Cross, "cross">(x{}, context{});
  static constexpr auto y = x{} + cross.y;
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace

TEST_CASE("repeat inputs: gradients by central differences") {
  struct W : param<size<2>, size<2>> {};
  constexpr auto memory = Reader::context{} % W{};
  constexpr auto blocks = repeat<2, Reader, "blocks">(Reader::x{}, memory);
  gradcheck_options options;
  options.token_sequences = uniform(2, 3);
  options.context_sequences = uniform(2, 2);
  auto const checked = gradcheck(blocks.y * of_sequence<tokens>(sequence_mean(memory)), options);
  INFO(checked.text);
  CHECK(checked.ok());
}

// ---- multiply-adds: what is outside counts once ----

static_assert(count_macs<EncodedRepeated<>>(at<tokens>(8), at<context_tokens>(5), at<sequences>(1)) ==
              count_macs<EncodedUses>(at<tokens>(8), at<context_tokens>(5), at<sequences>(1)));
static_assert(count_parameters<EncodedRepeated<>>() == count_parameters<EncodedUses>());

}  // namespace repeat_inputs_test
