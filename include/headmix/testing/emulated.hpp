#pragma once
// SPDX-License-Identifier: MIT
// Emulated: the device trait that runs the kernels of the Cuda backend on the CPU and checks them. Layouts of matrix
// instructions follow the text of the PTX ISA. Every launch is checked; a fault is an Error thrown by launch(), which
// names the kernel, the block, the threads and the byte:
//
//   - accesses outside shared memory, outside an Emulated::memory, or at a misaligned address;
//   - reads of uninitialised shared memory, or of the target of a copy in flight;
//   - races: two threads access a byte, one of them writes, and no barrier of the block or of their warp orders them.
//     Blocks of a launch are never ordered. Global memory is checked at load and store;
//   - threads that wait for others that never arrive, and lanes of a warp that call different warp functions;
//   - more threads, shared memory or operand bytes than a block can have.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/testing/emulator/memory.hpp"
#include "headmix/testing/emulator/shared_pointer.hpp"
#include "headmix/testing/emulator/warpgroups.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix {

/// A thread of an emulated block, the device object of its kernel.
struct Emulated {
  template <class T>
  using shared_pointer = cuda_kernels::emulator::shared_pointer<T>;

  class queue;
  using memory = cuda_kernels::emulator::memory;
  /// While an object lives, kernels may access Emulated::memory only, not other host memory.
  using strict_memory = cuda_kernels::emulator::strict_memory;

  static constexpr bool host_memory = false;

  Emulated(cuda_kernels::emulator::machine& m, int thread) : machine_(m), thread_(thread) {}

  [[nodiscard]] int thread() const { return thread_; }
  [[nodiscard]] int lane() const { return thread_ % 32; }
  [[nodiscard]] int warp() const { return thread_ / 32; }
  [[nodiscard]] Index block() const { return machine_.block(); }
  [[nodiscard]] Index blocks() const { return machine_.blocks(); }

  // ---- global memory ----

  template <class T>
  [[nodiscard]] T load(T const* p) const {
    machine_.global(thread_, p, size_of<T>, alignment_of<T>, false);
    return *p;
  }
  template <class T>
  void store(T* p, std::type_identity_t<T> value) const {
    machine_.global(thread_, p, size_of<T>, alignment_of<T>, true);
    *p = value;
  }
  template <class T>
  [[nodiscard]] words<4> load16(T const* p) const {
    machine_.global(thread_, p, 16, 16, false);
    words<4> w;
    std::memcpy(&w, p, 16);
    return w;
  }
  template <class T>
  void store16(T* p, words<4> w) const {
    machine_.global(thread_, p, 16, 16, true);
    std::memcpy(static_cast<void*>(p), &w, 16);
  }

  [[nodiscard]] static float exp2(float x) { return std::exp2(x); }
  [[nodiscard]] static float log2(float x) { return std::log2(x); }

  // ---- shared memory, barriers and warp functions ----

  template <class T>
  [[nodiscard]] shared_pointer<T> shared(int byte_offset) const {
    machine_.require_cooperative(thread_, "shared");
    return {machine_, thread_, byte_offset};
  }
  template <class T>
  [[nodiscard]] words<4> load16(shared_pointer<T> p) const {
    words<4> w;
    std::memcpy(&w, machine_.shared(thread_, p.offset(), 16, 16, false), 16);
    return w;
  }
  template <class T>
  void store16(shared_pointer<T> p, words<4> w) const {
    std::memcpy(machine_.shared(thread_, p.offset(), 16, 16, true), &w, 16);
  }
  void sync() const { machine_.sync(thread_); }
  void sync_warp() const { machine_.sync_warp(thread_); }

