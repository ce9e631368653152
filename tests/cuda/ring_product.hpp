#pragma once
// SPDX-License-Identifier: MIT
// A small kernel that uses all Hopper functions (warpgroup.hpp): z = round(a b^T) c. A producer loads b and c through a
// ring by TMA; a warpgroup gathers rows of a, and multiplies from shared memory and from registers, K-major and
// MN-major. For tests of emulated and real Hopper devices; faults can be planted.

#include <cstddef>
#include <type_traits>
#include <vector>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"

namespace headmix::testing {

enum class ring_fault {
  none,
  barriers_not_fenced,  ///< copies may not see the barriers
  rows_not_fenced,      ///< products may not see the gathered rows
  full_wrong_parity,    ///< the consumer goes on before the tile is there
  empty_wrong_parity,   ///< the producer waits for what has not begun
  empty_not_waited,     ///< it overwrites a tile that products read
  early_release,        ///< the consumer gives the tile back before its products are done
  no_swizzle,           ///< TMA writes tiles without
  descriptor_mode,      ///< the descriptor says that there is none
  descriptor_stride,    ///< eight rows lie elsewhere
  wrong_stage,          ///< products read the other stage
  no_product_fence,     ///< registers were changed before
  sums_touched,         ///< while products add to them
  sums_not_waited,      ///< they are used too early
  left_changed,         ///< the operand in registers, while a product reads it
  too_few_bytes,        ///< expected of a copy: the next phase never ends
  too_many_arrivals,    ///< at a barrier
  named_count,          ///< a barrier of another number of threads
  too_many_registers,   ///< more than there are
  ends_early,           ///< before its products do
};

template <class TensorMap, ring_fault fault = ring_fault::none>
struct ring_product {
  static constexpr int warpgroup_threads = cuda_kernels::warpgroup_threads;
  static constexpr int threads = 3 * warpgroup_threads, stages = 2;  // the last group does nothing
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int rows = 64, depth = 64, keys = 64, width = 128;  // tiles of b: keys x depth, of c: keys x width
  static constexpr int panel_bytes = keys * cuda_kernels::panel_row_bytes;
  static constexpr int left_bytes = rows * depth * 2, stage_bytes = 3 * panel_bytes;
  static constexpr int stages_at = left_bytes, barriers_at = stages_at + stages * stage_bytes;
  static constexpr int shared_bytes = barriers_at + 2 * stages * 8;

  bfloat16 const* a;
  Int const* row_of_a;  ///< the 64 rows that are gathered, -1 for zeros
  TensorMap b, c;
  int tiles;
  view<float> z;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const barriers = device.template shared<std::uint64_t>(barriers_at);
    auto const full = [&](int stage) { return barriers + stage; };
    auto const empty = [&](int stage) { return barriers + (stages + stage); };
    if (device.thread() == 0) {
      for (int i = 0; i < stages; ++i) {
        device.mbarrier_init(full(i), 1);
        device.mbarrier_init(empty(i), 4);
      }
      if (fault != ring_fault::barriers_not_fenced) device.fence_proxy_async();
    }
    device.sync();
    if (device.warpgroup() == 0) {
      device.template setmaxnreg_dec<40>();
      if (device.thread() == 0) produce(device, full, empty);
    } else if (device.warpgroup() == 1) {
      device.template setmaxnreg_inc<fault == ring_fault::too_many_registers ? 480 : 216>();
      consume(device, full, empty);
    } else {
      device.template setmaxnreg_dec<24>();
    }
  }

