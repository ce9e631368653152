// SPDX-License-Identifier: MIT
// Products of 8-bit activations with packed ternary weights by tiles, on any machine. All implementations give equal
// bits, on one thread and on two, and equal the reference up to rounding of the results.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "../backend/against_reference.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/core/random.hpp"

namespace {

using namespace headmix;
using cpu_kernels::detail::best_dots;
using cpu_kernels::detail::dots_of_shorts;

static_assert(std::is_same_v<best_dots, cpu_kernels::detail::dots_of_vectors> == !HEADMIX_TEST_TILES);

/// Products of `rows` rows of x with the experts of their `choices`; without experts, with one matrix.
struct Case {
  std::vector<Index> slots;  ///< number of slots of each expert
  Index left_out, choices, depth, width;
  bool gaps = false;
};

template <class T>
struct Product {
  Case c;
  Index slots, rows;
  std::vector<T> x;
  std::vector<Int> packed, perm, offsets;

  explicit Product(Case const& of) : c(of), slots(c.left_out), offsets{0} {
    for (Index const n : c.slots) {
      slots += n;
      offsets.push_back(offsets.back() + static_cast<Int>(n));
    }
    rows = (slots + c.choices - 1) / c.choices;
    Random const random(11);
    std::uint64_t drawn = 0;
    // Slots are dealt to the experts in a scattered order.
    for (Index s = 0; s < slots; ++s) perm.push_back(static_cast<Int>(s));
    for (std::size_t s = perm.size(); s > 1; --s) std::swap(perm[s - 1], perm[random.below(drawn++, s)]);
    perm.push_back(0);
    for (Index i = 0; i < 2 * rows * c.depth; ++i) x.push_back(static_cast<T>(random.normal(drawn++)));
    Index const words = packed_ternary::words(c.depth, c.width);
    std::vector<double> w(static_cast<std::size_t>(c.depth * c.width));
    packed.resize(c.slots.size() * static_cast<std::size_t>(words));
    for (std::size_t e = 0; e < c.slots.size(); ++e) {
      for (double& number : w) number = random.normal(drawn++);
      packed_ternary::pack(packed.data() + static_cast<Index>(e) * words,
                           view<double const>(w.data(), c.depth, c.width));
    }
  }

