#pragma once
// SPDX-License-Identifier: MIT
// Pointwise operations: the function f of one element and its gradient rule. Operands broadcast along extents of 1. A
// user's own scalar function is one such struct (see ScalarOp).
//
// f is called with plain numbers and with vectors (backend/cpu/simd/simd.hpp, backend/cuda/kernel/float_vector.hpp): it
// uses only + - * / and functions found by argument-dependent lookup. A function that needs more, e.g. a comparison,
// sets `vectorizable = false`; otherwise it does not compile.

#include <cmath>

#include "headmix/core/math.hpp"
#include "headmix/expr/leaf.hpp"
#include "headmix/expr/plain_number.hpp"

namespace headmix {

namespace detail {
template <class A, class B>
using wider = std::conditional_t<A::value == 1 || (A::value == dynamic && B::value > 1), B, A>;
template <class... S>
struct broadcast;
template <class S>
struct broadcast<S> {
  using type = S;
};
template <class S, class T, class... U>
struct broadcast<S, T, U...>
    : broadcast<shape<wider<typename S::rows, typename T::rows>, wider<typename S::cols, typename T::cols>,
                      wider<typename S::count, typename T::count>>,
                U...> {};
template <class X, class Y>
using same_or_one = kept<X::extent::value != 1 && Y::extent::value != 1, equal<X, Y>>;
/// A row that is repeated down every matrix of a stack.
template <class A>
inline constexpr bool is_one_row = rows<A>::value == 1 && count<A>::value == 1;
/// Rows and columns may be repeated; a stack meets a stack of the same extents, or one row.
template <bool Stacks>
struct extents_of_two {
  template <class A, class B>
  using to_check = concat<same_or_one<cols_of<A>, cols_of<B>>, same_or_one<rows_of<A>, rows_of<B>>>;
};
template <>
struct extents_of_two<true> {
  template <class A, class B>
  using to_check = concat<same_or_one<cols_of<A>, cols_of<B>>,
                          type_list<equal<count_of<A>, count_of<B>>, equal<rows_of<A>, rows_of<B>>>>;
};
template <class A, class B>
using extents_to_check =
    typename extents_of_two<!is_one_row<A> && !is_one_row<B> &&
                            (count<A>::value != 1 || count<B>::value != 1)>::template to_check<A, B>;
/// The first operand against each of the others.
template <class A, class... B>
concat<extents_to_check<A, B>...> all_extents_to_check();
}  // namespace detail

/// Base of the pointwise operations; a user's own derives from it too.
struct pointwise : operation {
  static constexpr detail::form form_of = detail::form::pointwise;
  static constexpr char const* hint = "; + - * / are element by element, and a % b is the product of matrices";
  static constexpr bool takes_stacks = true;
  /// False if f takes single numbers only.
  static constexpr bool vectorizable = true;
  /// True if f divides, which takes a GPU many instructions and registers.
  static constexpr bool divides = false;
  template <class... A>
  using shape_of = typename detail::broadcast<typename A::extents...>::type;
  template <class... A>
  using checks = decltype(detail::all_extents_to_check<A...>());
};

/// A pointwise operation of one argument: `template <class T> static T f(T)` and `vjp(dy, a, y)`.
template <class Op>
concept ScalarOp = std::is_base_of_v<pointwise, Op> && requires(double a, float b) {
  { Op::f(a) } -> std::same_as<double>;
  { Op::f(b) } -> std::same_as<float>;
};

namespace archetype {
/// The members that a user's own scalar function needs.
struct scalar_op : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    return a + a;
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(dy + dy); }
};
}  // namespace archetype
static_assert(ScalarOp<archetype::scalar_op>, "headmix: archetype::scalar_op is no ScalarOp");

/// A user's own scalar function of every element: `apply<my_op>(a)`.
template <ScalarOp Op, Expr A>
constexpr auto apply(A a) {
  return make<Op>(a);
}

