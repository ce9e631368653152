#pragma once
// SPDX-License-Identifier: MIT
// The run-time side of leaves and sizes: which memory a leaf is bound to, what the dynamic sizes are, and every check
// that the compiler could not make. Messages name the leaf, the size, what was expected and what was found.

#include <string>

#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"
#include "headmix/expr/view_ops.hpp"
#include "headmix/tape/describe.hpp"

namespace headmix {

namespace detail {

template <class X>
struct size_slot {
  Index value = dynamic;
  Index given = dynamic;         // by set()
  std::string_view source = {};  // the leaf that fixed it
};

template <class L, class Scalar>
struct leaf_slot {
  using type = storage_t<L::kind_of, Scalar>;
  view<type const> value;
  view<type> gradient;
  bool bound = false;
};

template <class Slots>
struct size_slots;
template <class... X>
struct size_slots<type_list<X...>> : size_slot<X>... {};
template <class Leaves, class Scalar>
struct leaf_slots;
template <class... L, class Scalar>
struct leaf_slots<type_list<L...>, Scalar> : leaf_slot<L, Scalar>... {};

template <class L>
constexpr auto unique(type_list<>) {
  return L{};
}
template <class L, class H, class... T>
constexpr auto unique(type_list<H, T...>) {
  return unique<push_unique<L, H>>(type_list<T...>{});
}
template <template <class, class> class Rule, class X, class Y>
constexpr auto sizes_of_check(Rule<X, Y>) {
  return concat<named_sizes<typename X::extent>, named_sizes<typename Y::extent>>{};
}
template <class... C>
constexpr auto sizes_of_checks(type_list<C...>) {
  return concat<decltype(sizes_of_check(C{}))...>{};
}
template <class E, class... A>
constexpr auto sizes_of_node(type_list<A...>) {
  if constexpr (requires { typename E::op; }) {
    return sizes_of_checks(typename E::op::template checks<A...>{});
  } else if constexpr (requires { typename E::counted; }) {
    return named_sizes<typename E::counted>{};
  } else {
    return type_list<>{};
  }
}
/// The dynamic sizes that a list of expressions mentions.
template <class... E>
constexpr auto sizes_in(type_list<E...>) {
  return unique<type_list<>>(concat<concat<named_sizes<rows<E>>, named_sizes<cols<E>>, named_sizes<count<E>>,
                                           decltype(sizes_of_node<E>(typename E::args{}))>...>{});
}

}  // namespace detail

/// Memory and sizes of the leaves of a program over Scalar.
template <class Roots, class Scalar>
class Binding {
 public:
  using leaves = leaves_of<Roots>;
  using nodes = nodes_of<Roots>;
  using mentioned = decltype(detail::sizes_in(nodes{}));
  using sizes = decltype(detail::unique<mentioned>(type_list<tokens, memory_tokens, sequences>{}));
  template <Expr E>
  using type = storage_t<E::kind_of, Scalar>;

  /// Binds leaf L to the caller's memory, and its gradient, if it is wanted, to memory of the same extents.
  template <Leaf L>
  void bind(L, view<type<L> const> value, view<type<L>> gradient = {}) {
    static_assert(contains<leaves, L>, "headmix: this leaf does not occur in the program");
    auto& s = slot<L>();
    check_extents<L>(value, "");
    if (gradient.data != nullptr) {
      check_extents<L>(gradient, "the gradient of ");
      if (!same_extents(value, gradient)) {
        fail("the gradient of ", name<L>(), " has extents ", text(gradient), ", its value has ", text(value));
      }
      if (overlaps_itself(gradient) || (gradient.size() > 0 && gradient.data == value.data)) {
        fail("the gradient of ", name<L>(), " must have memory of its own for every element");
      }
    }
    if (!s.bound || !same_extents(s.value, value) || s.value.contiguous() != value.contiguous()) changed_ = true;
    if (s.value.data != value.data) rebound_ = true;
    s.value = value;
    s.gradient = gradient;
    s.bound = true;
  }

  /// The gradient that leaf L is bound to.
  template <Leaf L>
  [[nodiscard]] view<type<L> const> gradient(L) const {
    return slot<L>().gradient;
  }

  /// Gives a dynamic size that no leaf has, e.g. the number of chosen experts.
  template <Extent X>
  void set(X, Index n) {
    static_assert(X::value == dynamic, "headmix: this size is static; it needs no value");
    if constexpr (contains<sizes, X>) {
      if (n < 0) fail("size ", name<X>(), " must not be negative; found ", n);
      if (size<X>().given != n) changed_ = true;
      size<X>().given = size<X>().value = n;
    }
  }

