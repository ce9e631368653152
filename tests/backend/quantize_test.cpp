// SPDX-License-Identifier: MIT
// Rounding to 8 bits and to ternary weights where it is easily wrong, and products with packed weights on the CPU
// against the reference; on one thread and on two, to the same bits.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "against_reference.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/core/random.hpp"

namespace quantize_test {

namespace {

using namespace headmix;
using test::check_backends;

template <class T>
std::vector<T> numbers(Index n, std::uint64_t stream) {
  Random const random(7, stream);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(random.normal(i));
  return v;
}

/// A stack as a plain one, or with gaps between its elements, for which there is room twice.
template <class T>
view<T> stack(T* data, Index count, Index rows, Index cols, bool gaps) {
  view<T> v(data, count, rows, cols);
  if (gaps) {
    v.stack_stride *= 2;
    v.row_stride *= 2;
    v.col_stride = 2;
  }
  return v;
}

template <class T>
inline constexpr double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;

TEST_CASE("halves round to even, and the largest number is 127") {
  std::vector<double> const a{127, 0.5, 1.5, -2.5, 3.49, -127};
  std::vector<double> y(6);
  Cpu<double>{}.absmax_int8(view<double>(y.data(), 1, 6), view<double const>(a.data(), 1, 6));
  CHECK(y == std::vector<double>{127, 0, 2, -2, 3, -127});
}

TEST_CASE("the mean of many floats is right") {
  // One sum in float over all of them would be off by more than the distance of two weights from half of the mean.
  Index const rows = 512, cols = 512;
  std::vector<float> a(static_cast<std::size_t>(rows * cols), 0.1f), y(a.size());
  a[0] = 0.049999f;
  a[1] = 0.050001f;
  Cpu<float>{}.absmean_ternary(view<float>(y.data(), rows, cols), view<float const>(a.data(), rows, cols));
  CHECK(y[0] == 0);
  CHECK(y[1] == doctest::Approx(0.1));
  CHECK(y[2] == y[1]);
}

/// Experts of slots: none goes to expert 1, and some slots to nobody.
struct Order {
  std::vector<Int> index, perm, offsets;
  view<Int const> slots, begins;

