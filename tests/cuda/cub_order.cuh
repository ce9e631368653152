#pragma once
// SPDX-License-Identifier: MIT
// The order by expert by CUB's device-wide functions, to be compared with cuda_kernels::sort_by_expert: results in
// device/, launches in runtime/.

#include <cstddef>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "headmix/backend/cuda/kernel/rows/map.hpp"
#include "headmix/backend/cuda/sm80.cuh"
#include "headmix/core/view.hpp"

namespace headmix::testing {

/// The choice of slot s of an index, -1 as one expert more; and s itself.
struct keys_of_slots {
  view<Int const> index;
  Int experts;
  Int *keys, *slots;

  HEADMIX_HD void operator()(Index s) const {
    Int const chosen = index(s / index.cols, s % index.cols);
    keys[s] = chosen < 0 || chosen >= experts ? experts : chosen;
    slots[s] = static_cast<Int>(s);
  }
};
/// Where each expert begins among sorted keys, and the end of the last. For places 0 .. n.
struct begins_of_keys {
  Int const* keys;
  Index n;
  Int experts;
  Int* begins;

  HEADMIX_HD void operator()(Index i) const {
    Int const before = i > 0 ? keys[i - 1] : -1, here = i < n ? keys[i] : experts;
    for (Int e = before + 1; e <= here && e <= experts; ++e) begins[e] = static_cast<Int>(i);
  }
};

/// Temporary memory for one call of CUB's: f(memory, bytes) first asks for its size.
template <class F>
void call_cub(cuda_kernels::memory& temporary, F const& f) {
  std::size_t bytes = 0;
  cuda_kernels::check(f(nullptr, bytes), "asking CUB for the bytes it needs");
  if (temporary.bytes().size() < bytes) temporary = cuda_kernels::memory(bytes);
  cuda_kernels::check(f(temporary.bytes().data(), bytes), "calling CUB");
}

/// cuda_kernels::sort_by_expert for one sequence, implemented by cub::DeviceRadixSort.
class order_by_cub {
 public:
  explicit order_by_cub(Index slots) : memory_(3 * static_cast<std::size_t>(slots) * sizeof(Int)), temporary_(1) {}

  void operator()(Sm80::queue const& queue, view<Int> perm, view<Int> begins, view<Int const> index) {
    auto const n = static_cast<Int>(perm.cols), experts = static_cast<Int>(begins.cols - 1);
    Int *const keys = memory_.as<Int>(), *const slots = keys + n, *const sorted = slots + n;
    int bits = 0;
    while (experts >> bits != 0) ++bits;
    each(queue, n, keys_of_slots{index, experts, keys, slots});
    call_cub(temporary_, [&](void* p, std::size_t& bytes) {
      return CUB_NS_QUALIFIER::DeviceRadixSort::SortPairs(p, bytes, keys, sorted, slots, perm.data, n, 0, bits,
                                                          queue.stream());
    });
    each(queue, Index{n} + 1, begins_of_keys{sorted, n, experts, begins.data});
  }

 private:
  template <class F>
  static void each(Sm80::queue const& queue, Index n, F const& f) {
    using kernel = cuda_kernels::for_each_kernel<F>;
    queue.launch(kernel{f, n}, cuda_kernels::blocks_for(n, kernel::threads));
  }

  cuda_kernels::memory memory_, temporary_;
};

/// The number of slots of each expert among n, by cub::DeviceHistogram, which ignores numbers outside 0 .. experts - 1.
inline void count_by_cub(Sm80::queue const& queue, Int* counts, Int const* choices, Index n, Int experts,
                         cuda_kernels::memory& temporary) {
  call_cub(temporary, [&](void* p, std::size_t& bytes) {
    return CUB_NS_QUALIFIER::DeviceHistogram::HistogramEven(p, bytes, choices, counts, experts + 1, Int{0}, experts,
                                                            static_cast<Int>(n), queue.stream());
  });
}

}  // namespace headmix::testing
