#pragma once
// SPDX-License-Identifier: MIT
// device_conformance checks the functions of a device and its queue (backend/cuda/archetype.hpp), for authors of
// devices: each is called by a small kernel, and its results are compared with numbers that the host calculates.
//
//   headmix::Sm90a::queue queue;
//   auto const found = headmix::device_conformance<headmix::Sm90a>(queue);
//   if (!found.ok()) std::puts(found.text().c_str());

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "headmix/backend/cuda/archetype.hpp"
#include "headmix/testing/conformance/bench.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix {

namespace detail::conformance {

/// A kernel of one function, F::call(device, output, input): the output and the input lie in memory of the device.
template <class F>
struct device_call {
  static constexpr int threads = F::threads;
  static constexpr bool cooperative = F::cooperative;
  static constexpr int shared_bytes = F::shared_bytes;
  static constexpr bool warpgroups = F::warpgroups;
  static constexpr int cluster = F::cluster;

  typename F::output* out;
  typename F::input const* in;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    F::call(device, out, in);
  }
};
/// The defaults of a call's kernel.
template <class Output, class Input = Output>
struct device_function {
  using output = Output;
  using input = Input;
  static constexpr int threads = 32;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;
  static constexpr bool warpgroups = false;
  static constexpr int cluster = 1;
};

// ---- one function each ----