  Order(Index rows, Index choices, Index experts)
      : index(static_cast<std::size_t>(rows * choices)),
        perm(index.size() + 1),
        offsets(static_cast<std::size_t>(experts + 1)) {
    Random const random(3);
    for (std::size_t i = 0; i < index.size(); ++i) {
      index[i] = static_cast<Int>(random.below(i, static_cast<std::uint64_t>(experts)));
      if (index[i] == 1 || i % 11 == 5) index[i] = -1;
    }
    slots = view<Int const>(perm.data(), 1, rows * choices);
    begins = view<Int const>(offsets.data(), 1, experts + 1);
    cpu::sort_by_expert(view<Int>(perm.data(), 1, rows * choices), view<Int>(offsets.data(), 1, experts + 1),
                        view<Int const>(index.data(), rows, choices), uniform(1, rows));
  }
};

struct Case {
  Index rows, choices, experts, depth, width;
};

std::vector<Int> packed_weights(Case const& c) {
  Index const words = packed_ternary::words(c.depth, c.width);
  auto const w = numbers<double>(c.experts * c.depth * c.width, 4);
  std::vector<Int> packed(static_cast<std::size_t>(c.experts * words));
  for (Index e = 0; e < c.experts; ++e) {
    packed_ternary::pack(packed.data() + e * words,
                         view<double const>(w.data() + e * c.depth * c.width, c.depth, c.width));
  }
  return packed;
}

/// run(y, x, w) gives the results of every slot; x holds rows for `x_slots` slots each.
template <class T, class F>
std::vector<T> product(Case const& c, std::vector<Int> const& packed, Index x_slots, bool gaps, F run) {
  Index const slots = c.rows * c.choices, x_rows = slots / x_slots;
  auto const x = numbers<T>(2 * x_rows * c.depth, 5);
  std::vector<T> y(static_cast<std::size_t>(2 * slots * c.width), T(5));
  run(stack(y.data(), 1, slots, c.width, gaps), stack<T const>(x.data(), 1, x_rows, c.depth, gaps),
      view<Int const>(packed.data(), c.experts, 1, packed_ternary::words(c.depth, c.width)));
  return y;
}

template <class T>
void check_products(Case const& c, bool ordered, bool shared, bool gaps) {
  auto const packed = packed_weights(c);
  Order const order(c.rows, c.choices, c.experts);
  view<Int const> const perm = ordered ? order.slots : view<Int const>(),
                        offsets = ordered ? order.begins : view<Int const>();
  Index const x_slots = shared ? c.choices : 1;
  auto const by_backend = [&](auto backend) {
    return product<T>(c, packed, x_slots, gaps, [&](view<T> y, view<T const> x, view<Int const> w) {
      AlignedBuffer scratch(backend.packed_gemm_scratch(y, x, w));
      backend.packed_gemm(y, x, w, perm, offsets, x_slots, scratch.bytes());
    });
  };
  check_backends<T>(tolerance<T>, by_backend);
  // The way of machines without products of bytes.
  using Dots = cpu::detail::dots_of_shorts;
  auto const portable = product<T>(c, packed, x_slots, gaps, [&](view<T> y, view<T const> x, view<Int const> w) {
    serial executor;
    AlignedBuffer scratch(static_cast<std::size_t>(cpu::packed_scratch_bytes<Dots>(x, 1)));
    cpu::packed_gemm<Dots>(executor, y, x, w, perm, offsets, x_slots, scratch.bytes());
  });
  CHECK(portable == by_backend(Cpu<T>{}));
}

TEST_CASE("products with packed weights equal the reference") {
  for (Index const depth : {1, 15, 16, 17, 64, 257}) {
    CAPTURE(depth);
    check_products<double>({19, 2, 4, depth, 3}, true, true, false);
    check_products<double>({6, 3, 2, depth, 70}, true, false, true);
    check_products<double>({5, 1, 1, depth, 33}, false, true, false);
  }
  check_products<double>({450, 1, 3, 20, 10}, true, true, false);  // several blocks of slots
  check_products<float>({37, 2, 5, 40, 65}, true, true, false);
  check_products<double>({0, 2, 3, 20, 10}, true, true, false);
  check_products<double>({3, 2, 3, 0, 10}, true, true, false);
  check_products<double>({3, 1, 1, 5, 0}, false, true, false);
}
TEST_CASE("the largest sums have room") {
  // Depths around what 16 bits hold, all numbers 127 and all weights of one sign.
  for (Index const depth : {239, 240, 241, 511, 4096}) {
    CAPTURE(depth);
    for (double const weight : {-2.0, 2.0}) {
      std::vector<double> const x(static_cast<std::size_t>(depth), 3.0), w(x.size(), weight);
      std::vector<Int> packed(static_cast<std::size_t>(packed_ternary::words(depth, 1)));
      packed_ternary::pack(packed.data(), view<double const>(w.data(), depth, 1));
      auto const check = [&]<class Dots>(Dots) {
        double y = 0;
        view<double const> const vx(x.data(), 1, depth);
        serial executor;
        AlignedBuffer scratch(static_cast<std::size_t>(cpu::packed_scratch_bytes<Dots>(vx, 1)));
        cpu::packed_gemm<Dots>(executor, view<double>(&y, 1, 1), vx,
                               view<Int const>(packed.data(), 1, packed_ternary::words(depth, 1)), {}, {}, 1,
                               scratch.bytes());
        CHECK(y == doctest::Approx(3 * weight * static_cast<double>(depth)));
      };
      check(cpu::detail::best_dots{});
      check(cpu::detail::dots_of_shorts{});
    }
  }
}

}  // namespace

}  // namespace quantize_test