  template <class T>
  [[nodiscard]] T shuffle_xor(T value, int mask) const {
    static constexpr cuda_kernels::emulator::warp_function function{"shuffle_xor", size_of<T>,
                                                                    &perform_exchange<size_of<T>>};
    return exchange(function, value, lane() ^ mask);
  }
  template <class T>
  [[nodiscard]] T shuffle(T value, int from) const {
    static constexpr cuda_kernels::emulator::warp_function function{"shuffle", size_of<T>,
                                                                    &perform_exchange<size_of<T>>};
    return exchange(function, value, from & 31);
  }
  [[nodiscard]] std::uint32_t ballot(bool vote) const {
    ballot_operands operands{vote, 0};
    static constexpr cuda_kernels::emulator::warp_function function{"ballot", 0, &perform_ballot};
    machine_.warp_collective(thread_, function, &operands);
    return operands.votes;
  }
  [[nodiscard]] std::uint32_t redux_max(std::uint32_t value) const {
    static constexpr cuda_kernels::emulator::warp_function function{"redux_max", 0, &perform_redux<std::greater<>>};
    machine_.warp_collective(thread_, function, &value);
    return value;
  }
  [[nodiscard]] std::uint32_t redux_min(std::uint32_t value) const {
    static constexpr cuda_kernels::emulator::warp_function function{"redux_min", 0, &perform_redux<std::less<>>};
    machine_.warp_collective(thread_, function, &value);
    return value;
  }
  template <class T>
  [[nodiscard]] T warp_exclusive_sum(T value, T& total) const {
    sum_operands<T> operands{value, {}};
    static constexpr cuda_kernels::emulator::warp_function function{"warp_exclusive_sum", size_of<T>, &perform_sum<T>};
    machine_.warp_collective(thread_, function, &operands);
    total = operands.total;
    return operands.value;
  }
  template <int threads, class T, int n>
  void block_exclusive_sum(T (&values)[n]) const {
    machine_.block_collective(thread_, "block_exclusive_sum", threads, values, [](std::span<void* const> all) {
      T sum{};
      for (void* const of_thread : all) {
        for (T* value = static_cast<T*>(of_thread); value != static_cast<T*>(of_thread) + n; ++value) {
          sum += std::exchange(*value, sum);
        }
      }
    });
  }

  // ---- copies and matrices ----

  template <class T>
  void cp_async16(shared_pointer<T> to, std::type_identity_t<T> const* from, bool valid) const {
    machine_.cp_async16(thread_, to.offset(), from, valid);
  }
  void cp_async_commit() const { machine_.cp_async_commit(thread_); }
  template <int n>
  void cp_async_wait() const {
    static_assert(n >= 0, "headmix: cp_async_wait<n> leaves n groups of copies unfinished, 0 or more");
    machine_.cp_async_wait(thread_, n);
  }
  [[nodiscard]] words<4> ldmatrix_x4(shared_pointer<bfloat16 const> row) const {
    static constexpr cuda_kernels::emulator::warp_function function{"ldmatrix_x4", 0, &perform_load<false>};
    return load_by(function, row);
  }
  [[nodiscard]] words<4> ldmatrix_x4_trans(shared_pointer<bfloat16 const> row) const {
    static constexpr cuda_kernels::emulator::warp_function function{"ldmatrix_x4_trans", 0, &perform_load<true>};
    return load_by(function, row);
  }
  void mma_m16n8k16(float (&c)[4], words<4> const& a, words<2> const& b) const {
    multiply_operands operands{c, a.word, b.word};
    static constexpr cuda_kernels::emulator::warp_function function{"mma_m16n8k16", 0, &perform_multiply};
    machine_.warp_collective(thread_, function, &operands);
  }

 protected:
  template <class T>
  static constexpr int size_of = static_cast<int>(sizeof(T));
  template <class T>
  static constexpr int alignment_of = static_cast<int>(alignof(T));
  using lanes = std::array<void*, 32>;