struct call_indices : device_function<Index> {
  static constexpr int threads = 96;
  static constexpr bool cooperative = false;
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, Index* out, Index const*) {
    Index* const mine = out + (device.block() * threads + device.thread()) * 4;
    device.store(mine, Index{device.thread()} + 1000 * device.block());
    device.store(mine + 1, Index{device.lane()});
    device.store(mine + 2, Index{device.warp()});
    device.store(mine + 3, device.blocks());
  }
};
template <class T>
struct call_memory : device_function<T> {
  static constexpr bool cooperative = false;
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, T* out, T const* in) {
    constexpr int n = 16 / static_cast<int>(sizeof(T));
    int const i = device.thread() * 2 * n;
    device.store16(out + i, device.load16(in + i));
    for (int j = n; j < 2 * n; ++j) device.store(out + i + j, device.load(in + i + j));
  }
};
struct call_exp2 : device_function<float> {
  static constexpr bool cooperative = false;
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, float* out, float const* in) {
    int const i = device.thread();
    device.store(out + i, device.exp2(device.load(in + i)));
    device.store(out + 32 + i, device.log2(device.load(in + 32 + i)));
  }
};
struct call_shared : device_function<float> {
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 128 * 8 + 64;
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, float* out, float const* in) {
    int const i = device.thread();
    auto const first = device.template shared<float>(64), second = first + threads;
    first[threads - 1 - i] = device.load(in + i);
    device.sync();
    second[i] = first[i];
    second[i] += 1.f;
    device.sync_warp();
    auto p = second + (i ^ 1);
    p += 0;
    float const neighbour = *p;
    device.store(out + i, neighbour);
    device.sync();
    if (i % 4 == 0) {
      device.store16(first + i, device.load16(second + i));
      device.store16(out + threads + i, device.load16(first + i));
    }
  }
};
template <class T>
struct call_shuffles : device_function<T> {
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, T* out, T const* in) {
    int const lane = device.lane();
    T const value = device.load(in + lane);
    device.store(out + lane, device.shuffle_xor(value, 5));
    device.store(out + 32 + lane, device.shuffle(value, (3 * lane + 1) % 32));
  }
};
struct call_votes : device_function<std::uint32_t> {
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, std::uint32_t* out, std::uint32_t const* in) {
    device.store(out + device.lane(), device.ballot(device.load(in + device.lane()) != 0));
  }
};
struct call_redux : device_function<std::uint32_t> {
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, std::uint32_t* out, std::uint32_t const* in) {
    std::uint32_t const value = device.load(in + device.lane());
    device.store(out + device.lane(), device.redux_max(value));
    device.store(out + 32 + device.lane(), device.redux_min(value));
  }
};
struct call_sums : device_function<std::int32_t> {
  static constexpr int threads = 128;
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, std::int32_t* out, std::int32_t const* in) {
    int const i = device.thread();
    std::int32_t total = 0;
    device.store(out + i, device.warp_exclusive_sum(device.load(in + 3 * i), total));
    device.store(out + threads + i, total);
    std::int32_t values[3] = {device.load(in + 3 * i), device.load(in + 3 * i + 1), device.load(in + 3 * i + 2)};
    device.template block_exclusive_sum<threads>(values);
    for (int j = 0; j < 3; ++j) device.store(out + 2 * threads + 3 * i + j, values[j]);
  }
};
struct call_copies : device_function<float> {
  static constexpr int threads = 64;
  static constexpr int shared_bytes = 64 * 32;
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, float* out, float const* in) {
    int const i = device.thread(), other = threads - 1 - i;
    auto const first = device.template shared<float>(0), second = first + 4 * threads;
    device.cp_async16(first + 4 * i, in + 4 * i, i % 3 != 0);
    device.cp_async_commit();
    device.cp_async16(second + 4 * i, in + 4 * other, true);
    device.cp_async_commit();
    device.template cp_async_wait<1>();
    device.sync();
    device.store16(out + 4 * i, device.load16(first + 4 * other));
    device.template cp_async_wait<0>();
    device.sync();
    device.store16(out + 4 * (threads + i), device.load16(second + 4 * other));
  }
};
/// c = a b with a [16, 16] row by row and b [16, 8] row by row, both in shared memory: ldmatrix.x4 for a, .trans for b.
struct call_mma : device_function<float, bfloat16> {
  static constexpr int shared_bytes = (16 * 16 + 16 * 8) * 2;
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, float* out, bfloat16 const* in) {
    int const lane = device.lane();
    auto const a = device.template shared<bfloat16>(0), b = a + 16 * 16;
    for (int i = lane * 8; i < 16 * 16 + 16 * 8; i += 32 * 8) device.store16(a + i, device.load16(in + i));
    device.sync();
    headmix::words<4> const left = device.ldmatrix_x4(a + (lane % 16) * 16 + lane / 16 * 8);
    headmix::words<4> const right = device.ldmatrix_x4_trans(b + (lane % 16) * 8);
    float c[4] = {1, 1, 1, 1};
    device.mma_m16n8k16(c, left, headmix::words<2>{{right.word[0], right.word[1]}});
    for (int i = 0; i < 4; ++i) {
      device.store(out + (lane / 4 + (i < 2 ? 0 : 8)) * 8 + 2 * (lane % 4) + i % 2, c[i]);
    }
  }
};
/// A producer warpgroup and two consumers with named barriers, an mbarrier, and registers moved between them.
struct call_warpgroups : device_function<std::int32_t> {
  static constexpr int threads = 384;
  static constexpr int shared_bytes = 1024 + 16;
  static constexpr bool warpgroups = true;
  template <class Device>
  HEADMIX_DEVICE static void call(Device& device, std::int32_t* out, std::int32_t const* in) {
    auto const numbers = device.template shared<std::int32_t>(16);
    auto const full = device.template shared<std::uint64_t>(0);
    int const group = device.warpgroup(), i = device.thread() % 128;
    if (device.thread() == 0) {
      device.mbarrier_init(full, 128);
      device.fence_proxy_async();
    }
    device.sync();
    if (group == 0) {
      device.template setmaxnreg_dec<40>();
      numbers[i] = device.load(in + i);
      device.arrive(full);
      device.template sync_named<256>(1);
      device.store(out + 256 + i, numbers[128 + (i ^ 1)]);
    } else {
      device.template setmaxnreg_inc<232>();
      device.mbarrier_wait(full, 0);
      device.store(out + 128 * (group - 1) + i, numbers[127 - i]);
      if (group == 1) {
        numbers[128 + i] = device.load(in + 128 + i);
        device.template arrive_named<256>(1);
      }
    }
  }
};

/// Two tiles of 64 x 64 by TMA, a and b, and all products of them: a b^T, a b, a b with a in registers, a^T b.
template <class Map>
struct product_call {
  static constexpr int threads = 128, tile_bytes = 64 * cuda_kernels::panel_row_bytes;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int shared_bytes = 2 * tile_bytes + 8;