  /// Calls run(y, x, w, perm, offsets).
  template <class F>
  [[nodiscard]] std::vector<T> of(F run) const {
    std::vector<T> y(static_cast<std::size_t>(2 * slots * c.width), T(5));
    view<T> vy(y.data(), slots, c.width);
    view<T const> vx(x.data(), rows, c.depth);
    if (c.gaps) {
      vy.row_stride *= 2;
      vy.col_stride = 2;
      vx.row_stride *= 2;
      vx.col_stride = 2;
    }
    auto const experts = static_cast<Index>(c.slots.size());
    bool const ordered = experts > 1 || c.left_out > 0;
    run(vy, vx, view<Int const>(packed.data(), experts, 1, packed_ternary::words(c.depth, c.width)),
        ordered ? view<Int const>(perm.data(), 1, slots) : view<Int const>(),
        ordered ? view<Int const>(offsets.data(), 1, experts + 1) : view<Int const>());
    return y;
  }
  template <class B>
  [[nodiscard]] std::vector<T> by_backend(B backend) const {
    return of([&](auto y, auto a, auto w, auto order, auto begins) {
      AlignedBuffer scratch(backend.packed_gemm_scratch(y, a, w));
      backend.packed_gemm(y, a, w, order, begins, c.choices, scratch.bytes());
    });
  }
  template <class Dots>
  [[nodiscard]] std::vector<T> by_kind() const {
    return of([&](auto y, auto a, auto w, auto order, auto begins) {
      serial executor;
      AlignedBuffer scratch(static_cast<std::size_t>(cpu_kernels::packed_gemm_scratch_bytes<Dots>(a, 1)));
      cpu_kernels::packed_gemm<Dots>(executor, y, a, w, order, begins, c.choices, scratch.bytes());
    });
  }
};

template <class T>
void check_product(Product<T> const& p, double tolerance) {
  CAPTURE(p.c.slots.size());
  CAPTURE(p.slots);
  CAPTURE(p.c.depth);
  CAPTURE(p.c.width);
  auto const found = p.template by_kind<best_dots>();
  CHECK(found == p.template by_kind<dots_of_shorts>());
  CHECK(found == p.template by_kind<cpu_kernels::detail::dots_of_vectors>());
  test::check_close(found, p.by_backend(Reference<T>{}), tolerance);
  thread_pool one(1), two(2);
  CHECK(p.by_backend(Cpu<T, thread_pool>(one)) == found);
  CHECK(p.by_backend(Cpu<T, thread_pool>(two)) == found);
}
void check_product(Case const& c) {
  check_product(Product<float>(c), 1e-5);
  check_product(Product<double>(c), 1e-12);
  check_product(Product<bfloat16>(c), std::pow(2.0, -8));
}

TEST_CASE("packed products of all kinds have the same bits") {
  REQUIRE(cpu_kernels::has_byte_tiles() == HEADMIX_TEST_TILES);
  // Depths around tiles of 64, and around the 16 tiles that are copied at once.
  for (Index const depth : {1, 15, 16, 17, 48, 63, 64, 65, 130, 1023, 1024, 1040, 2049}) {
    check_product({{1}, 0, 1, depth, 1});
    check_product({{37}, 0, 1, depth, 65});
  }
  // Rows around tiles of 16, columns around four tiles.
  for (Index const rows : {2, 15, 16, 17, 31, 32, 33, 48, 49, 65})
    for (Index const width : {15, 16, 63, 64, 130}) check_product({{rows}, 0, 1, 70, width});
  // Experts without slots, with one slot, with several blocks of slots.
  check_product({{17, 0, 1, 33, 2, 16, 0, 32, 5}, 7, 2, 100, 70});
  check_product({{0, 0, 64, 450, 1, 384, 385}, 0, 3, 72, 33, true});
  check_product({{1, 1, 1, 1}, 0, 4, 257, 129});
  check_product({{40}, 3, 1, 33, 20, true});
  check_product({{0, 0}, 5, 1, 64, 64});
  check_product({{0}, 0, 1, 64, 64});
  check_product({{20, 3}, 0, 2, 0, 10});
  check_product({{20}, 0, 1, 64, 0});
}
TEST_CASE("the largest sums of tiles have room") {
  for (Index const depth : {64, 4096, 65536}) {
    for (double const weight : {-1.0, 1.0}) {
      for (double const number : {-3.0, 3.0}) {
        for (Index const rows : {1, 16, 17}) {
          Product<double> p(Case{{rows}, 0, 1, depth, 2});
          std::fill(p.x.begin(), p.x.end(), number);
          std::vector<double> const w(static_cast<std::size_t>(2 * depth), weight);
          packed_ternary::pack(p.packed.data(), view<double const>(w.data(), depth, 2));
          auto const y = p.by_kind<best_dots>();
          CHECK(y == p.by_kind<dots_of_shorts>());
          CHECK(y.front() == doctest::Approx(weight * number * static_cast<double>(depth)));
        }
      }
    }
  }
}
TEST_CASE("a row of tiles that is not finite is NaN, and alone") {
  Product<float> p(Case{{40}, 0, 1, 70, 40});
  p.x[70 * 20 + 69] = std::numeric_limits<float>::infinity();
  p.x[70 * 39] = std::numeric_limits<float>::quiet_NaN();
  auto const y = p.by_kind<best_dots>(), expected = p.by_kind<dots_of_shorts>();
  bool same = true;
  for (std::size_t i = 0; i < y.size() / 2; ++i) {
    bool const finite = i / 40 != 20 && i / 40 != 39;
    same = same && std::isfinite(y[i]) == finite && (!finite || y[i] == expected[i]);
  }
  CHECK(same);
}

}  // namespace