  template <int bytes>
  struct exchange_operands {
    std::array<std::byte, bytes> value;
    std::array<std::byte, bytes> result;
    int from;
  };
  template <int bytes>
  static void perform_exchange(lanes const& all) {
    for (int l = 0; l < 32; ++l) {
      auto& mine = *static_cast<exchange_operands<bytes>*>(all[static_cast<std::size_t>(l)]);
      mine.result = static_cast<exchange_operands<bytes> const*>(all[static_cast<std::size_t>(mine.from)])->value;
    }
  }
  template <class T>
  [[nodiscard]] T exchange(cuda_kernels::emulator::warp_function const& function, T const& value, int from) const {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) <= 4 || sizeof(T) == 8),
                  "headmix: lanes exchange values of up to 4 bytes, or of 8, that are copied as bits");
    exchange_operands<size_of<T>> operands;
    operands.from = from;
    std::memcpy(&operands.value, &value, sizeof(T));
    machine_.warp_collective(thread_, function, &operands);
    T result;
    std::memcpy(static_cast<void*>(&result), &operands.result, sizeof(T));
    return result;
  }

  struct ballot_operands {
    bool vote;
    std::uint32_t votes;
  };
  static void perform_ballot(lanes const& all) {
    std::uint32_t votes = 0;
    for (unsigned l = 0; l < 32; ++l) votes |= std::uint32_t{static_cast<ballot_operands*>(all[l])->vote} << l;
    for (void* one : all) static_cast<ballot_operands*>(one)->votes = votes;
  }

  /// All lanes get the first value in the order of Before.
  template <class Before>
  static void perform_redux(lanes const& all) {
    std::uint32_t first = *static_cast<std::uint32_t*>(all[0]);
    for (void* one : all) {
      if (Before{}(*static_cast<std::uint32_t*>(one), first)) first = *static_cast<std::uint32_t*>(one);
    }
    for (void* one : all) *static_cast<std::uint32_t*>(one) = first;
  }

  template <class T>
  struct sum_operands {
    T value, total;  ///< `value` becomes the exclusive sum
  };
  template <class T>
  static void perform_sum(lanes const& all) {
    T sum{};
    for (void* one : all) sum += std::exchange(static_cast<sum_operands<T>*>(one)->value, sum);
    for (void* one : all) static_cast<sum_operands<T>*>(one)->total = sum;
  }

  struct load_operands {
    std::byte const* row;
    words<4> result;
  };
  /// Matrix i of ldmatrix has the rows of lanes 8 i .. 8 i + 7. Lane l gets the elements 2 (l % 4) and 2 (l % 4) + 1 of
  /// row l / 4; transposed, of column l / 4.
  template <bool transposed>
  static void perform_load(lanes const& all) {
    std::uint16_t element[32][8];
    for (std::size_t l = 0; l < 32; ++l) std::memcpy(element[l], static_cast<load_operands const*>(all[l])->row, 16);
    for (int l = 0; l < 32; ++l) {
      words<4>& result = static_cast<load_operands*>(all[static_cast<std::size_t>(l)])->result;
      for (int matrix = 0; matrix < 4; ++matrix) {
        auto const* const rows = element + 8 * matrix;
        int const one = l / 4, pair = 2 * (l % 4);
        std::uint32_t const low = transposed ? rows[pair][one] : rows[one][pair];
        std::uint32_t const high = transposed ? rows[pair + 1][one] : rows[one][pair + 1];
        result.word[matrix] = low | high << 16;
      }
    }
  }
  [[nodiscard]] words<4> load_by(cuda_kernels::emulator::warp_function const& function,
                                 shared_pointer<bfloat16 const> row) const {
    load_operands operands{machine_.shared_row(thread_, row.offset()), {}};
    machine_.warp_collective(thread_, function, &operands);
    return operands.result;
  }

  struct multiply_operands {
    float* c;
    std::uint32_t const* a;
    std::uint32_t const* b;
  };
  /// Element i of a lane's registers, two per register.
  static float element(std::uint32_t const* words, int i) {
    return std::bit_cast<float>(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
  }
  /// c += a b; c is 16 x 8, a 16 x 16, b 16 x 8. With group = l / 4 and member = l % 4, lane l has, as element i,
  ///   a: row group, or group + 8 for i = 2, 3, 6, 7; column 2 member + i % 2, and 8 more for i >= 4
  ///   b: row 2 member + i % 2, and 8 more for i >= 2; column group
  ///   c: row group, or group + 8 for i >= 2; column 2 member + i % 2
  static void perform_multiply(lanes const& all) {
    using row_of_8 [[gnu::vector_size(32)]] = float;
    float a[16][16];
    row_of_8 b[16], c[16];
    for (int l = 0; l < 32; ++l) {
      auto const& own = *static_cast<multiply_operands const*>(all[static_cast<std::size_t>(l)]);
      int const group = l / 4, member = l % 4;
      for (int i = 0; i < 8; ++i) {
        a[group + (i / 2 % 2 == 0 ? 0 : 8)][2 * member + i % 2 + (i < 4 ? 0 : 8)] = element(own.a, i);
      }
      for (int i = 0; i < 4; ++i) b[2 * member + i % 2 + (i < 2 ? 0 : 8)][group] = element(own.b, i);
      for (int i = 0; i < 4; ++i) c[group + (i < 2 ? 0 : 8)][2 * member + i % 2] = own.c[i];
    }
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16; ++k) c[row] += a[row][k] * b[k];
    }
    for (int l = 0; l < 32; ++l) {
      auto const& own = *static_cast<multiply_operands const*>(all[static_cast<std::size_t>(l)]);
      for (int i = 0; i < 4; ++i) own.c[i] = c[l / 4 + (i < 2 ? 0 : 8)][2 * (l % 4) + i % 2];
    }
  }

  cuda_kernels::emulator::machine& machine_;
  int thread_;
};

