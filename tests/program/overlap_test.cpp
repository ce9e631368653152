// SPDX-License-Identifier: MIT
// The overlap of views, against sets of the addresses of their elements.

#include "headmix/program/run/aliasing.hpp"

#include <doctest/doctest.h>

#include <set>

namespace overlap_test {

namespace {

using namespace headmix;
using headmix::detail::overlaps_itself;
using headmix::detail::share_memory;

view<float> some(float* data, Index count, Index rows, Index cols, Index stack, Index row, Index col) {
  view<float> v(data, count, rows, cols);
  v.stack_stride = stack, v.row_stride = row, v.col_stride = col;
  return v;
}
std::multiset<float*> places(view<float> const& v) {
  std::multiset<float*> all;
  for (Index e = 0; e < v.count; ++e) {
    for (Index i = 0; i < v.rows; ++i) {
      for (Index j = 0; j < v.cols; ++j) all.insert(&v[e](i, j));
    }
  }
  return all;
}

TEST_CASE("overlap: every small view knows whether its elements share memory") {
  static float memory[400];
  int overlapping = 0, separate = 0, wrong = 0;
  for (Index const count : {1, 2, 3}) {
    for (Index const rows : {0, 1, 2, 4}) {
      for (Index const cols : {1, 3}) {
        for (Index const stack : {0, 2, 5, 12}) {
          for (Index row = -5; row <= 5; ++row) {
            for (Index col = -3; col <= 4; ++col) {
              view<float> const v = some(memory + 200, count, rows, cols, stack, row, col);
              auto const all = places(v);
              bool const shared = std::set<float*>(all.begin(), all.end()).size() < all.size();
              (shared ? overlapping : separate) += 1;
              wrong += overlaps_itself(v) != shared ? 1 : 0;
              auto const range = headmix::detail::addresses_of(v, sizeof(float));
              for (float* const p : all) {
                auto const at = reinterpret_cast<std::uintptr_t>(p);
                wrong += at < range.begin || at + sizeof(float) > range.end ? 1 : 0;
              }
            }
          }
        }
      }
    }
  }
  CHECK(wrong == 0);
  CHECK((overlapping > 100 && separate > 100));
}
TEST_CASE("overlap: of two views of the same strides, exactly") {
  static float memory[400];
  int overlapping = 0, separate = 0, wrong = 0;
  for (Index const row : {3, 4, 7, -6}) {
    for (Index const col : {1, 2}) {
      for (Index offset = -30; offset <= 30; ++offset) {
        for (Index const rows : {1, 3}) {
          for (Index const cols : {1, 2}) {
            view<float> const a = some(memory + 200, 2, 2, 3, 20, row, col),
                              b = some(memory + 200 + offset, 1, rows, cols, 99, row, col);
            auto const of_a = places(a);
            bool shared = false;
            for (float* const p : places(b)) shared = shared || of_a.count(p) > 0;
            (shared ? overlapping : separate) += 1;
            wrong += share_memory(a, b, sizeof(float)) != shared || share_memory(b, a, sizeof(float)) != shared ? 1 : 0;
          }
        }
      }
    }
  }
  CHECK(wrong == 0);
  CHECK((overlapping > 50 && separate > 50));
}
TEST_CASE("overlap: of different strides, or halfway into an element, by addresses") {
  static float memory[400];
  view<float> const a(memory, 4, 4);
  CHECK(share_memory(a, a.transposed(), sizeof(float)));
  CHECK(!share_memory(a, view<float>(memory + 16, 8, 2), sizeof(float)));
  CHECK(share_memory(a, view<float>(memory + 15, 8, 2), sizeof(float)));
  CHECK(!share_memory(a, view<float>(memory, 0, 4), sizeof(float)));
}

}  // namespace

}  // namespace overlap_test