 private:
  template <class Device, class Full, class Empty>
  HEADMIX_DEVICE void produce(Device& device, Full const& full, Empty const& empty) const {
    HEADMIX_NO_UNROLL
    for (int i = 0; i < tiles; ++i) {
      int const stage = i % stages, parity = i / stages % 2, at = stages_at + stage * stage_bytes;
      if (fault != ring_fault::empty_not_waited) {
        device.mbarrier_wait(empty(stage), fault == ring_fault::empty_wrong_parity ? parity : parity ^ 1);
      }
      device.arrive_expect_tx(full(stage), fault == ring_fault::too_few_bytes ? stage_bytes - 16 : stage_bytes);
      if (fault == ring_fault::too_many_arrivals && i == 0) device.arrive(full(stage));
      device.tma_load(device.template shared<bfloat16>(at), b, i * keys, 0, full(stage));
      HEADMIX_UNROLL
      for (int j = 0; j < 2; ++j) {
        device.tma_load(device.template shared<bfloat16>(at + (1 + j) * panel_bytes), c, i * keys,
                        j * cuda_kernels::panel_columns, full(stage));
      }
    }
  }

  template <class Device, class Full, class Empty>
  HEADMIX_DEVICE void consume(Device& device, Full const& full, Empty const& empty) const {
    int const thread = device.thread() % warpgroup_threads, lane = device.lane(), own = device.warp() % 4 * 16;
    auto const left = device.template shared<bfloat16>(0);
    cuda_kernels::tile_copy<rows, depth, warpgroup_threads>::start(
        device, left, thread, depth, [&](int, int r) { return row_of_a[r] < 0 ? nullptr : a + row_of_a[r] * depth; });
    device.cp_async_commit();
    device.template cp_async_wait<0>();
    if (fault != ring_fault::rows_not_fenced) device.fence_proxy_async();
    if (fault == ring_fault::named_count && thread >= 64) {
      device.template sync_named<warpgroup_threads / 2>(1);
    } else {
      device.template sync_named<warpgroup_threads>(1);
    }

    constexpr int eight_rows = 8 * cuda_kernels::panel_row_bytes;
    float score[keys / 8][4], out[width / 8][4] = {};
    words<4> weights[keys / 16];
    cuda_kernels::matrix_descriptor const rows_of_a = device.describe(left, 16, eight_rows);
    HEADMIX_NO_UNROLL
    for (int i = 0; i < tiles; ++i) {
      int const stage = i % stages, parity = i / stages % 2;
      int const at = stages_at + (fault == ring_fault::wrong_stage ? 1 - stage : stage) * stage_bytes;
      cuda_kernels::matrix_descriptor b_tile = device.describe(
          device.template shared<bfloat16>(at), 16, fault == ring_fault::descriptor_stride ? 512 : eight_rows);
      cuda_kernels::matrix_descriptor const c_tile =
          device.describe(device.template shared<bfloat16>(at + panel_bytes), panel_bytes, eight_rows);
      if (fault == ring_fault::descriptor_mode) b_tile.bits &= ~(std::uint64_t{3} << 62);
      device.mbarrier_wait(full(stage), fault == ring_fault::full_wrong_parity ? parity ^ 1 : parity);
      device.wgmma_fence(score);
      HEADMIX_UNROLL
      for (int k = 0; k < depth / 16; ++k) {
        device.wgmma_k_k(score, rows_of_a.after(32 * k), b_tile.after(32 * k), k > 0);
      }
      device.wgmma_commit();
      if (fault == ring_fault::sums_not_waited) {
        device.template wgmma_wait<1>(score);
      } else {
        device.template wgmma_wait<0>(score);
      }
      HEADMIX_UNROLL
      for (int k = 0; k < keys / 16; ++k) {
        float const(&s)[4] = score[2 * k];
        float const(&t)[4] = score[2 * k + 1];
        weights[k] = {{cuda_kernels::pack(s[0], s[1]), cuda_kernels::pack(s[2], s[3]), cuda_kernels::pack(t[0], t[1]),
                       cuda_kernels::pack(t[2], t[3])}};
      }
      if (fault != ring_fault::no_product_fence) device.wgmma_fence(out, weights);
      HEADMIX_UNROLL
      for (int k = 0; k < keys / 16; ++k) {
        device.wgmma_k_mn(out, weights[k], c_tile.after(16 * cuda_kernels::panel_row_bytes * k), true);
      }
      device.wgmma_commit();
      if (fault == ring_fault::sums_touched) out[3][2] += 1;
      if (fault == ring_fault::left_changed) weights[1].word[2] ^= 1;
      if (fault == ring_fault::ends_early) return;
      if (fault == ring_fault::early_release && lane == 0) device.arrive(empty(stage));
      if (fault == ring_fault::early_release) device.template sync_named<warpgroup_threads>(1);
      device.template wgmma_wait<0>(out, weights);
      device.sync_warp();
      if (fault != ring_fault::early_release && lane == 0) device.arrive(empty(stage));
    }
    HEADMIX_UNROLL
    for (int j = 0; j < width / 8; ++j) {
      HEADMIX_UNROLL
      for (int e = 0; e < 4; ++e) {
        device.store(&z(own + lane / 4 + e / 2 * 8, 8 * j + lane % 4 * 2 + e % 2), out[j][e]);
      }
    }
  }
};

