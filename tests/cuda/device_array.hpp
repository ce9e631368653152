#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the tests of device kernels: numbers in device memory, made and compared on the host. For every
// Device, with or without host access to its memory.

#include <cstddef>
#include <utility>
#include <vector>

#include "../difference.hpp"
#include "headmix/core/random.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::testing {

/// While one lives, kernels may touch memory of the device only, where the device can check that.
template <class Device>
struct strict_scope {};
template <class Device>
requires requires { typename Device::strict_memory; }
struct strict_scope<Device> {
  typename Device::strict_memory scope;
};

/// n numbers on the device of a queue; zeros, or copies of the host's.
template <class T, class Device>
class device_array {
 public:
  using queue_type = typename Device::queue;

  device_array(queue_type queue, std::size_t n) : queue_(queue), memory_(n * sizeof(T)), size_(n) {}
  device_array(queue_type queue, std::vector<T> const& values) : device_array(queue, values.size()) { set(values); }

  void set(std::vector<T> const& values) {
    if (!values.empty()) queue_.upload(data(), values.data(), values.size() * sizeof(T));
  }
  /// After the work that the queue was given before.
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> values(size_);
    if (size_ > 0) queue_.download(values.data(), data(), size_ * sizeof(T));
    return values;
  }

  [[nodiscard]] T* data() const { return size_ > 0 ? memory_.template as<T>() : nullptr; }
  [[nodiscard]] Index size() const { return static_cast<Index>(size_); }
  /// All of it as one contiguous matrix, or as a stack of them.
  [[nodiscard]] view<T> matrix(Index rows, Index cols) const { return {data(), rows, cols}; }
  [[nodiscard]] view<T> stack(Index count, Index rows, Index cols) const { return {data(), count, rows, cols}; }
  /// A view of this array with the offset and strides that `v` has in an array that begins at `base`.
  template <class U>
  [[nodiscard]] view<T> like(view<U> v, U const* base) const {
    view<T> mine(data() + (v.data - base), v.count, v.rows, v.cols);
    mine.stack_stride = v.stack_stride, mine.row_stride = v.row_stride, mine.col_stride = v.col_stride;
    return mine;
  }

 private:
  mutable queue_type queue_;
  typename Device::memory memory_;
  std::size_t size_;
};

/// n numbers, uniform on [-0.5, 0.5), that T holds exactly.
template <class T>
std::vector<T> random_numbers(Index n, std::uint64_t stream) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(Random(11, stream).uniform(i) - 0.5);
  return values;
}
template <class To, class From>
std::vector<To> converted(std::vector<From> const& values) {
  std::vector<To> result;
  for (From const& v : values) result.push_back(static_cast<To>(v));
  return result;
}

using test::relative_error;

}  // namespace headmix::testing
