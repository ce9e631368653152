#pragma once
// SPDX-License-Identifier: MIT
// Views whose element type is a column of a program's tables.

#include <cstddef>
#include <string>
#include <type_traits>

#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"

namespace headmix::detail {

/// A view whose element type the program knows; strides count elements.
using untyped_view = view<std::byte>;

template <class T>
untyped_view untyped(view<T> const& v) {
  untyped_view u;
  u.data = reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(v.data));
  u.count = v.count, u.rows = v.rows, u.cols = v.cols;
  u.stack_stride = v.stack_stride, u.row_stride = v.row_stride, u.col_stride = v.col_stride;
  return u;
}
template <class T>
view<T> typed(untyped_view const& u) {
  view<T> v;
  v.data = reinterpret_cast<T*>(u.data);
  v.count = u.count, v.rows = u.rows, v.cols = u.cols;
  v.stack_stride = u.stack_stride, v.row_stride = u.row_stride, v.col_stride = u.col_stride;
  return v;
}
inline std::string text(untyped_view const& v) {
  return v.count == 1 ? message("[", v.rows, ", ", v.cols, "]")
                      : message("[", v.count, ", ", v.rows, ", ", v.cols, "]");
}
inline std::string strides(untyped_view const& v) {
  return v.count == 1 ? message("[", v.row_stride, ", ", v.col_stride, "]")
                      : message("[", v.stack_stride, ", ", v.row_stride, ", ", v.col_stride, "]");
}
inline bool same_view(untyped_view const& a, untyped_view const& b) {
  return a.data == b.data && a.count == b.count && a.rows == b.rows && a.cols == b.cols &&
         a.stack_stride == b.stack_stride && a.row_stride == b.row_stride && a.col_stride == b.col_stride;
}
inline bool same_extents(untyped_view const& a, untyped_view const& b) {
  return a.count == b.count && a.rows == b.rows && a.cols == b.cols;
}

}  // namespace headmix::detail
