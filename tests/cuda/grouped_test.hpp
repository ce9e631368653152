#pragma once
// SPDX-License-Identifier: MIT
// The grouped products of the Cuda backend on one device, against Reference in double on the same rounded inputs.

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/dispatch/expert_sums.hpp"
#include "headmix/backend/cuda/dispatch/experts.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/random.hpp"
#include "headmix/testing/conformance/experts.hpp"

namespace headmix::testing {

/// The choices of a test's slots.
enum class choices { random, sparse, one, none };

struct grouped_case {
  Index rows, per_row, depth, width, experts;
  choices chosen = choices::random;
  bool transposed = false;  ///< the weights
  Index gap = 0;            ///< between the rows of every operand
  bool scattered = false;   ///< columns of x that are not neighbours
  bool blocks = false;      ///< the experts' matrices are blocks of one: side by side, or below each other transposed

  [[nodiscard]] Index slots() const { return rows * per_row; }
  [[nodiscard]] std::string text() const {
    return message("rows ", rows, " per_row ", per_row, " depth ", depth, " width ", width, " experts ", experts,
                   " chosen ", static_cast<int>(chosen), " transposed ", transposed, " gap ", gap, " scattered ",
                   scattered, " blocks ", blocks);
  }
};

/// The slots of a case by expert, on the host and on the device.
template <class Device>
struct slots_by_expert {
  explicit slots_by_expert(typename Device::queue queue, grouped_case const& c)
      : host_perm(static_cast<std::size_t>(c.slots())),
        host_offsets(static_cast<std::size_t>(c.experts + 1)),
        device_perm(queue, host_perm),
        device_offsets(queue, host_offsets) {
    std::vector<Int> index;
    for (std::size_t s = 0; s < host_perm.size(); ++s) {
      auto const expert = static_cast<Int>(Random(5, 0).uniform(s) * static_cast<double>(c.experts));
      bool const is_left_out =
          c.chosen == choices::none || (c.chosen == choices::sparse && (expert % 2 == 1 || s % 7 == 3));
      index.push_back(is_left_out ? -1 : c.chosen == choices::one ? static_cast<Int>(c.experts - 1) : expert);
    }
    Reference<double>{}.sort_by_expert(view<Int>(host_perm.data(), 1, c.slots()),
                                       view<Int>(host_offsets.data(), 1, c.experts + 1),
                                       view<Int const>(index.data(), c.slots(), 1), uniform(1, c.slots()));
    device_perm.set(host_perm);
    device_offsets.set(host_offsets);
  }
  [[nodiscard]] view<Int const> perm() const { return device_perm.matrix(1, device_perm.size()); }
  [[nodiscard]] view<Int const> offsets() const { return device_offsets.matrix(1, device_offsets.size()); }
  [[nodiscard]] view<Int const> on_host() const { return {host_perm.data(), 1, device_perm.size()}; }
  [[nodiscard]] view<Int const> begins_on_host() const { return {host_offsets.data(), 1, device_offsets.size()}; }

 private:
  std::vector<Int> host_perm, host_offsets;
  device_array<Int, Device> device_perm, device_offsets;
};

/// A matrix or a stack of them on the device and its copy on the host.
template <class T, class Device>
struct operand {
  std::vector<double> host;
  device_array<T, Device> array;
  view<T> device;
  view<double> reference;

  /// Gaps lie between rows; `stride` is that between columns. Transposed, the rows are those of the transposed matrix.
  operand(typename Device::queue queue, std::uint64_t stream, Index count, Index rows, Index cols, Index gap = 0,
          bool transposed = false, Index stride = 1)
      : operand(queue, random_numbers<T>(count * elements(rows, cols, gap, transposed, stride), stream), count, rows,
                cols, gap, transposed, stride) {}
  operand(typename Device::queue queue, std::vector<T> const& values, Index count, Index rows, Index cols, Index gap,
          bool transposed = false, Index stride = 1)
      : host(converted<double>(values)), array(queue, values) {
    Index const row_stride = (transposed ? rows : cols) * stride + gap;
    auto const strided = [&](auto* data) {
      view v(data, count, rows, cols);
      v.stack_stride = elements(rows, cols, gap, transposed, stride);
      v.row_stride = transposed ? stride : row_stride;
      v.col_stride = transposed ? row_stride : stride;
      return v;
    };
    device = strided(array.data());
    reference = strided(host.data());
  }

