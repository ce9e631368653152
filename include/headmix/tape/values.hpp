#pragma once
// SPDX-License-Identifier: MIT
// The values of a bound program: the buffer of every stored value, the seeds of the gradients, and how an expression is
// read, as a view or, fused, as a tree.

#include <array>
#include <initializer_list>
#include <tuple>

#include "headmix/tape/binding.hpp"
#include "headmix/tape/gradient.hpp"
#include "headmix/tape/liveness.hpp"
#include "headmix/tape/lower.hpp"
#include "headmix/tape/mode.hpp"

namespace headmix {

namespace detail {

template <class E, class Scalar>
struct buffer {
  view<storage_t<E::kind_of, Scalar>> v;
};
template <class L, class Scalar>
struct buffers;
template <class... E, class Scalar>
struct buffers<type_list<E...>, Scalar> : buffer<E, Scalar>... {};

}  // namespace detail

/// Buffers of the program Steps with the roots Roots over Scalar.
template <class Roots, class Steps, class Scalar>
class Values : public Binding<Roots, Scalar> {
  using Base = Binding<Roots, Scalar>;

 public:
  using leaves = typename Base::leaves;
  using buffer_list = buffers_of<Steps>;
  /// The roots that have a gradient: the result and the losses.
  using objective = decltype(detail::filter(typename Roots::list{}, detail::has_gradient{}));
  using result = typename detail::first_of<typename Roots::list>::type;
  template <Expr E>
  using type = typename Base::template type<E>;

  /// A root or another value of the program. Only roots are sure to survive a pass.
  template <Expr E>
  [[nodiscard]] view<type<E> const> get(E) const {
    return value<E>();
  }

 protected:
  template <Expr E>
  detail::buffer<E, Scalar>& slot_of() {
    return buffers_;
  }
  template <Expr E>
  detail::buffer<E, Scalar> const& slot_of() const {
    return buffers_;
  }

  template <Expr E>
  view<type<E> const> value() const {
    if constexpr (requires { typename E::seed_of; }) {
      return static_cast<detail::leaf_slot<E, Scalar> const&>(seeds_).value;
    } else if constexpr (Leaf<E>) {
      return this->template slot<E>().value;
    } else if constexpr (E::form_of == form::view) {
      return E::op::apply(*this, value<source_of<E>>());
    } else if constexpr (Alias<E>) {
      return value<typename detail::first_of<terms<E>>::type>();
    } else {
      return slot_of<E>().v;
    }
  }
  template <class... E>
  auto outputs_of(type_list<E...>) {
    return std::tuple{slot_of<E>().v...};
  }
  template <class N, class... A>
  auto operands(type_list<A...>) const {
    if constexpr (N::op::fuses_operands) {
      return std::tuple{lazy<decltype(lower<A>())>{lower<A>(),
                                                   this->template extent<count<A>>() * this->template extent<rows<A>>(),
                                                   this->template extent<cols<A>>()}...};
    } else {
      return std::tuple{value<A>()...};
    }
  }

  template <Expr E>
  auto lower() const {
    using W = wide_t<Scalar>;
    if constexpr (E::form_of == form::immediate) {
      return tree_number<W>{E::template value<W>(*this)};
    } else if constexpr (E::form_of == form::pointwise) {
      return lower_node<E>(typename E::args{});
    } else {
      return tree_leaf < type<E>, rows<E>::value == 1 && count<E>::value == 1, cols<E>::value == 1 > {value<E>()};
    }
  }
  template <class E, class... A>
  auto lower_node(type_list<A...>) const {
    if constexpr (requires { typename E::op::draws; }) {
      Index const batch = this->template extent<tokens>();
      return tree_random<typename E::op::draws>{value<A...>().data, static_cast<std::uint32_t>(E::op::stream),
                                                this->template extent<cols<E>>(),
                                                batch == 0 ? 0 : this->template extent<rows<E>>() / batch};
    } else if constexpr (requires { typename E::op::repeats; }) {
      return tree_repeat<decltype(lower<A>())...>{lower<A>()..., this->template extent<typename E::op::repeats>()};
    } else {
      return tree_node<wide_t<Scalar>, typename E::op, decltype(lower<A>())...>{lower<A>()...};
    }
  }

  void check_selections() const {
    for_each(leaves{}, [&]<class L>() {
      if constexpr (Selection<L>) {
        auto const& v = this->template slot<L>().value;
        Index const limit = this->template extent<domain<L>>();
        for (Index i = 0; i < v.rows; ++i) {
          for (Index j = 0; j < v.cols; ++j) {
            if (v(i, j) < -1 || v(i, j) >= limit) {
              fail(Base::template name<L>(), " holds ", v(i, j), " at (", i, ", ", j, "), expected -1 or 0 .. ",
                   limit - 1);
            }
          }
        }
      }
    });
  }

  void bind_seeds(view<type<result> const> dy, std::initializer_list<double> weights) {
    auto const expected = static_cast<std::size_t>(objective::size - (result::grad ? 1 : 0));
    if (weights.size() != 0 && weights.size() != expected) {
      fail("backward() got ", weights.size(), " loss weights, the program has ", expected, " losses");
    }
    auto weight = weights.begin();
    std::size_t i = 0;
    for_each(objective{}, [&]<class R>() {
      auto& s = static_cast<detail::leaf_slot<seed<R>, Scalar>&>(seeds_);
      if constexpr (std::same_as<R, result>) {
        auto const y = value<R>();
        if (dy.data == nullptr && y.size() > 0) fail("dy is a null pointer; the result has extents ", Base::text(y));
        if (dy.count != y.count || dy.rows != y.rows || dy.cols != y.cols) {
          fail("dy has extents ", Base::text(dy), ", the result has ", Base::text(y));
        }
        s.value = dy;
      } else {
        static_assert(rows<R>::value == 1 && cols<R>::value == 1, "headmix: a loss is a single number, [1, 1]");
        weights_[i] = static_cast<wide_t<Scalar>>(weight == weights.end() ? 0.0 : *weight++);
        s.value = {&weights_[i++], 1, 1};
      }
    });
  }

 private:
  template <class... R>
  static auto seed_list(type_list<R...>) {
    return type_list<seed<R>...>{};
  }

  detail::buffers<buffer_list, Scalar> buffers_;
  detail::leaf_slots<decltype(seed_list(objective{})), Scalar> seeds_;
  std::array<wide_t<Scalar>, static_cast<std::size_t>(objective::size) + 1> weights_{};
};

}  // namespace headmix
