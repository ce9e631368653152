#pragma once
// SPDX-License-Identifier: MIT
// Lowered trees: the operand of a kernel that was a fused expression. Only pointers, strides and pointwise operations
// are left, no leaf names. Everything is computed in the wide type.
//
// tree.row(i).at<P>(j) is element (i, j) as a number (P arithmetic) or elements (i, j .. j + width) as a vector;
// vectors need tree.unit_stride(). row(i) computes once what is constant along a row. tree.aligned(bytes) is true if
// rows begin at multiples of `bytes`, a power of two.
//
// tree.lazy_row(i).loaded<P>(j).at<P>(j) is the same vector, with all loads before the first computation. P is the
// register type of the elements (backend/cuda/kernel/float_vector.hpp).

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "headmix/core/random.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// One number per row.
template <class W>
struct row_constant {
  W number;
  template <class P>
  HEADMIX_HD P at(Index) const {
    return P(number);
  }
  template <class P>
  HEADMIX_HD row_constant loaded(Index) const {
    return *this;
  }
};
/// Elements that have been loaded.
template <class Packed>
struct row_loaded {
  Packed elements;
  template <class P>
  HEADMIX_HD P at(Index) const {
    return P(elements);
  }
};
/// The elements of one row of a matrix.
template <class T>
struct row_elements {
  T const* data;
  Index stride;
  template <class P>
  HEADMIX_HD P at(Index j) const {
    if constexpr (std::is_arithmetic_v<P>) {
      return static_cast<P>(data[j * stride]);
    } else {
      return P::load(data + j);
    }
  }
  template <class P>
  HEADMIX_HD row_loaded<typename P::template packed<T>> loaded(Index j) const {
    return {P::read(data + j)};
  }
};
template <class Op, class... R>
struct row_node;
template <class Op>
struct row_node<Op> {};
template <class Op, class A>
struct row_node<Op, A> {
  A a;
  template <class P>
  HEADMIX_HD P at(Index j) const {
    return Op::template f<P>(a.template at<P>(j));
  }
  template <class P>
  HEADMIX_HD auto loaded(Index j) const {
    return row_node<Op, decltype(a.template loaded<P>(j))>{a.template loaded<P>(j)};
  }
};
template <class Op, class A, class B>
struct row_node<Op, A, B> {
  A a;
  B b;
  template <class P>
  HEADMIX_HD P at(Index j) const {
    return Op::template f<P>(a.template at<P>(j), b.template at<P>(j));
  }
  template <class P>
  HEADMIX_HD auto loaded(Index j) const {
    return row_node<Op, decltype(a.template loaded<P>(j)), decltype(b.template loaded<P>(j))>{a.template loaded<P>(j),
                                                                                              b.template loaded<P>(j)};
  }
};