namespace ops {

struct add : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a, T b) {
    return a + b;
  }
  static constexpr auto vjp(auto dy, auto, auto, auto) { return grads(dy, dy); }
};
struct subtract : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a, T b) {
    return a - b;
  }
  static constexpr auto vjp(auto dy, auto, auto, auto) { return grads(dy, -dy); }
};
struct multiply : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a, T b) {
    return a * b;
  }
  static constexpr auto vjp(auto dy, auto a, auto b, auto) { return grads(dy * b, dy * a); }
};
struct divide : pointwise {
  static constexpr bool divides = true;
  template <class T>
  HEADMIX_HD static T f(T a, T b) {
    return a / b;
  }
  static constexpr auto vjp(auto dy, auto, auto b, auto y) { return grads(dy / b, -(dy * y / b)); }
};
struct negate : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    return -a;
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(-dy); }
};
struct exp : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    using std::exp;
    return exp(a);
  }
  static constexpr auto vjp(auto dy, auto, auto y) { return grads(dy * y); }
};
struct log : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    using std::log;
    return log(a);
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy / a); }
};
struct sqrt : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    using std::sqrt;
    return sqrt(a);
  }
  static constexpr auto vjp(auto dy, auto, auto y) { return grads(dy / (y + y)); }
};
/// 1 where a > 0, else 0.
struct step : pointwise {
  static constexpr bool differentiable = false;
  template <class T>
  HEADMIX_HD static T f(T a) {
    return unit_step(a);
  }
};
/// 1 / (2 a), 0 at 0: the derivative of a square root by its operand, from the root a.
struct half_reciprocal : pointwise {
  static constexpr bool divides = true;
  static constexpr bool vectorizable = false;
  static constexpr bool differentiable = false;
  template <class T>
  HEADMIX_HD static T f(T a) {
    return a == T(0) ? T(0) : T(0.5) / a;
  }
};
/// The square root, with derivative 0 at 0, for lengths.
struct safe_sqrt : sqrt {
  static constexpr auto vjp(auto dy, auto, auto y) { return grads(dy * make<half_reciprocal>(y)); }
};
/// max(a, b); if equal, the gradient goes to b.
struct larger : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a, T b) {
    return maximum(a, b);
  }
  static constexpr auto vjp(auto dy, auto a, auto b, auto) {
    return grads(dy * make<step>(a - b), dy * (number<1>{} - make<step>(a - b)));
  }
};
/// a|, with derivative 0 at 0.
struct absolute : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    return maximum(a, -a);
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy * (make<step>(a) - make<step>(-a))); }
};
/// The value of a with the gradient of b.
struct straight_through : pointwise {
  static constexpr bool estimates_gradient = true;
  template <class T>
  HEADMIX_HD static T f(T a, T) {
    return a;
  }
  static constexpr auto vjp(auto dy, auto, auto, auto) { return grads(none{}, dy); }
};
struct tanh : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    using std::tanh;
    return tanh(a);
  }
  static constexpr auto vjp(auto dy, auto, auto y) { return grads(dy * (number<1>{} - y * y)); }
};
struct sigmoid : pointwise {
  static constexpr bool divides = true;
  template <class T>
  HEADMIX_HD static T f(T a) {
    return logistic(a);
  }
  static constexpr auto vjp(auto dy, auto, auto y) { return grads(dy * y * (number<1>{} - y)); }
};
/// The derivative of silu: s (1 + a (1 - s)), s = sigmoid(a).
struct silu_slope : pointwise {
  static constexpr bool divides = true;
  static constexpr bool differentiable = false;
  template <class T>
  HEADMIX_HD static T f(T a) {
    T const s = logistic(a);
    return s * (T(1) + a * (T(1) - s));
  }
};
struct silu : pointwise {
  static constexpr bool divides = true;
  template <class T>
  HEADMIX_HD static T f(T a) {
    return a * logistic(a);
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy * make<silu_slope>(a)); }
};
/// sigmoid(2 u), u = sqrt(2 / pi) (a + 0.044715 a^3): 1 / 2 (1 + tanh(u)) without cancellation.
template <class T>
__attribute__((always_inline)) HEADMIX_HD inline T gelu_tanh_gate(T a) {
  return logistic(T(1.5957691216057307118) * a * (T(1) + T(0.044715) * (a * a)));
}
/// The derivative of gelu_tanh: s + a s (1 - s) 2 u', s = sigmoid(2 u).
struct gelu_tanh_slope : pointwise {
  static constexpr bool divides = true;
  static constexpr bool differentiable = false;
  template <class T>
  HEADMIX_HD static T f(T a) {
    T const s = gelu_tanh_gate(a);
    return s + a * s * (T(1) - s) * (T(1.5957691216057307118) * (T(1) + T(3 * 0.044715) * (a * a)));
  }
};
struct gelu_tanh : pointwise {
  static constexpr bool divides = true;
  template <class T>
  HEADMIX_HD static T f(T a) {
    return a * gelu_tanh_gate(a);
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy * make<gelu_tanh_slope>(a)); }
};
struct relu : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    return maximum(a, T(0));
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy * make<step>(a)); }
};
/// log(1 + exp(a)), without overflow.
struct softplus : pointwise {
  static constexpr bool vectorizable = false;
  template <class T>
  HEADMIX_HD static T f(T a) {
    using std::exp;
    using std::log1p;
    return maximum(a, T(0)) + log1p(exp(a > T(0) ? -a : a));
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy * make<sigmoid>(a)); }
};
/// The density of the standard normal distribution.
struct normal_density : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    using std::exp;
    return T(0.39894228040143267794) * exp(T(-0.5) * (a * a));
  }
  static constexpr auto vjp(auto dy, auto a, auto y) { return grads(-(dy * a * y)); }
};
/// The standard normal distribution function.
struct normal_cdf : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    using std::erf;
    return T(0.5) * (T(1) + erf(T(0.70710678118654752440) * a));
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy * make<normal_density>(a)); }
};
struct identity : pointwise {
  template <class T>
  HEADMIX_HD static T f(T a) {
    return a;
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(dy); }
};
/// The value, without a gradient.
struct detach : identity {
  static constexpr bool differentiable = false;
};
/// The value in at least float.
struct upcast : identity {
  template <class...>
  static constexpr kind kind_of = kind::accumulator;
};
/// The value in the backend's Scalar.
struct round_to_storage : identity {
  template <class...>
  static constexpr kind kind_of = kind::real;
};

}  // namespace ops

