#pragma once
// SPDX-License-Identifier: MIT
// An operation with a kernel for each backend: a separate one for a GPU, rows on all threads for a CPU, and plain loops
// for any other backend with host memory.

#include <headmix/backend/cuda/device.hpp>
#include <headmix/contract/optional_kernels.hpp>
#include <headmix/core/scalar.hpp>
#include <headmix/expr/expr.hpp>

/// One row of running sums, also the kernel of a GPU: a thread for each row. Elements are accessed by load and store of
/// the device, which the emulator checks.
template <bool Transposed, class T>
struct running_sum_rows {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  headmix::view<T> y;
  headmix::view<T const> a;

  template <class Load, class Store>
  HEADMIX_HD void row(headmix::Index i, Load load, Store store) const {
    headmix::accumulator_t<T> sum = 0;
    for (headmix::Index n = 0; n < a.cols; ++n) {
      headmix::Index const j = Transposed ? a.cols - 1 - n : n;
      sum += static_cast<headmix::accumulator_t<T>>(load(&a(i, j)));
      store(&y(i, j), static_cast<T>(sum));
    }
  }
  /// On the host.
  void operator()(headmix::Index i) const {
    row(
        i, [](T const* p) { return *p; }, [](T* p, T value) { *p = value; });
  }
  /// On a device, see backend/cuda/device.hpp.
  template <class Device>
  requires requires(Device& device) { device.thread(); }
  HEADMIX_DEVICE void operator()(Device& device) const {
    headmix::Index const i = device.block() * threads + device.thread();
    if (i >= a.rows) return;
    row(
        i, [&device](T const* p) { return device.load(p); }, [&device](T* p, T value) { device.store(p, value); });
  }
};

/// y_ij = sum of a_ik over k <= j. The transpose, its gradient, is the sum over k >= j.
template <bool Transposed = false>
struct running_sum : headmix::operation {
  template <class A>
  using shape_of = headmix::shape<headmix::rows<A>, headmix::cols<A>>;
  /// `run` has the backend and the sizes of the program.
  template <class T>
  static void eval(auto const& run, headmix::view<T> y, headmix::view<T const> a) {
    running_sum_rows<Transposed, T> const rows{y, a};
    if constexpr (requires { run.backend.queue(); }) {
      run.backend.queue().launch(rows, headmix::cuda_kernels::blocks_for(a.rows, rows.threads));
    } else if constexpr (headmix::ForEach<std::remove_cvref_t<decltype(run.backend)>>) {
      run.backend.for_each(a.rows, rows);
    } else {
      for (headmix::Index i = 0; i < a.rows; ++i) rows(i);
    }
  }
  static constexpr auto vjp(auto dy, auto /*a*/, auto /*y*/) {
    return headmix::grads(headmix::make<running_sum<!Transposed>>(dy));
  }
};