/// A buffer, broadcast along the extents where it is statically 1.
template <class T, bool OneRow, bool OneCol>
struct tree_leaf {
  static constexpr bool vectorizable = true;
  static constexpr bool one_col = OneCol;
  view<T const> v;
  [[nodiscard]] HEADMIX_HD bool unit_stride() const { return OneCol || v.col_stride == 1; }
  [[nodiscard]] HEADMIX_HD bool aligned(std::size_t bytes) const {
    if constexpr (OneCol) {
      return true;
    } else {
      return OneRow ? reinterpret_cast<std::uintptr_t>(v.data) % bytes == 0 : v.aligned(bytes);
    }
  }
  HEADMIX_HD auto row(Index i) const {
    T const* const p = OneRow ? v.data : v.row(i);
    if constexpr (OneCol) {
      return row_constant<accumulator_t<T>>{static_cast<accumulator_t<T>>(*p)};
    } else {
      return row_elements<T>{p, v.col_stride};
    }
  }
  HEADMIX_HD auto lazy_row(Index i) const { return row(i); }
};
/// One number.
template <class W>
struct tree_number {
  static constexpr bool vectorizable = true;
  static constexpr bool one_col = true;
  W number;
  [[nodiscard]] HEADMIX_HD static constexpr bool unit_stride() { return true; }
  [[nodiscard]] HEADMIX_HD static constexpr bool aligned(std::size_t) { return true; }
  HEADMIX_HD row_constant<W> row(Index) const { return {number}; }
  HEADMIX_HD row_constant<W> lazy_row(Index) const { return {number}; }
};
/// A row of at most `most` numbers.
template <class W>
struct tree_numbers {
  static constexpr int most = 16;
  static constexpr bool vectorizable = false;
  static constexpr bool one_col = false;
  W number[most];
  [[nodiscard]] HEADMIX_HD static constexpr bool unit_stride() { return true; }
  [[nodiscard]] HEADMIX_HD static constexpr bool aligned(std::size_t) { return false; }
  HEADMIX_HD row_elements<W> row(Index) const { return {number, 1}; }
};
/// A pointwise operation. W is its type of computation.
template <class W, class Op, class... A>
struct tree_node;
template <class W, class Op, class A>
struct tree_node<W, Op, A> {
  static constexpr bool vectorizable = Op::vectorizable && A::vectorizable;
  static constexpr bool one_col = A::one_col;
  A a;
  [[nodiscard]] HEADMIX_HD bool unit_stride() const { return a.unit_stride(); }
  [[nodiscard]] HEADMIX_HD bool aligned(std::size_t bytes) const { return a.aligned(bytes); }
  HEADMIX_HD auto row(Index i) const {
    auto const r = row_node<Op, decltype(a.row(i))>{a.row(i)};
    if constexpr (one_col) {
      return row_constant<W>{r.template at<W>(0)};
    } else {
      return r;
    }
  }
  HEADMIX_HD auto lazy_row(Index i) const { return row_node<Op, decltype(a.lazy_row(i))>{a.lazy_row(i)}; }
};
template <class W, class Op, class A, class B>
struct tree_node<W, Op, A, B> {
  static constexpr bool vectorizable = Op::vectorizable && A::vectorizable && B::vectorizable;
  static constexpr bool one_col = A::one_col && B::one_col;
  A a;
  B b;
  [[nodiscard]] HEADMIX_HD bool unit_stride() const { return a.unit_stride() && b.unit_stride(); }
  [[nodiscard]] HEADMIX_HD bool aligned(std::size_t bytes) const { return a.aligned(bytes) && b.aligned(bytes); }
  HEADMIX_HD auto row(Index i) const {
    auto const r = row_node<Op, decltype(a.row(i)), decltype(b.row(i))>{a.row(i), b.row(i)};
    if constexpr (one_col) {
      return row_constant<W>{r.template at<W>(0)};
    } else {
      return r;
    }
  }
  HEADMIX_HD auto lazy_row(Index i) const {
    return row_node<Op, decltype(a.lazy_row(i)), decltype(b.lazy_row(i))>{a.lazy_row(i), b.lazy_row(i)};
  }
};
/// A tree with every row repeated `repeats` times.
template <class A>
struct tree_repeat {
  static constexpr bool vectorizable = A::vectorizable;
  static constexpr bool one_col = A::one_col;
  A a;
  Index repeats;
  [[nodiscard]] HEADMIX_HD bool unit_stride() const { return a.unit_stride(); }
  [[nodiscard]] HEADMIX_HD bool aligned(std::size_t bytes) const { return a.aligned(bytes); }
  HEADMIX_HD auto row(Index i) const { return a.row(i / repeats); }
  HEADMIX_HD auto lazy_row(Index i) const { return a.lazy_row(i / repeats); }
};