  Map rows;
  float* out;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const a = device.template shared<bfloat16>(0), b = device.template shared<bfloat16>(tile_bytes);
    auto const full = device.template shared<std::uint64_t>(2 * tile_bytes);
    if (device.thread() == 0) {
      device.mbarrier_init(full, 1);
      device.fence_proxy_async();
    }
    device.sync();
    if (device.thread() == 0) {
      device.arrive_expect_tx(full, 2 * tile_bytes);
      device.tma_load(a, rows, 0, 0, full);
      device.tma_load(b, rows, 64, 0, full);
    }
    device.mbarrier_wait(full, 0);
    cuda_kernels::matrix_descriptor const left = device.describe(a, 16, 8 * cuda_kernels::panel_row_bytes);
    cuda_kernels::matrix_descriptor const right = device.describe(b, 16, 8 * cuda_kernels::panel_row_bytes);
    constexpr int k_step = 32, mn_step = 16 * cuda_kernels::panel_row_bytes;  // bytes of 16 columns, of 16 rows
    float c[8][4];
    device.wgmma_fence(c);
    HEADMIX_UNROLL
    for (int k = 0; k < 4; ++k) device.wgmma_k_k(c, left.after(k_step * k), right.after(k_step * k), k > 0);
    store(device, c, 0);
    device.wgmma_fence(c);
    HEADMIX_UNROLL
    for (int k = 0; k < 4; ++k) device.wgmma_k_mn(c, left.after(k_step * k), right.after(mn_step * k), k > 0);
    store(device, c, 1);
    headmix::words<4> fragments[4];
    HEADMIX_UNROLL
    for (int k = 0; k < 4; ++k) {
      HEADMIX_UNROLL
      for (int i = 0; i < 4; ++i) {
        int const row = device.warp() * 16 + device.lane() / 4 + i % 2 * 8;
        int const column = 16 * k + device.lane() % 4 * 2 + i / 2 * 8;
        auto const address = static_cast<std::uint32_t>(row * cuda_kernels::panel_row_bytes + column * 2);
        fragments[k].word[i] =
            device.template shared<std::uint32_t>(static_cast<int>(cuda_kernels::swizzle_128(address)))[0];
      }
    }
    device.wgmma_fence(c, fragments);
    HEADMIX_UNROLL
    for (int k = 0; k < 4; ++k) device.wgmma_k_mn(c, fragments[k], right.after(mn_step * k), k > 0);
    store(device, c, 2);
    device.wgmma_fence(c);
    HEADMIX_UNROLL
    for (int k = 0; k < 4; ++k) device.wgmma_mn_mn(c, left.after(mn_step * k), right.after(mn_step * k), k > 0);
    store(device, c, 3);
  }
  template <class Device>
  HEADMIX_DEVICE void store(Device& device, float (&c)[8][4], int product) const {
    device.wgmma_commit();
    device.template wgmma_wait<0>(c);
    HEADMIX_UNROLL
    for (int j = 0; j < 8; ++j) {
      HEADMIX_UNROLL
      for (int i = 0; i < 4; ++i) {
        int const row = device.warp() * 16 + device.lane() / 4 + i / 2 * 8;
        device.store(out + (64 * product + row) * 64 + 8 * j + device.lane() % 4 * 2 + i % 2, c[j][i]);
      }
    }
  }
};
/// Block 0 of a cluster of two copies a tile to both; each block tells both when it has read the tile.
template <class Map>
struct cluster_call {
  static constexpr int threads = 128, cluster = 2, tile_bytes = 64 * cuda_kernels::panel_row_bytes;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int shared_bytes = tile_bytes + 16;

  Map rows;
  float* out;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const tile = device.template shared<bfloat16>(0);
    auto const full = device.template shared<std::uint64_t>(tile_bytes), read = full + 1;
    if (device.thread() == 0) {
      device.mbarrier_init(full, 1);
      device.mbarrier_init(read, cluster);
      device.fence_proxy_async();
    }
    device.sync_cluster();
    if (device.thread() == 0) {
      device.arrive_expect_tx(full, tile_bytes);
      if (device.rank() == 0) device.tma_load_multicast(tile, rows, 0, 0, full);
    }
    device.mbarrier_wait(full, 0);
    float const first = static_cast<float>(tile[device.thread() % 64]);  // row 0 is not permuted
    device.store(out + device.block() * threads + device.thread(), first + 1000 * static_cast<float>(device.rank()));
    device.sync();
    if (device.thread() < cluster) device.arrive_at(read, device.thread());
    device.mbarrier_wait(read, 0);
    device.sync_cluster();
  }
};