  /// Says where each sequence of query tokens begins; one sequence without it.
  void bind_tokens(segments s) { set_segments<tokens>(tokens_, s); }
  /// Says where each sequence of key tokens begins, in programs whose keys come from another input.
  void bind_memory(segments s) { set_segments<memory_tokens>(memory_, s); }

  template <Extent X>
  [[nodiscard]] Index extent() const {
    if constexpr (X::value != dynamic) {
      return X::value;
    } else {
      return composite(X{});
    }
  }
  /// The sequences that the rows counted by X belong to.
  template <Extent X>
  [[nodiscard]] segments segments_of() const {
    if constexpr (counts<X, tokens>) {
      return tokens_.count > 0 ? tokens_ : uniform(1, extent<tokens>());
    } else if constexpr (counts<X, memory_tokens>) {
      return memory_.count > 0 ? memory_ : uniform(1, extent<memory_tokens>());
    } else {
      return uniform(1, extent<X>());
    }
  }

 protected:
  /// Planning needs extents only; running needs the memory too.
  void check_memory() const {
    for_each(leaves{}, [&]<class L>() {
      auto const& v = slot<L>().value;
      if (v.data == nullptr && v.size() > 0) {
        fail(name<L>(), " is bound to a null pointer; its extents are ", text(v));
      }
    });
  }
  template <Leaf L>
  detail::leaf_slot<L, Scalar>& slot() {
    return leaf_slots_;
  }
  template <Leaf L>
  detail::leaf_slot<L, Scalar> const& slot() const {
    return leaf_slots_;
  }
  [[nodiscard]] bool changed() const { return changed_; }

  /// Finds the value of every size and checks every requirement; fails with a message or leaves all sizes known.
  void resolve() {
    for_each(sizes{}, [&]<class X>() {
      size<X>().value = size<X>().given;
      size<X>().source = "set()";
    });
    fix<tokens>(tokens_);
    fix<memory_tokens>(memory_);
    size<sequences>().value = tokens_.count > 0 ? tokens_.count : 1;
    for_each(leaves{}, [&]<class L>() {
      if (!slot<L>().bound) fail(name<L>(), " is not bound: call bind(", name<L>(), "{}, memory) first");
      each_extent<L>([&]<class X>(Index found, char const*) {
        if constexpr (contains<sizes, X>) {
          if (size<X>().value == dynamic) {
            size<X>().value = found;
            size<X>().source = type_name<L>();
          }
        }
      });
    });
    unused_is_zero<tokens>();
    unused_is_zero<memory_tokens>();
    for_each(sizes{}, [&]<class X>() {
      if (size<X>().value == dynamic) {
        fail("size ", type_name<X>(), " is not known: no bound leaf has it; call set(", type_name<X>(), "{}, n) first");
      }
    });
    for_each(leaves{}, [&]<class L>() {
      each_extent<L>([&]<class X>(Index found, char const* what) {
        if (found != extent<X>()) {
          fail(name<L>(), " has ", found, " ", what, ", expected ", expectation<X>());
        }
      });
    });
    for_each(nodes{}, [&]<class N>() {
      if constexpr (requires { typename N::op; }) check_node<N>(typename N::args{});
    });
    Index const memory_sequences = memory_.count > 0 ? memory_.count : 1;
    if (uses_memory(leaves{}) && memory_sequences != extent<sequences>()) {
      fail("memory_tokens has ", memory_sequences, " sequences, tokens has ", extent<sequences>(),
           "; bind_memory() and bind_tokens() say where they begin");
    }
    changed_ = false;
  }

  template <class E>
  static std::string name() {
    return std::string(type_name<E>());
  }
  template <class T>
  static std::string text(view<T> const& v) {
    return v.count == 1 ? message("[", v.rows, ", ", v.cols, "]")
                        : message("[", v.count, ", ", v.rows, ", ", v.cols, "]");
  }

 private:
  template <Extent X>
  detail::size_slot<X>& size() {
    return size_slots_;
  }
  template <class X>
  Index composite(X) const {
    return static_cast<detail::size_slot<X> const&>(size_slots_).value;
  }
  template <class A, class B>
  Index composite(product<A, B>) const {
    return extent<A>() * extent<B>();
  }
  template <class A, class B>
  Index composite(quotient<A, B>) const {
    Index const b = extent<B>();
    return b == 0 ? 0 : extent<A>() / b;
  }
  template <class A, class B>
  Index composite(together<A, B>) const {
    return extent<A>() + extent<B>();
  }
  template <class A>
  Index composite(plus_one<A>) const {
    return extent<A>() + 1;
  }

