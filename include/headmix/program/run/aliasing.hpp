#pragma once
// SPDX-License-Identifier: MIT
// Whether views share memory: two elements of one view, or elements of two. Exact for views of the same strides.

#include <algorithm>
#include <array>
#include <cstdint>

#include "headmix/core/checked.hpp"
#include "headmix/core/view.hpp"

namespace headmix::detail {

/// The addresses from the first byte of a view to one past its last, whatever the sign of its strides.
struct address_range {
  std::uintptr_t begin = 0, end = 0;
  [[nodiscard]] bool meets(address_range const& other) const { return begin < other.end && other.begin < end; }
};
/// `element` is the size of one; strides count elements.
template <class T>
address_range addresses_of(view<T> const& v, std::size_t element) {
  if (v.size() == 0) return {};
  checked first = 0, last = 0;
  auto const go = [&](Index extent, Index stride) {
    checked const last_one = checked(extent - 1) * stride;
    (last_one.value < 0 ? first : last) += last_one;
  };
  go(v.count, v.stack_stride), go(v.rows, v.row_stride), go(v.cols, v.col_stride);
  auto const bytes = [&](checked n) { return static_cast<std::uintptr_t>((n * static_cast<Index>(element)).value); };
  auto const data = reinterpret_cast<std::uintptr_t>(v.data);
  return {data + bytes(first), data + bytes(last + 1)};
}

/// A difference of two positions along one dimension, of elements `stride` apart.
struct position_difference {
  Index least, most, stride;
};
/// True if sum of n_i stride_i = distance for differences n_i within their limits, which are not all 0 where
/// `other_than_zero`.
inline bool reaches(std::array<position_difference, 3> d, Index distance, bool other_than_zero) {
  auto const length = [](position_difference const& x) { return x.most - x.least; };
  // The longest is solved for, the others are tried.
  std::sort(d.begin(), d.end(), [&](auto const& a, auto const& b) { return length(a) < length(b); });
  for (Index a = d[0].least; a <= d[0].most; ++a) {
    for (Index b = d[1].least; b <= d[1].most; ++b) {
      Index const rest = (checked(distance) - checked(a) * d[0].stride - checked(b) * d[1].stride).value;
      bool const all_zero = a == 0 && b == 0;
      if (d[2].stride == 0) {
        if (rest == 0 && (!other_than_zero || !all_zero || length(d[2]) > 0)) return true;
      } else if (rest % d[2].stride == 0) {
        Index const c = rest / d[2].stride;
        if (c >= d[2].least && c <= d[2].most && (!other_than_zero || !all_zero || c != 0)) return true;
      }
    }
  }
  return false;
}

/// True if two elements of a view lie at the same place.
template <class T>
bool overlaps_itself(view<T> const& v) {
  if (v.size() == 0) return false;
  std::array<position_difference, 3> d = {{{1 - v.count, v.count - 1, v.stack_stride},
                                           {1 - v.rows, v.rows - 1, v.row_stride},
                                           {1 - v.cols, v.cols - 1, v.col_stride}}};
  // Usually each dimension steps over the one below it.
  auto const step = [](position_difference const& x) {
    return x.stride < 0 ? checked(0) - x.stride : checked(x.stride);
  };
  std::sort(d.begin(), d.end(), [&](auto const& a, auto const& b) { return step(a).value < step(b).value; });
  checked below = 0;
  bool nested = true;
  for (auto const& x : d) {
    if (x.most == 0) continue;
    nested = nested && step(x).value > below.value;
    below += step(x) * x.most;
  }
  return !nested && reaches(d, 0, true);
}

/// True if an element of `a` lies in the memory of one of `b`, both of elements of so many bytes. Of views with
/// different strides, whose elements could lie between each other, this is what their addresses say.
template <class T>
bool share_memory(view<T> const& a, view<T> const& b, std::size_t element) {
  if (!addresses_of(a, element).meets(addresses_of(b, element))) return false;
  auto const distance = reinterpret_cast<std::intptr_t>(b.data) - reinterpret_cast<std::intptr_t>(a.data);
  if (distance % static_cast<std::intptr_t>(element) != 0) return true;
  // A stride to nowhere is any stride.
  auto const along = [](Index of_a, Index stride_a, Index of_b, Index stride_b) {
    return position_difference{1 - of_b, of_a - 1, of_a > 1 ? stride_a : stride_b};
  };
  auto const same = [](Index of_a, Index stride_a, Index of_b, Index stride_b) {
    return of_a <= 1 || of_b <= 1 || stride_a == stride_b;
  };
  if (!same(a.count, a.stack_stride, b.count, b.stack_stride) || !same(a.rows, a.row_stride, b.rows, b.row_stride) ||
      !same(a.cols, a.col_stride, b.cols, b.col_stride)) {
    return true;
  }
  return reaches({along(a.count, a.stack_stride, b.count, b.stack_stride),
                  along(a.rows, a.row_stride, b.rows, b.row_stride), along(a.cols, a.col_stride, b.cols, b.col_stride)},
                 distance / static_cast<std::intptr_t>(element), false);
}

}  // namespace headmix::detail