/// Random values of one row.
template <class Distribution>
struct row_random {
  Random random;
  std::uint64_t first;
  bool on;
  template <class P>
  HEADMIX_HD P at(Index j) const {
    return P(on ? Distribution::value(random, first + static_cast<std::uint64_t>(j)) : Distribution::off);
  }
};
/// Random values; `key` holds the words of a `randomness`. Element (i, j) is number i * cols + j of its stream, with
/// rows numbered through all parts of a batch.
template <class Distribution, random_stream Stream>
struct tree_random {
  static constexpr bool vectorizable = false;
  static constexpr bool one_col = false;
  Int const* key;
  Index cols, rows_per_token;
  [[nodiscard]] HEADMIX_HD static constexpr bool unit_stride() { return true; }
  [[nodiscard]] HEADMIX_HD static constexpr bool aligned(std::size_t) { return true; }
  HEADMIX_HD row_random<Distribution> row(Index i) const {
    return {random_stream_of(key, Stream), row_in_batch(key, i, rows_per_token) * static_cast<std::uint64_t>(cols),
            randomness_is_on(key)};
  }
};

// ---- trees over products that the kernel itself computes (FusedExperts of contract/optional_kernels.hpp) ----

/// An element of product number Number.
template <int Number>
struct row_product {};
/// Product number Number, whose elements a kernel has in registers. The functions below evaluate the tree with them.
template <int Number>
struct tree_product {
  static constexpr bool vectorizable = true;
  static constexpr bool one_col = false;
  [[nodiscard]] HEADMIX_HD static constexpr bool unit_stride() { return true; }
  [[nodiscard]] HEADMIX_HD static constexpr bool aligned(std::size_t) { return true; }
  HEADMIX_HD row_product<Number> row(Index) const { return {}; }
  HEADMIX_HD row_product<Number> lazy_row(Index) const { return {}; }
};

/// Element(s) j of a row of a tree, with the elements of the products in product[0], product[1], ...
template <class P, class Row>
HEADMIX_HD P at_products(Row const& row, Index j, P const*) {
  return row.template at<P>(j);
}
/// Element(s) j of a product.
template <class P, int Number>
HEADMIX_HD P at_products(row_product<Number> const&, Index, P const* product) {
  return product[Number];
}
/// Element(s) j of a pointwise operation on one tree.
template <class P, class Op, class A>
HEADMIX_HD P at_products(row_node<Op, A> const& row, Index j, P const* product) {
  return Op::template f<P>(at_products<P>(row.a, j, product));
}
/// Element(s) j of a pointwise operation on two trees.
template <class P, class Op, class A, class B>
HEADMIX_HD P at_products(row_node<Op, A, B> const& row, Index j, P const* product) {
  return Op::template f<P>(at_products<P>(row.a, j, product), at_products<P>(row.b, j, product));
}

/// The tree with product n replaced by a buffer at product[n].
template <class Tree, class T>
Tree with_products(Tree const& tree, view<T const> const*) {
  return tree;
}
/// A product as a buffer.
template <int Number, class T>
tree_leaf<T, false, false> with_products(tree_product<Number> const&, view<T const> const* product) {
  return {product[Number]};
}
/// A pointwise operation on one tree, with products as buffers.
template <class W, class Op, class A, class T>
auto with_products(tree_node<W, Op, A> const& tree, view<T const> const* product) {
  auto const a = with_products(tree.a, product);
  return tree_node<W, Op, std::remove_cv_t<decltype(a)>>{a};
}
/// A pointwise operation on two trees, with products as buffers.
template <class W, class Op, class A, class B, class T>
auto with_products(tree_node<W, Op, A, B> const& tree, view<T const> const* product) {
  auto const a = with_products(tree.a, product);
  auto const b = with_products(tree.b, product);
  return tree_node<W, Op, std::remove_cv_t<decltype(a)>, std::remove_cv_t<decltype(b)>>{a, b};
}

/// A fused operand: a tree and its extents (`rows` counts the rows of all matrices of a stack).
template <class Tree>
struct lazy {
  Tree tree;
  Index rows, cols;
};

}  // namespace headmix
