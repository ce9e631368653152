#pragma once
// SPDX-License-Identifier: MIT
// Program: a program bound to memory. Bind the leaves, give it a workspace of workspace_bytes(), then call forward()
// and backward(dy); after that nothing allocates.
//
// Gradients of leaves are added to what the caller's memory holds; zero it between steps. A backward pass may be
// repeated.

#include <array>
#include <initializer_list>
#include <span>

#include "headmix/contract/backend_policy.hpp"
#include "headmix/program/lower/program_table.hpp"
#include "headmix/program/run/runner.hpp"

namespace headmix {

namespace detail {
/// True where all objectives but the result are losses, [1, 1].
template <class Result, class Objective>
inline constexpr bool are_numbers = false;
template <class Result, class... R>
inline constexpr bool are_numbers<Result, type_list<R...>> =
    ((std::is_same_v<R, Result> || (rows<R>::value == 1 && cols<R>::value == 1)) && ...);
/// Places of a value: an expression, a root by its number, and what the view in a place reads.
template <class E>
struct expression_of {
  using type = E;
};
template <class Roots, int Number>
struct root_of {
  using type = nth<Number, typename Roots::list>;
};
template <class Place>
struct source_place {
  using type = source_of<memory_of<typename Place::type>>;
};
/// The leaves of a program, for code that handles those of all programs alike.
struct program_access {
  template <class P>
  static auto& binding(P& program) {
    return program.runner_.binding();
  }
  template <class P>
  static auto const& unrolled(P& program) {
    return program.runner_.unrolled();
  }
  template <class Place, class P>
  static auto value(P const& program, Index instance = 0) {
    return program.template get_as<Place>(instance);
  }
  template <class P>
  static auto& runner(P& program) {
    return program.runner_;
  }
  template <class P>
  static State& state(P& program) {
    return program.runner_.state();
  }
};
template <class P>
auto& binding_of(P& program) {
  return program_access::binding(program);
}
}  // namespace detail

/// One thread at a time may call a program; several programs may run at the same time, if none writes what another one
/// reads.
///
/// @tparam Roots `roots<Y, losses and selections...>`
/// @tparam Backend runs the kernels; the program keeps a reference to it
/// @tparam Mode `training`, `inference` or `gradients_by<leaves...>`
template <class Roots, BackendPolicy Backend, class Mode = training>
class Program {
  using program = detail::program<Roots, Backend, Mode>;
  friend detail::program_access;

 public:
  using scalar = typename Backend::scalar;
  using leaves = typename program::leaves;
  /// Its steps, forward and all, before any of them are done together.
  using forward_steps = detail::forward_steps_in<typename program::parts>;
  using steps = detail::steps_in<typename program::parts>;
  /// The values that have a buffer, in the order in which they are written.
  using buffer_list = detail::buffers_in<typename program::parts>;
  /// The roots that have a gradient: the result and the losses.
  using objective = detail::objective_in<typename program::parts>;
  using result = first_in<typename Roots::list>;
  template <Expr E>
  using type = storage_t<E::kind_of, scalar>;

  /// Keeps a reference to the backend. Where a part is repeated as often as a dynamic size says, that size is given
  /// here; others may be, or by set().
  template <Extent... X>
  explicit Program(Backend& backend, size_value<X>... sizes)
      : runner_(program::table, program::functions, backend, times(typename program::repetitions{}, sizes...)) {
    (set_size(X{}, sizes.n), ...);
  }
  /// Values point to numbers in the program.
  Program(Program const&) = delete;
  Program& operator=(Program const&) = delete;

  /// Binds leaf L to the caller's memory, and its gradient, if it is wanted, to memory of the same extents.
  /// @param instance  of a repeated leaf, which has memory for each instance
  template <Leaf L>
  void bind(L, view<type<L> const> value, view<type<L>> gradient = {}, Index instance = 0) {
    runner_.binding().bind_leaf(leaf_number<L>(instance), detail::untyped(value), detail::untyped(gradient));
  }
  /// The gradient that leaf L is bound to.
  template <Leaf L>
  [[nodiscard]] view<type<L> const> gradient(L, Index instance = 0) const {
    return detail::typed<type<L> const>(runner_.binding().leaf_gradient(leaf_number<L>(instance)));
  }
  /// Says where each sequence of query tokens begins; one sequence without it.
  void bind_tokens(segments s) { runner_.binding().bind_tokens(s); }
  /// Says where each sequence of key tokens begins, in programs whose keys come from another input.
  void bind_context(segments s) { runner_.binding().bind_context(s); }
  /// Gives a dynamic size that no leaf has, e.g. the number of chosen experts.
  template <Extent X>
  void set(X, Index n) {
    static_assert(!counts_times<X>(typename program::repetitions{}),
                  "headmix: a layer is repeated as often as this size says, which the constructor gets");
    set_size(X{}, n);
  }
  /// The value of a size.
  template <Extent X>
  [[nodiscard]] Index extent() const {
    return detail::extent_in<typename program::sizes, X>(runner_.binding().sizes());
  }
  /// The sequences that the rows counted by X belong to.
  template <Extent X>
  [[nodiscard]] segments segments_of() const {
    return detail::segments_in<typename program::sizes, X>(runner_.binding().sizes());
  }