/// A stream: launches have completed when launch() returns.
class Emulated::queue {
 public:
  queue() : workspace_(std::make_shared<memory>(std::size_t{1} << 20)) {}
  /// A stream of a device with this many bytes of shared memory per block.
  explicit queue(int shared_bytes) : queue() { shared_bytes_ = shared_bytes; }

  template <cuda_kernels::Kernel K>
  void launch(K const& kernel, Index blocks) const {
    cuda_kernels::check_shared<K>(shared_bytes_);
    launch_on<Emulated>(kernel, blocks);
  }
  /// False: there is no vendor library.
  template <class... Operand>
  bool gemm(Operand const&...) const {
    return false;
  }
  [[nodiscard]] std::span<std::byte> workspace() const { return workspace_->bytes(); }
  [[nodiscard]] int processors() const { return 4; }
  [[nodiscard]] int shared_bytes() const { return shared_bytes_; }
  void upload(void* device, void const* host, std::size_t bytes) const {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void download(void* host, void const* device, std::size_t bytes) const {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  void synchronize() const {}

 protected:
  template <class Device, cuda_kernels::Kernel K>
  static void launch_on(K const& kernel, Index blocks) {
    constexpr int cluster = cuda_kernels::blocks_of_cluster<K>;
    cuda_kernels::emulator::machine::launch(
        {detail::name_in(detail::name_source<K>(), false), K::threads * cluster, K::cooperative, K::shared_bytes,
         sizeof(K), cuda_kernels::for_warpgroups<K>, cluster},
        &run<Device, K>, &kernel, blocks);
  }

 private:
  template <class Device, class K>
  static void run(cuda_kernels::emulator::machine& machine, void const* kernel, int thread) {
    Device device(machine, thread);
    (*static_cast<K const*>(kernel))(device);
  }

  std::shared_ptr<memory> workspace_;
  int shared_bytes_ = cuda_kernels::emulator::machine::max_shared_bytes;
};

}  // namespace headmix

HEADMIX_END_QUIET_BOUNDS
