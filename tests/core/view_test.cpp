// SPDX-License-Identifier: MIT
// view and segments.

#include "headmix/core/view.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

using namespace headmix;

namespace {
std::vector<int> ascending(std::size_t n) {
  std::vector<int> v(n);
  std::iota(v.begin(), v.end(), 0);
  return v;
}
}  // namespace

TEST_CASE("view: a matrix is row-major") {
  auto a = ascending(12);
  view<int> const v(a.data(), 3, 4);
  CHECK(v(0, 0) == 0);
  CHECK(v(1, 0) == 4);
  CHECK(v(2, 3) == 11);
  CHECK(v.size() == 12);
  CHECK(v.count == 1);
  v(1, 2) = -1;
  CHECK(a[6] == -1);
}

TEST_CASE("view: strides skip what lies between rows and columns") {
  auto a = ascending(30);
  view<int> v(a.data() + 1, 2, 3);
  v.row_stride = 10;
  v.col_stride = 2;
  CHECK(v(0, 2) == 5);
  CHECK(v(1, 0) == 11);
  CHECK(v(1, 2) == 15);
  v.row_stride = -1;
  CHECK(v(1, 0) == 0);
}

TEST_CASE("view: transposed exchanges extents and strides, twice is the same") {
  auto a = ascending(24);
  view<int> const v(a.data(), 2, 3, 4);
  auto const t = v.transposed();
  CHECK(t.rows == 4);
  CHECK(t.cols == 3);
  CHECK(t.count == 2);
  for (Index e = 0; e < 2; ++e) {
    for (Index i = 0; i < 3; ++i) {
      for (Index j = 0; j < 4; ++j) CHECK(t[e](j, i) == v[e](i, j));
    }
  }
  auto const twice = t.transposed();
  CHECK(twice.row_stride == v.row_stride);
  CHECK(twice.col_stride == v.col_stride);
  CHECK_FALSE(t.contiguous());
}

TEST_CASE("view: row() numbers the rows of all matrices of a stack through") {
  auto a = ascending(40);
  view<int> v(a.data(), 3, 2, 4);
  for (Index i = 0; i < 6; ++i) CHECK(*v.row(i) == 4 * i);
  v.stack_stride = 16;
  CHECK(*v.row(1) == 4);
  CHECK(*v.row(2) == 16);
  CHECK(*v.row(5) == 36);
  CHECK(v[2](1, 3) == 39);
  CHECK(v[2].count == 1);
}

TEST_CASE("view: a matrix out of a stack, rows and columns out of a matrix") {
  auto a = ascending(24);
  view<int> const v(a.data(), 4, 6);
  auto const middle = v.middle_rows(1, 2).middle_cols(3, 2);
  CHECK(middle.rows == 2);
  CHECK(middle.cols == 2);
  CHECK(middle(0, 0) == 9);
  CHECK(middle(1, 1) == 16);
}

TEST_CASE("view: contiguous sees gaps of columns, rows and matrices, and ignores strides of extents of one") {
  auto a = ascending(100);
  CHECK(view<int>(a.data(), 3, 4).contiguous());
  CHECK(view<int>(a.data(), 2, 3, 4).contiguous());
  CHECK_FALSE(view<int>(a.data(), 3, 4).middle_cols(0, 3).contiguous());
  CHECK(view<int>(a.data(), 3, 4).middle_rows(1, 2).contiguous());
  CHECK(view<int>(a.data(), 1, 4).transposed().contiguous());
  view<int> v(a.data(), 2, 3, 4);
  v.stack_stride = 20;
  CHECK_FALSE(v.contiguous());
  CHECK(v[1].contiguous());
  view<int> one(a.data(), 1, 4);
  one.row_stride = 50;
  CHECK(one.contiguous());
}

TEST_CASE("view: what is writable can be read, with all its strides") {
  auto a = ascending(24);
  view<int> const v(a.data(), 2, 3, 4);
  view<int const> const r = v.transposed();
  CHECK(r(1, 2) == v(2, 1));
  CHECK(r.count == 2);
  CHECK(r.stack_stride == 12);
  static_assert(!std::is_convertible_v<view<int const>, view<int>>);
}

TEST_CASE("segments: a uniform batch divides the rows evenly") {
  auto const s = uniform(3, 5);
  CHECK(s.count == 3);
  CHECK(s.rows == 15);
  CHECK(s.begin(0) == 0);
  CHECK(s.begin(2) == 10);
  CHECK(s.end(2) == 15);
  CHECK(s.length(1) == 5);
}

TEST_CASE("segments: ragged sequences follow their offsets, empty ones included") {
  Int const offsets[] = {0, 4, 4, 9};
  auto const s = ragged(offsets, 3);
  CHECK(s.rows == 9);
  CHECK(s.length(0) == 4);
  CHECK(s.length(1) == 0);
  CHECK(s.begin(2) == 4);
  CHECK(s.end(2) == 9);
  CHECK(s == segments{offsets, 3, 9});
  CHECK_FALSE(s == uniform(3, 3));
}