/// A block of a cluster reads what the next one has in its shared memory.
struct cluster_read_call {
  static constexpr int threads = 128, cluster = 4;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int shared_bytes = threads * 16;

  float* out;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const mine = device.template shared<float>(16 * device.thread());
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) mine[i] = static_cast<float>(device.block() * 1000 + 4 * device.thread() + i);
    device.sync_cluster();
    auto const next = device.load16_at(mine, (device.rank() + 1) % cluster);
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) {
      device.store(out + (device.block() * threads + device.thread()) * 4 + i, __builtin_bit_cast(float, next.word[i]));
    }
    device.sync_cluster();
  }
};

// ---- the host's side ----

/// Runs F on `in` over `blocks` blocks, with n elements of output.
template <class Device, class F>
std::vector<typename F::output> run_call(typename Device::queue& queue, std::vector<typename F::input> const& in,
                                         std::size_t n, Index blocks = 1) {
  using output = typename F::output;
  using input = typename F::input;
  typename Device::memory from((in.size() + 1) * sizeof(input)), to(n * sizeof(output));
  queue.upload(from.bytes().data(), in.data(), in.size() * sizeof(input));
  queue.launch(device_call<F>{to.template as<output>(), from.template as<input>()}, blocks);
  std::vector<output> found(n);
  queue.download(found.data(), to.bytes().data(), n * sizeof(output));
  return found;
}
template <class T>
std::vector<T> small_numbers(std::size_t n, std::size_t seed) {
  std::vector<T> numbers;
  for (std::size_t i = 0; i < n; ++i) {
    numbers.push_back(static_cast<T>(static_cast<float>(static_cast<int>((i * 37 + i / 16 + seed) % 127) - 63)));
  }
  return numbers;
}
/// Records a failure at the first element that differs.
template <class T>
void expect_equal(conformance_result& result, char const* function, std::vector<T> const& found,
                  std::vector<T> const& expected, double tolerance = 0) {
  ++result.checks;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    auto const f = static_cast<double>(found[i]), e = static_cast<double>(expected[i]);
    if (std::abs(f - e) <= tolerance * std::abs(e) || f == e) continue;
    result.failures.push_back({function, message("element ", i, " is ", f, ", expected ", e)});
    return;
  }
}
inline void expect(conformance_result& result, bool holds, char const* function, std::string const& text) {
  ++result.checks;
  if (!holds) result.failures.push_back({function, text});
}

template <class Device, class T>
void check_numbers_of(typename Device::queue& queue, conformance_result& result) {
  constexpr std::size_t n = 32 * 2 * (16 / sizeof(T));
  auto const in = small_numbers<T>(n, 1);
  expect_equal(result, "load, store, load16, store16", run_call<Device, call_memory<T>>(queue, in, n), in);
  std::vector<T> expected(64);
  for (std::size_t l = 0; l < 32; ++l) expected[l] = in[l ^ 5], expected[32 + l] = in[(3 * l + 1) % 32];
  expect_equal(result, "shuffle_xor, shuffle", run_call<Device, call_shuffles<T>>(queue, in, 64), expected);
}