/// a + b, element by element.
template <Expr A, Expr B>
constexpr applied<ops::add, A, B> operator+(A, B) {
  return {};
}
/// a - b.
template <Expr A, Expr B>
constexpr applied<ops::subtract, A, B> operator-(A, B) {
  return {};
}
/// Element by element; the matrix product is `a % b`.
template <Expr A, Expr B>
constexpr applied<ops::multiply, A, B> operator*(A, B) {
  return {};
}
/// a / b.
template <Expr A, Expr B>
constexpr applied<ops::divide, A, B> operator/(A, B) {
  return {};
}
/// -a.
template <Expr A>
constexpr applied<ops::negate, A> operator-(A) {
  return {};
}
/// e^a.
template <Expr A>
constexpr applied<ops::exp, A> exp(A) {
  return {};
}
/// The natural logarithm.
template <Expr A>
constexpr applied<ops::log, A> log(A) {
  return {};
}
/// The square root; see safe_sqrt for values that may be 0.
template <Expr A>
constexpr applied<ops::sqrt, A> sqrt(A) {
  return {};
}
/// The hyperbolic tangent.
template <Expr A>
constexpr applied<ops::tanh, A> tanh(A) {
  return {};
}
/// The absolute value; its gradient at 0 is 0.
template <Expr A>
constexpr applied<ops::absolute, A> abs(A) {
  return {};
}
/// 1 / (1 + e^-a).
template <Expr A>
constexpr applied<ops::sigmoid, A> sigmoid(A) {
  return {};
}
/// max(a, 0); its gradient at 0 is 0.
template <Expr A>
constexpr applied<ops::relu, A> relu(A) {
  return {};
}
/// log(1 + e^a).
template <Expr A>
constexpr applied<ops::softplus, A> softplus(A) {
  return {};
}
/// a Phi(a), Phi the standard normal distribution function (Hendrycks & Gimpel 2016, the exact form).
template <Expr A>
constexpr auto gelu(A a) {
  return a * make<ops::normal_cdf>(a);
}
/// a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))) / 2, the approximation of gelu by tanh (GPT-2, DiT).
template <Expr A>
constexpr applied<ops::gelu_tanh, A> gelu_tanh(A) {
  return {};
}
/// a sigmoid(a).
template <Expr A>
constexpr applied<ops::silu, A> silu(A) {
  return {};
}
/// a a.
template <Expr A>
constexpr auto square(A a) {
  return a * a;
}
/// The square root of a sum of squares, whose derivative at 0 is 0.
template <Expr A>
constexpr auto safe_sqrt(A sum_of_squares) {
  return make<ops::safe_sqrt>(sum_of_squares);
}
/// max(a, b).
template <Expr A, Expr B>
constexpr auto maximum(A a, B b) {
  return make<ops::larger>(a, b);
}
/// The value of a with the gradient of p: p + detach(a - p) without its rounding.
template <Expr A, Expr P>
constexpr auto straight_through(A a, P p) {
  return make<ops::straight_through>(a, p);
}
/// The value with a gradient of zero.
template <Expr A>
constexpr applied<ops::detach, A> detach(A) {
  return {};
}
/// The value in at least float: routers compute in it whatever the storage type.
template <Expr A>
constexpr applied<ops::upcast, A> upcast(A) {
  return {};
}
/// The value rounded to the backend's Scalar: e.g. one computed from statistics or gates, before a product.
template <Expr A>
constexpr applied<ops::round_to_storage, A> round_to_storage(A) {
  return {};
}

}  // namespace headmix