  /// The rows of the stack's matrices side by side; of transposed ones the columns.
  void interleave() {
    auto const change = [](auto& v) {
      Index& step = v.col_stride == 1 ? v.row_stride : v.col_stride;
      v.stack_stride = step;
      step *= v.count;
    };
    change(device);
    change(reference);
  }

  [[nodiscard]] static Index elements(Index rows, Index cols, Index gap, bool transposed, Index stride) {
    return (transposed ? cols : rows) * ((transposed ? rows : cols) * stride + gap);
  }
  /// The error of the device's numbers, gaps included, relative to the host's.
  [[nodiscard]] double error() const { return relative_error(array.get(), host); }
};

/// Sums in at least float, one rounding: its relative error is at most 2^-8 for bfloat16.
template <class T>
constexpr double grouped_tolerance = std::is_same_v<T, float>    ? 1e-5
                                     : std::is_same_v<T, double> ? 1e-12
                                                                 : 4e-3;

/// The numbers of a result before: those that are added to, or such as must be overwritten.
template <class T>
std::vector<T> numbers_before(Index n, bool accumulate) {
  if (accumulate) return random_numbers<T>(n, 3);
  return std::vector<T>(static_cast<std::size_t>(n), static_cast<T>(std::numeric_limits<double>::quiet_NaN()));
}
/// run(scratch) twice: both times it finds what the reference does, and the same.
template <class T, class Device, class F>
void check_twice(operand<T, Device>& y, double tolerance, typename Device::queue queue, std::size_t scratch_bytes,
                 F run) {
  device_array<std::byte, Device> const scratch(queue, scratch_bytes);
  auto const before = y.array.get();
  std::vector<T> found;
  for (bool const again : {false, true}) {
    y.array.set(before);
    run(std::span<std::byte>(scratch.data(), scratch_bytes));
    CHECK(y.error() <= tolerance);
    if (again) CHECK(relative_error(y.array.get(), found) == 0);
    found = y.array.get();
  }
}

template <class T, class Device>
void check_grouped_gemm(grouped_case const& c) {
  INFO(c.text());
  typename Device::queue queue;
  slots_by_expert<Device> const slots(queue, c);
  operand<T, Device> const x(queue, 1, 1, c.rows, c.depth, c.gap, false, c.scattered ? 2 : 1);
  operand<T, Device> w(queue, 2, c.experts, c.depth, c.width, c.gap, c.transposed);
  if (c.blocks) w.interleave();
  operand<T, Device> y(queue, numbers_before<T>(c.slots() * (c.width + c.gap), false), 1, c.slots(), c.width, c.gap);
  Reference<double>{}.template grouped_gemm<double>(y.reference, x.reference, w.reference, slots.on_host(),
                                                    slots.begins_on_host(), c.per_row, {});
  check_twice(y, grouped_tolerance<T>, queue, cuda_kernels::grouped_gemm_scratch_bytes<T>(y.device, x.device, w.device),
              [&](auto scratch) {
                cuda_kernels::grouped_gemm<typename Device::queue, T>(queue, y.device, x.device, w.device, slots.perm(),
                                                                      slots.offsets(), c.per_row, scratch);
              });
}

template <class T, class Device>
void check_grouped_sum(grouped_case const& c, bool accumulate) {
  INFO(c.text());
  CAPTURE(accumulate);
  typename Device::queue queue;
  slots_by_expert<Device> const slots(queue, c);
  operand<T, Device> const x(queue, 1, 1, c.slots(), c.depth, c.gap, false, c.scattered ? 2 : 1);
  operand<T, Device> w(queue, 2, c.experts, c.depth, c.width, c.gap, c.transposed);
  if (c.blocks) w.interleave();
  operand<T, Device> y(queue, numbers_before<T>(c.rows * (c.width + c.gap), accumulate), 1, c.rows, c.width, c.gap);
  Reference<double>{}.template grouped_sum<double>(y.reference, x.reference, w.reference, slots.on_host(),
                                                   slots.begins_on_host(), c.per_row, accumulate, {});
  // What is added is rounded, too.
  check_twice(y, 2 * grouped_tolerance<T>, queue,
              cuda_kernels::grouped_sum_scratch_bytes(queue, y.device, x.device, w.device), [&](auto scratch) {
                cuda_kernels::grouped_sum<typename Device::queue, T>(queue, y.device, x.device, w.device, slots.perm(),
                                                                     slots.offsets(), c.per_row, accumulate, scratch);
              });
}

/// x has a row for each row of the choices, or for each slot; g the other way round, or for each slot.
template <class T, class Device>
void check_grouped_outer(grouped_case const& c, bool accumulate, Index x_slots = 0, Index g_slots = 1) {
  if (x_slots == 0) x_slots = c.per_row;
  INFO(c.text());
  CAPTURE(accumulate);
  typename Device::queue queue;
  slots_by_expert<Device> const slots(queue, c);
  using result_type = operand<T, Device>;
  result_type const x(queue, 1, 1, c.slots() / x_slots, c.depth, c.gap, false, c.scattered ? 2 : 1),
      g(queue, 2, 1, c.slots() / g_slots, c.width, c.gap);
  Index const elements = c.experts * result_type::elements(c.depth, c.width, c.gap, c.transposed, 1);
  result_type y(queue, numbers_before<T>(elements, accumulate), c.experts, c.depth, c.width, c.gap, c.transposed);
  if (c.blocks) y.interleave();
  Reference<double>{}.template grouped_outer<double>(y.reference, x.reference, g.reference, slots.on_host(),
                                                     slots.begins_on_host(), x_slots, g_slots, accumulate, {});
  check_twice(y, grouped_tolerance<T>, queue,
              cuda_kernels::grouped_outer_scratch_bytes<T>(y.device, x.device, g.device), [&](auto scratch) {
                cuda_kernels::grouped_outer<typename Device::queue, T>(queue, y.device, x.device, g.device,
                                                                       slots.perm(), slots.offsets(), x_slots, g_slots,
                                                                       accumulate, scratch);
              });
}

/// Sizes that divide nothing, and whatever else the kernels for aligned rows leave over.
template <class T, class Device>
void test_plain_grouped_products() {
  for (grouped_case const& c : {
           grouped_case{0, 2, 5, 7, 3},
           {1, 1, 1, 1, 1},
           {1, 1, 0, 3, 1},  // a sum of nothing
           {1, 3, 9, 5, 4, choices::none},
           {67, 3, 37, 70, 5, choices::sparse},
           {100, 2, 21, 33, 5, choices::random, true},
           {150, 1, 18, 9, 4, choices::one, false, 3},
           {40, 2, 66, 35, 3, choices::sparse, true, 1, true},
           {40, 2, 9, 17, 4, choices::sparse, false, 0, false, true},
           {40, 2, 9, 17, 4, choices::random, true, 2, false, true},
       }) {
    check_grouped_gemm<T, Device>(c);
    for (bool const accumulate : {false, true}) {
      check_grouped_outer<T, Device>(c, accumulate);
      check_grouped_outer<T, Device>(c, accumulate, 1, c.per_row);
      check_grouped_sum<T, Device>(c, accumulate);
    }
  }
}

/// Rows that stay in shared memory: blocks of so many tiles of columns find what blocks of one tile do.
template <bool transposed, class Device>
void check_resident_rows(grouped_case const& c) {
  INFO(c.text());
  typename Device::queue queue;
  slots_by_expert<Device> const by_expert(queue, c);
  operand<bfloat16, Device> const x(queue, 1, 1, c.rows, c.depth, c.gap),
      w(queue, 2, c.experts, c.depth, c.width, c.gap, transposed);
  cuda_kernels::slot_lists const slots(by_expert.perm(), by_expert.offsets(), c.per_row);
  auto const before = numbers_before<bfloat16>(c.slots() * (c.width + c.gap), false);
  std::vector<bfloat16> one_tile;
  for (int const tiles : {1, 2, 3, 4}) {
    CAPTURE(tiles);
    operand<bfloat16, Device> y(queue, before, 1, c.slots(), c.width, c.gap);
    cuda_kernels::grouped_gemm_resident<bfloat16, transposed> kernel(y.device, x.device, w.device, slots);
    kernel.tiles = tiles;
    queue.launch(kernel, kernel.blocks());
    if (tiles == 1) {
      one_tile = y.array.get();
      Reference<double>{}.template grouped_gemm<double>(y.reference, x.reference, w.reference, by_expert.on_host(),
                                                        by_expert.begins_on_host(), c.per_row, {});
      CHECK(y.error() <= grouped_tolerance<bfloat16>);
    }
    CHECK(relative_error(y.array.get(), one_tile) == 0);
  }
}
template <class Device>
void test_resident_rows() {
  for (grouped_case const& c : {
           grouped_case{150, 1, 128, 392, 2},  // a full tile of rows; the last one of columns is partial
           {60, 2, 72, 512, 3, choices::sparse, false, 8},
           {90, 1, 64, 264, 2},
           {10, 2, 8, 136, 2},
           {20, 1, 128, 256, 2, choices::none},
       }) {
    check_resident_rows<false, Device>(c);
    check_resident_rows<true, Device>(c);
  }
}

/// Rows of 16-byte chunks: tensor cores.
template <class Device>
void test_aligned_grouped_gemm() {
  for (grouped_case c : {
           grouped_case{0, 2, 8, 8, 3},
           {1, 1, 8, 8, 1},
           {1, 2, 64, 128, 3, choices::none},
           {100, 2, 64, 64, 5, choices::sparse},
           {43, 3, 72, 136, 5},
           {300, 1, 264, 40, 2, choices::one, false, 8},  // more steps than there are stages
           {40, 1, 200, 136, 2},                          // also for more columns
           {20, 2, 136, 200, 3, choices::random, false, 24},
           {80, 1, 16, 8, 31},  // as many segments as a warp looks at together, and more
           {80, 1, 16, 8, 40, choices::sparse},
       }) {
    for (bool const transposed : {false, true}) {
      c.transposed = transposed;
      check_grouped_gemm<bfloat16, Device>(c);
    }
  }
}

/// Depths of whole panels: what warpgroups do where there are some.
template <class Device>
void test_deep_grouped_gemm() {
  for (grouped_case c : {
           grouped_case{1, 1, 64, 8, 1},
           {1, 2, 64, 128, 3, choices::none},
           {300, 2, 64, 64, 3, choices::sparse},  // a step; full tiles of slots and others
           {90, 3, 128, 40, 5},
           {600, 1, 192, 136, 2, choices::one, false, 8},  // two tiles of columns
           {150, 2, 320, 128, 2},                          // more steps than there are stages
           {70, 1, 576, 72, 2, choices::sparse, false, 24},
           {100, 2, 128, 96, 3, choices::random, false, 0, false, true},
       }) {
    for (bool const transposed : {false, true}) {
      c.transposed = transposed;
      check_grouped_gemm<bfloat16, Device>(c);
    }
  }
}

/// Weights that are not deep and have several tiles of columns: rows of x that stay while these go by.
template <class Device>
void test_wide_grouped_gemm() {
  for (grouped_case c : {
           grouped_case{1, 1, 64, 136, 1},
           {1, 2, 256, 300, 3, choices::none},
           {300, 2, 64, 264, 3, choices::sparse},          // a step: the next rows come at once
           {600, 1, 256, 392, 2, choices::one, false, 8},  // they come as the last columns leave room
           {90, 3, 192, 520, 5},                           // few slots of each expert
           {900, 2, 128, 136, 3},                          // more items than blocks
           {70, 1, 256, 640, 40},                          // more experts than a warp looks at together
           {100, 2, 128, 264, 3, choices::random, false, 0, false, true},
       }) {
    for (bool const transposed : {false, true}) {
      c.transposed = transposed;
      check_grouped_gemm<bfloat16, Device>(c);
    }
  }
}

template <class Device>
void test_aligned_grouped_sum() {
  for (grouped_case const& c : {
           grouped_case{0, 2, 8, 8, 3},
           {1, 2, 64, 128, 3, choices::none},
           {100, 2, 64, 64, 5, choices::sparse},
           {43, 3, 72, 136, 5, choices::random, true},
           {150, 1, 64, 40, 2, choices::one, false, 8},
       }) {
    check_grouped_sum<bfloat16, Device>(c, false);
    check_grouped_sum<bfloat16, Device>(c, true);
  }
}
/// Where a row chooses many of the experts: one dense product, unless rows are not aligned.
template <class Device>
void test_dense_grouped_sum() {
  for (grouped_case c : {
           grouped_case{150, 3, 64, 136, 4},
           {1, 2, 8, 520, 3, choices::sparse},
           {67, 4, 72, 200, 6, choices::sparse, false, 8},
           {40, 3, 16, 96, 5, choices::one},
           {40, 3, 16, 96, 5, choices::none},
           {40, 3, 16, 96, 5, choices::random, false, 3},
       }) {
    for (bool const transposed : {false, true}) {
      c.transposed = transposed;
      using in = view<bfloat16 const>;
      REQUIRE(cuda_kernels::dense_sum<bfloat16>({nullptr, c.rows, c.width}, in(nullptr, c.slots(), c.depth),
                                                in(nullptr, c.experts, c.depth, c.width))
                  .applies);
      check_grouped_sum<bfloat16, Device>(c, false);
      check_grouped_sum<bfloat16, Device>(c, true);
    }
  }
}
/// The test of gradients of weights as dense products.
template <class Device>
void test_dense_grouped_outer() {
  for (grouped_case c : {
           grouped_case{150, 3, 64, 392, 4},
           {67, 4, 328, 56, 6, choices::sparse, false, 8},
           {40, 3, 392, 64, 5, choices::one},
           {40, 3, 64, 392, 5, choices::none},
           {40, 3, 64, 392, 5, choices::random, false, 3},  // rows that are not aligned
       }) {
    // Blocks lie side by side where g has a row for each slot, and below each other where x has.
    bool const by_row_of_x = c.width < c.depth;
    c.blocks = by_row_of_x;
    using in = view<bfloat16 const>;
    view<bfloat16> y(nullptr, c.experts, c.depth, c.width);
    if (by_row_of_x) y.stack_stride = c.width, y.row_stride = c.experts * c.width;
    REQUIRE(cuda_kernels::dense_outer<bfloat16>(y, in(nullptr, by_row_of_x ? c.rows : c.slots(), c.depth),
                                                in(nullptr, by_row_of_x ? c.slots() : c.rows, c.width))
                .applies);
    for (bool const accumulate : {false, true}) {
      if (by_row_of_x) {
        check_grouped_outer<bfloat16, Device>(c, accumulate);
      } else {
        check_grouped_outer<bfloat16, Device>(c, accumulate, 1, c.per_row);
      }
    }
  }
}
/// Sums of products of warpgroups.
template <class Device>
void test_long_grouped_sum() {
  for (grouped_case c : {
           grouped_case{300, 2, 64, 200, 3, choices::sparse},
           {270, 3, 128, 136, 4, choices::random, false, 8},
           {270, 2, 64, 136, 2, choices::random, false, 3},       // rows that are not aligned: by parts of the columns
           {270, 2, 64, 72, 2, choices::random, false, 0, true},  // the same by columns that are no neighbours
       }) {
    for (bool const transposed : {false, true}) {
      c.transposed = transposed;
      check_grouped_sum<bfloat16, Device>(c, false);
      check_grouped_sum<bfloat16, Device>(c, true);
    }
  }
}
/// The heads of W_q lie side by side, those of W_o below each other.
template <class Device>
void test_grouped_blocks() {
  for (bool const transposed : {false, true}) {
    grouped_case const c{70, 3, 96, 64, 4, choices::sparse, transposed, 0, false, true};
    check_grouped_gemm<bfloat16, Device>(c);
    check_grouped_sum<bfloat16, Device>(c, false);
  }
  check_grouped_outer<bfloat16, Device>({70, 3, 96, 64, 4, choices::sparse, false, 0, false, true}, false);
  check_grouped_outer<bfloat16, Device>({1100, 2, 16, 24, 2, choices::random, false, 8, false, true}, true);
}

template <class Device>
void test_aligned_grouped_outer() {
  for (grouped_case const& c : {
           grouped_case{0, 2, 8, 8, 3},
           {1, 1, 8, 8, 1},
           {1, 2, 64, 128, 3, choices::none},
           {100, 2, 64, 64, 5, choices::sparse},
           {43, 3, 136, 72, 3},
           {300, 1, 24, 40, 2, choices::one, false, 8},  // more steps than there are stages
           {20, 2, 128, 136, 3, choices::random, false, 24},
           {30, 2, 56, 144, 2},                    // fewer rows than a tile has
           {1100, 2, 16, 24, 2, choices::sparse},  // two blocks for a tile, and an expert without slots
       }) {
    check_grouped_outer<bfloat16, Device>(c, false);
    check_grouped_outer<bfloat16, Device>(c, true, 1, c.per_row);
  }
  check_grouped_outer<bfloat16, Device>({90, 2, 24, 40, 3}, true, 1, 1);
}
/// Matrices of more than one tile, and slots for more steps than a ring has stages.
template <class Device>
void test_deep_grouped_outer() {
  for (grouped_case const& c : {
           grouped_case{500, 1, 264, 136, 2},
           {330, 2, 128, 264, 2, choices::sparse},
           {1100, 1, 200, 96, 1, choices::one, false, 8},  // two blocks for a tile
           {40, 2, 136, 72, 3, choices::none},
       }) {
    check_grouped_outer<bfloat16, Device>(c, false);
    check_grouped_outer<bfloat16, Device>(c, true, 1, c.per_row);
  }
  check_grouped_outer<bfloat16, Device>({300, 2, 96, 192, 2, choices::random, false, 0, false, true}, true);
}

/// The findings of check(bench), for bfloat16.
template <class Device, class Check>
conformance_result conformance_of(Check const& check) {
  Cuda<bfloat16, Device> backend;
  conformance_options const options;
  conformance_result result;
  detail::conformance::bench<Cuda<bfloat16, Device>> b(backend, options, result);
  check(b);
  return result;
}
/// Sums of two products with experts by warpgroups, and those that they leave to others.
template <class Device>
void test_grouped_sum_pair() {
  static_assert(SumsProductPairs<Cuda<bfloat16, Device>>);
  using detail::conformance::layout;
  auto const result = conformance_of<Device>([](auto& b) {
    for (bool const transposed : {false, true}) {
      detail::conformance::check_grouped(b, 150, 3, 4, 320, 136, transposed, layout::plain);
      detail::conformance::check_grouped(b, 40, 2, 12, 320, 1032, transposed,
                                         layout::plain);  // in parts of the columns
      detail::conformance::check_grouped(b, 40, 3, 2, 384, 64, transposed, layout::gaps);
      detail::conformance::check_grouped(b, 33, 2, 3, 128, 40, transposed, layout::plain);  // rows fit in shared memory
      detail::conformance::check_grouped(b, 33, 2, 3, 72, 40, transposed, layout::plain);
    }
  });
  CHECK_MESSAGE(result.ok(), result.text());
}

}  // namespace headmix::testing