template <class Device>
void check_device(typename Device::queue& queue, conformance_result& result) {
  // The queue.
  expect(result, queue.processors() > 0, "processors", message("found ", queue.processors()));
  expect(result, queue.shared_bytes() >= 48 << 10, "shared_bytes", message("found ", queue.shared_bytes()));
  auto const workspace = queue.workspace();
  expect(result, reinterpret_cast<std::uintptr_t>(workspace.data()) % 256 == 0 && workspace.size() >= 1 << 20,
         "workspace", message("found ", workspace.size(), " bytes, expected 1 MiB at a multiple of 256"));
  typename Device::memory zeros(1000);
  std::vector<std::uint8_t> bytes(1000, 1);
  queue.download(bytes.data(), zeros.bytes().data(), bytes.size());
  expect_equal(result, "memory", bytes, std::vector<std::uint8_t>(1000));
  expect_equal(result, "launch of 0 blocks",
               run_call<Device, call_memory<float>>(queue, small_numbers<float>(256, 1), 256, 0),
               std::vector<float>(256));

  std::vector<Index> indices;
  for (Index b = 0; b < 3; ++b) {
    for (Index t = 0; t < 96; ++t) indices.insert(indices.end(), {t + 1000 * b, t % 32, t / 32, 3});
  }
  expect_equal(result, "thread, lane, warp, block, blocks",
               run_call<Device, call_indices>(queue, {}, indices.size(), 3), indices);
  check_numbers_of<Device, float>(queue, result);
  check_numbers_of<Device, double>(queue, result);
  check_numbers_of<Device, std::int32_t>(queue, result);
  check_numbers_of<Device, bfloat16>(queue, result);

  std::vector<float> x(64), powers(64);
  for (std::size_t i = 0; i < 32; ++i) {
    x[i] = 0.75f * static_cast<float>(i) - 12, powers[i] = std::exp2(x[i]);
    x[32 + i] = 0.3f + static_cast<float>(i), powers[32 + i] = std::log2(x[32 + i]);
  }
  expect_equal(result, "exp2, log2", run_call<Device, call_exp2>(queue, x, 64), powers, 1e-5);

  auto const in = small_numbers<float>(512, 3);
  std::vector<float> shared(256);
  for (std::size_t i = 0; i < 128; ++i) shared[i] = in[127 - (i ^ 1)] + 1, shared[128 + i] = in[127 - i] + 1;
  expect_equal(result, "shared, sync, sync_warp", run_call<Device, call_shared>(queue, in, 256), shared);

  std::vector<std::uint32_t> votes(32);
  std::uint32_t ballot = 0;
  for (unsigned l = 0; l < 32; ++l) votes[l] = l % 5 == 2, ballot |= votes[l] << l;
  expect_equal(result, "ballot", run_call<Device, call_votes>(queue, votes, 32),
               std::vector<std::uint32_t>(32, ballot));

  std::vector<std::uint32_t> numbers(32), extremes(64, 0xFFFFFFF0u);
  for (unsigned l = 0; l < 32; ++l) numbers[l] = 0xFFFFFFF0u - (l * 13 + 5) % 32;
  std::fill_n(extremes.begin() + 32, 32, 0xFFFFFFF0u - 31);
  expect_equal(result, "redux_max, redux_min", run_call<Device, call_redux>(queue, numbers, 64), extremes);

  auto const terms = small_numbers<std::int32_t>(384, 5);
  std::vector<std::int32_t> sums(640);
  for (std::size_t w = 0; w < 4; ++w) {
    std::int32_t sum = 0;
    for (std::size_t l = 32 * w; l < 32 * w + 32; ++l) sums[l] = sum, sum += terms[3 * l];
    for (std::size_t l = 32 * w; l < 32 * w + 32; ++l) sums[128 + l] = sum;
  }
  for (std::size_t i = 0, sum = 0; i < 384; ++i) {
    sums[256 + i] = static_cast<std::int32_t>(sum), sum += static_cast<std::size_t>(terms[i]);
  }
  expect_equal(result, "warp_exclusive_sum, block_exclusive_sum", run_call<Device, call_sums>(queue, terms, 640), sums);

  std::vector<float> copies(512);
  for (std::size_t i = 0; i < 64; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      copies[4 * i + j] = (63 - i) % 3 != 0 ? in[4 * (63 - i) + j] : 0;
      copies[4 * (64 + i) + j] = in[4 * i + j];
    }
  }
  expect_equal(result, "cp_async16, cp_async_commit, cp_async_wait", run_call<Device, call_copies>(queue, in, 512),
               copies);

  auto const operands = small_numbers<bfloat16>(16 * 16 + 16 * 8, 7);
  std::vector<float> product(128, 1);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      for (std::size_t k = 0; k < 16; ++k) {
        product[8 * i + j] += static_cast<float>(operands[16 * i + k]) * static_cast<float>(operands[256 + 8 * k + j]);
      }
    }
  }
  expect_equal(result, "ldmatrix_x4, ldmatrix_x4_trans, mma_m16n8k16", run_call<Device, call_mma>(queue, operands, 128),
               product);
}