  template <class X>
  std::string expectation() {
    std::string const number = std::to_string(extent<X>());
    if constexpr (X::value != dynamic || !contains<sizes, X>) {
      return number;
    } else {
      return message(number, " (", name<X>(), ", as ", size<X>().source, " has it)");
    }
  }

  template <class X>
  void unused_is_zero() {
    if constexpr (!contains<mentioned, X>) size<X>().value = 0;
  }
  template <class... L>
  static constexpr bool uses_memory(type_list<L...>) {
    return (counts<rows<L>, memory_tokens> || ...);
  }

  template <class X>
  void fix(segments const& s) {
    if (s.count == 0) return;
    if (size<X>().given != dynamic && size<X>().given != s.rows) {
      fail(name<X>(), ": set() says ", size<X>().given, ", the sequences have ", s.rows, " rows");
    }
    size<X>().value = s.rows;
    size<X>().source = "the sequences";
  }

  template <class X>
  void set_segments(segments& mine, segments s) {
    std::string_view const what = type_name<X>();
    if (s.count < 1) fail(what, ": there must be at least one sequence, found ", s.count);
    if (s.offsets == nullptr) {
      if (s.rows % s.count != 0) {
        fail(what, ": ", s.rows, " rows do not divide evenly into ", s.count, " sequences; give offsets");
      }
    } else {
      for (Index b = 0; b < s.count; ++b) {
        if (s.offsets[0] != 0 || s.offsets[b + 1] < s.offsets[b]) {
          fail(what, ": offsets must begin with 0 and never fall; offset ", b + 1, " is ", s.offsets[b + 1], " after ",
               s.offsets[b]);
        }
      }
      if (s.offsets[s.count] != s.rows) {
        fail(what, ": the offsets end at ", s.offsets[s.count], ", there are ", s.rows, " rows");
      }
    }
    if (mine.rows != s.rows || mine.count != s.count) changed_ = true;
    mine = s;
    size<X>().value = s.rows;
  }

  template <class L, class F>
  void each_extent(F f) {
    auto const& v = slot<L>().value;
    f.template operator()<count<L>>(v.count, "matrices");
    f.template operator()<rows<L>>(v.rows, "rows");
    f.template operator()<cols<L>>(v.cols, "columns");
  }

  template <class N, class... A>
  void check_node(type_list<A...>) {
    for_each(typename N::op::template checks<A...>{}, [&]<class C>() { check<N>(C{}); });
    if constexpr (std::is_base_of_v<ops::reshape, typename N::op>) check_rows_follow<operand_of<N>>();
  }
  template <class N, template <class, class> class Rule, class X, class Y>
  void check(Rule<X, Y>) {
    Index const x = extent<typename X::extent>(), y = extent<typename Y::extent>();
    if (!Rule<X, Y>::holds(x, y)) {
      fail(detail::describe<N>(), ": ", detail::describe_side<X>(), " = ", x, " ", Rule<X, Y>::text, " ",
           detail::describe_side<Y>(), " = ", y);
    }
  }
  template <class E>
  void check_rows_follow() {
    if constexpr (Alias<E>) {
      check_rows_follow<typename detail::first_of<terms<E>>::type>();
    } else if constexpr (Leaf<E>) {
      if (!slot<E>().value.contiguous()) {
        fail(name<E>(), " is split or merged, so its rows must follow each other; found row stride ",
             slot<E>().value.row_stride, " for ", slot<E>().value.cols, " columns");
      }
    }
  }

  template <class L, class T>
  static void check_extents(view<T> const& v, char const* what) {
    if (0 > v.count || 0 > v.rows || 0 > v.cols) fail(what, name<L>(), " has a negative extent: ", text(v));
  }
  template <class T>
  static bool overlaps_itself(view<T> const& v) {
    return v.size() > 0 && ((v.count > 1 && v.stack_stride == 0) || (v.rows > 1 && v.row_stride == 0) ||
                            (v.cols > 1 && v.col_stride == 0));
  }

  template <class A, class B>
  static bool same_extents(view<A> const& a, view<B> const& b) {
    return a.count == b.count && a.rows == b.rows && a.cols == b.cols;
  }

  detail::leaf_slots<leaves, Scalar> leaf_slots_;
  detail::size_slots<sizes> size_slots_;
  segments tokens_{nullptr, 0, 0}, memory_{nullptr, 0, 0};
  bool changed_ = true;

 protected:
  /// A leaf was bound to other memory since the last forward pass.
  bool rebound_ = true;
};

}  // namespace headmix