/// Runs it and returns the relative error beside sums in double. The matrices have columns before those that are used,
/// rows of c that are not there are 0, and one row of a is not there.
template <class Device, ring_fault fault = ring_fault::none>
double error_of_ring_product(int tiles = 5) {
  using kernel = ring_product<typename Device::tensor_map, fault>;
  typename Device::queue queue;
  Index const rows_of_a = 100, rows_of_b = tiles * kernel::keys, rows_of_c = rows_of_b - 13;
  auto const a = random_numbers<bfloat16>(rows_of_a * kernel::depth, 1);
  auto const b = random_numbers<bfloat16>(rows_of_b * kernel::depth, 2);
  auto const c = random_numbers<bfloat16>(rows_of_c * kernel::width, 3);
  std::vector<Int> gathered;
  for (int r = 0; r < kernel::rows; ++r) gathered.push_back(r == 7 ? -1 : static_cast<Int>((r * 37 + 5) % rows_of_a));
  device_array<bfloat16, Device> const on_a(queue, a), on_b(queue, b), on_c(queue, c);
  device_array<Int, Device> const on_rows(queue, gathered);
  device_array<float, Device> const on_z(queue, std::vector<float>(kernel::rows * kernel::width, 77.F));
  auto const swizzle =
      fault == ring_fault::no_swizzle ? cuda_kernels::tile_swizzle::none : cuda_kernels::tile_swizzle::bytes_128;
  queue.launch(kernel{on_a.data(), on_rows.data(),
                      queue.map_tensor(on_b.matrix(rows_of_b, kernel::depth), kernel::keys, swizzle),
                      queue.map_tensor(on_c.matrix(rows_of_c, kernel::width), kernel::keys, swizzle), tiles,
                      on_z.matrix(kernel::rows, kernel::width)},
               1);
  std::vector<double> expected(kernel::rows * kernel::width);
  for (Index r = 0; r < kernel::rows; ++r) {
    for (Index s = 0; s < rows_of_c; ++s) {
      double weight = 0;
      for (Index k = 0; gathered[static_cast<std::size_t>(r)] >= 0 && k < kernel::depth; ++k) {
        weight += static_cast<double>(
                      a[static_cast<std::size_t>(gathered[static_cast<std::size_t>(r)] * kernel::depth + k)]) *
                  static_cast<double>(b[static_cast<std::size_t>(s * kernel::depth + k)]);
      }
      for (Index n = 0; n < kernel::width; ++n) {
        expected[static_cast<std::size_t>(r * kernel::width + n)] +=
            weight * static_cast<double>(c[static_cast<std::size_t>(s * kernel::width + n)]);
      }
    }
  }
  return relative_error(on_z.get(), expected);
}

/// Tolerance for weights rounded to bfloat16.
inline constexpr double ring_tolerance = 5e-3;

}  // namespace headmix::testing