template <class Device>
void check_warpgroups(typename Device::queue& queue, conformance_result& result) {
  auto const in = small_numbers<std::int32_t>(256, 9);
  std::vector<std::int32_t> expected(384);
  for (std::size_t i = 0; i < 128; ++i) {
    expected[i] = expected[128 + i] = in[127 - i];
    expected[256 + i] = in[128 + (i ^ 1)];
  }
  expect_equal(result, "mbarrier_init, arrive, mbarrier_wait, sync_named, arrive_named, setmaxnreg",
               run_call<Device, call_warpgroups>(queue, in, 384), expected);

  // Tiles of rows 0 to 63 and 64 to 127 of a matrix of 120 rows.
  using map = typename Device::tensor_map;
  constexpr std::size_t rows = 120, n = 64;
  auto const numbers = small_numbers<bfloat16>(rows * n, 11);
  auto const at = [&](std::size_t i, std::size_t j) { return i < rows ? static_cast<float>(numbers[i * n + j]) : 0.f; };
  typename Device::memory operands(rows * n * sizeof(bfloat16)), products(4 * n * n * sizeof(float));
  queue.upload(operands.bytes().data(), numbers.data(), rows * n * sizeof(bfloat16));
  map const tiles = queue.map_tensor(view<bfloat16 const>(operands.template as<bfloat16>(), rows, n), 64);
  queue.launch(product_call<map>{tiles, products.template as<float>()}, 1);
  std::vector<float> found(4 * n * n), c(4 * n * n);
  queue.download(found.data(), products.bytes().data(), found.size() * sizeof(float));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) {
        c[i * n + j] += at(i, k) * at(n + j, k);
        c[(n + i) * n + j] += at(i, k) * at(n + k, j);
        c[(3 * n + i) * n + j] += at(k, i) * at(n + k, j);
      }
      c[(2 * n + i) * n + j] = c[(n + i) * n + j];
    }
  }
  expect_equal(result, "map_tensor, tma_load, describe, wgmma_fence, wgmma_k_k, wgmma_k_mn, wgmma_mn_mn, wgmma_wait",
               found, c);

  queue.launch(cluster_call<map>{tiles, products.template as<float>()}, 4);
  found.resize(4 * 128), c.assign(4 * 128, 0);
  queue.download(found.data(), products.bytes().data(), found.size() * sizeof(float));
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = at(0, i % 64) + (i / 128 % 2 == 1 ? 1000.f : 0.f);
  expect_equal(result, "rank, sync_cluster, arrive_at, tma_load_multicast", found, c);

  queue.launch(cluster_read_call{products.template as<float>()}, 8);
  found.resize(8 * 512), c.assign(8 * 512, 0);
  queue.download(found.data(), products.bytes().data(), found.size() * sizeof(float));
  for (std::size_t i = 0; i < c.size(); ++i) {
    std::size_t const block = i / 512, next = block / 4 * 4 + (block + 1) % 4;
    c[i] = static_cast<float>(next * 1000 + i % 512);
  }
  expect_equal(result, "load16_at", found, c);
}

}  // namespace detail::conformance

/// Runs every function of the device on its queue.
template <DevicePolicy Device>
[[nodiscard]] conformance_result device_conformance(typename Device::queue& queue) {
  conformance_result result;
  detail::conformance::check_device<Device>(queue, result);
  if constexpr (WarpgroupDevice<Device>) {
    if (queue.warpgroups()) {
      detail::conformance::check_warpgroups<Device>(queue, result);
    } else {
      result.skips.push_back({"warpgroups", "the GPU or its code in this program has none"});
    }
  } else {
    result.skips.push_back({"warpgroups", "the device is no WarpgroupDevice (backend/cuda/archetype.hpp)"});
  }
  return result;
}

}  // namespace headmix

HEADMIX_END_QUIET_BOUNDS