  /// Bytes of workspace that the bound extents need. Checks everything that can be checked before running.
  [[nodiscard]] std::size_t workspace_bytes() { return runner_.workspace_bytes(); }
  /// Gives the program its workspace, aligned to `headmix::alignment`, for as long as the program runs.
  void bind_workspace(std::span<std::byte> memory) { runner_.set_workspace(memory); }

  /// Products with the weights of experts read what `p` has of them; null for none.
  void bind_prepared(prepared_weights<Backend>* p) { runner_.set_prepared(p); }

  /// Computes the roots and returns the first one. The view stays valid until the next forward pass.
  view<type<result> const> forward() {
    runner_.forward();
    return get_as<result_place>();
  }
  /// Adds the gradients of <dy, result> + sum of weights_i * loss_i to the gradients of the leaves.
  /// `weights` has one number per further root that has a gradient; without any the losses count nothing.
  template <class M = Mode>
  void backward(view<type<result> const> dy, std::initializer_list<double> weights = {}) {
    backward<M>(dy, std::span<double const>(std::data(weights), weights.size()));
  }
  /// The same for a number of weights that is known when the program runs.
  template <class M = Mode>
  void backward(view<type<result> const> dy, std::span<double const> weights) {
    check_backward<M>(dy, weights);
    runner_.backward(detail::untyped(dy), weights);
  }
  /// Fails as backward() of the same arguments would, and does nothing else.
  template <class M = Mode>
  void check_backward(view<type<result> const> dy, std::span<double const> weights = {}) const {
    static_assert(!std::is_same_v<M, inference>, "headmix: a program for inference computes no gradients");
    static_assert(detail::are_numbers<result, objective>, "headmix: a loss is a single number, [1, 1]");
    detail::check_alignment("dy", dy.data, alignof(type<result>), dy.size());
    runner_.check_backward(detail::untyped(get_as<result_place>()), detail::untyped(dy), weights);
  }

  /// A root or another value of the program. Only roots are sure to survive a pass.
  /// @param instance  of a value that is made several times
  template <Expr E>
  [[nodiscard]] view<type<E> const> get(E, Index instance = 0) const {
    return get_as<detail::expression_of<E>>(instance);
  }
  /// How far the program has come. After an error, forward() begins where the last step completed.
  [[nodiscard]] stage state() const { return runner_.state().at(); }
  /// True when the values of the last forward pass are there to be read.
  [[nodiscard]] bool has_run() const { return runner_.state().has_run(); }

 private:
  using result_place = detail::root_of<Roots, 0>;
  /// The value Place::type. Names of functions have its place and not the expression.
  template <class Place>
  [[nodiscard]] auto get_as(Index instance = 0) const {
    using M = detail::memory_of<typename Place::type>;
    if constexpr (M::form_of == form::view) {
      return M::op::apply(*this, get_as<detail::source_place<Place>>(instance));
    } else {
      constexpr int number = position_in<detail::values_in<typename program::parts>, M>::value;
      return detail::typed<type<M> const>(runner_.binding().values()[runner_.unrolled().value(number, instance)]);
    }
  }
  template <Extent X>
  void set_size(X, Index n) {
    static_assert(X::value == dynamic, "headmix: this size is static; it needs no value");
    using sizes = typename program::sizes;
    if constexpr (contains<sizes, X>) runner_.binding().set_size(position_in<sizes, X>::value, n);
  }
  template <class X, class... R>
  static constexpr bool counts_times(type_list<R...>) {
    return (std::is_same_v<X, typename R::count> || ...);
  }
  /// How often the parts are done that leaves of repetitions R belong to.
  template <class... R, class... X>
  static std::array<Index, sizeof...(R)> times(type_list<R...>, size_value<X>... sizes) {
    return {times_of<R>(sizes...)...};
  }
  template <class R, class... X>
  static Index times_of(size_value<X>... sizes) {
    using count = typename R::count;
    if constexpr (count::value != dynamic) {
      return count::value;
    } else {
      Index n = dynamic;
      ((n = std::is_same_v<X, count> ? sizes.n : n), ...);
      if (n == dynamic) {
        fail("repeat ", R::name, ": give its number to the constructor: at<", type_name<count>(), ">(n)");
      }
      return n;
    }
  }
  template <Leaf L>
  [[nodiscard]] std::size_t leaf_number(Index instance) const {
    static_assert(contains<leaves, L>, "headmix: this leaf does not occur in the program");
    auto const n = static_cast<std::size_t>(position_in<leaves, L>::value);
    return runner_.unrolled().value(static_cast<int>(n), instance);
  }

  detail::Runner<Backend> runner_;
};

}  // namespace headmix
