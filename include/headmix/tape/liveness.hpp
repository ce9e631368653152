#pragma once
// SPDX-License-Identifier: MIT
// Which buffers a program has, which step writes each and which step reads it last. Known when the program is compiled.

#include <array>

#include "headmix/tape/program.hpp"

namespace headmix {

namespace detail {

template <class N, int... I>
constexpr auto outputs_of(std::integer_sequence<int, I...>) {
  return type_list<N, output<I + 1, N>...>{};
}
template <class Step>
struct written;
template <class N>
struct written<compute<N>> {
  using type = decltype(outputs_of<N>(std::make_integer_sequence<int, N::op::outputs - 1>{}));
};
template <class E>
struct written<store<E>> {
  using type = type_list<E>;
};
template <class L, class T>
struct written<sink<L, T>> {
  using type = type_list<>;
};
template <class Steps>
struct all_written;
template <class... S>
struct all_written<type_list<S...>> {
  using type = concat<typename written<S>::type...>;
};

/// Calls f.template operator()<B>() for every buffer that is read when E is in memory already.
template <class E, class F>
constexpr void for_buffers_of_operand(F& f);
/// Calls f.template operator()<B>() for every buffer that is read when E is evaluated element by element.
template <class E, class F>
constexpr void for_buffers_of_tree(F& f);

template <class F, class... A>
constexpr void for_buffers_of_operands(type_list<A...>, F& f) {
  (for_buffers_of_operand<A>(f), ...);
}
template <class F, class... A>
constexpr void for_buffers_of_trees(type_list<A...>, F& f) {
  (for_buffers_of_tree<A>(f), ...);
}

template <class E, class F>
constexpr void for_buffers_of_operand(F& f) {
  if constexpr (Pointwise<E> || Stored<E>) {
    f.template operator()<E>();
  } else if constexpr (E::form_of == form::view) {
    for_buffers_of_operand<source_of<E>>(f);
  } else if constexpr (E::form_of == form::let) {
    for_buffers_of_operand<typename first_of<terms<E>>::type>(f);
  }
}
template <class E, class F>
constexpr void for_buffers_of_tree(F& f) {
  if constexpr (Pointwise<E>) {
    for_buffers_of_trees(typename E::args{}, f);
  } else {
    for_buffers_of_operand<E>(f);
  }
}
template <class N, class F>
constexpr void for_buffers_of_call(F& f) {
  if constexpr (N::op::fuses_operands) {
    for_buffers_of_trees(typename N::args{}, f);
  } else {
    for_buffers_of_operands(typename N::args{}, f);
  }
}
template <class F, class... T>
constexpr void for_buffers_of_terms(type_list<T...>, F& f) {
  auto const one = [&]<class X>() {
    if constexpr (AddsInPlace<X>) {
      for_buffers_of_call<X>(f);
    } else {
      for_buffers_of_tree<X>(f);
    }
  };
  (one.template operator()<T>(), ...);
}

template <class E>
struct stored_terms {
  using type = terms<E>;
};
template <Pointwise E>
struct stored_terms<E> {
  using type = type_list<E>;
};

template <class Step>
struct step_reads;
template <class N>
struct step_reads<compute<N>> {
  template <class F>
  static constexpr void visit(F& f) {
    for_buffers_of_call<N>(f);
  }
};
template <class E>
struct step_reads<store<E>> {
  template <class F>
  static constexpr void visit(F& f) {
    for_buffers_of_terms(typename stored_terms<E>::type{}, f);
  }
};
template <class L, class T>
struct step_reads<sink<L, T>> {
  template <class F>
  static constexpr void visit(F& f) {
    for_buffers_of_terms(T{}, f);
  }
};

}  // namespace detail

/// The buffers of a program, in the order in which they are written.
template <class Steps>
using buffers_of = typename detail::all_written<Steps>::type;

/// The terms whose sum step `store<E>` writes.
template <Expr E>
using stored_terms = typename detail::stored_terms<E>::type;

/// For each buffer the step that reads it last; `Steps::size` when it must survive the program.
///
/// What the forward pass made and the backward pass reads survives, so that a backward pass can be repeated.
template <class Forward, class Steps, class Roots>
constexpr auto last_reads() {
  using buffers = buffers_of<Steps>;
  std::array<int, buffers::size + 1> writer{}, last{};
  int step = 0;
  for_each(Steps{}, [&]<class S>() {
    auto read = [&]<class B>() {
      constexpr auto i = static_cast<std::size_t>(position_in<buffers, B>);
      bool const survives = writer[i] < Forward::size && step >= Forward::size;
      last[i] = (survives || last[i] == Steps::size) ? Steps::size : step;
    };
    detail::step_reads<S>::visit(read);
    for_each(typename detail::written<S>::type{}, [&]<class B>() {
      constexpr auto i = static_cast<std::size_t>(position_in<buffers, B>);
      writer[i] = last[i] = step;
    });
    ++step;
  });
  auto keep = [&]<class B>() { last[static_cast<std::size_t>(position_in<buffers, B>)] = Steps::size; };
  for_each(typename Roots::list{}, [&]<class R>() { detail::for_buffers_of_operand<R>(keep); });
  return last;
}

}  // namespace headmix
