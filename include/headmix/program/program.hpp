#pragma once
// SPDX-License-Identifier: MIT
// Program: the passes of a set of roots over memory of the caller. Bind the leaves, then a workspace of
// workspace_bytes(), then call forward() and backward(dy), which do not allocate.
//
// Gradients of leaves are added to the caller's memory; zero it between steps. A backward pass may be repeated.

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "headmix/contract/backend_policy.hpp"
#include "headmix/program/lower/program_table.hpp"
#include "headmix/program/run/runner.hpp"

namespace headmix {

namespace detail {
/// True if all objectives but the result are losses, [1, 1].
template <class Result, class Objective>
inline constexpr bool are_numbers = false;
template <class Result, class... R>
inline constexpr bool are_numbers<Result, type_list<R...>> =
    ((std::is_same_v<R, Result> || (rows<R>::value == 1 && cols<R>::value == 1)) && ...);
/// Places of a value: an expression, a root by its number, the source of a view.
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
/// True for buffers, and for views that number the elements of one as it does.
template <class M>
inline constexpr bool is_reshaped = M::form_of != form::leaf;
template <class M>
requires(M::form_of == form::view) inline constexpr bool is_reshaped<M> =
    std::is_base_of_v<ops::reshape, typename M::op> && is_reshaped<memory_of<source_of<M>>>;
/// Access to the run-time side of any program.
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

/// One thread at a time may call a program. Several programs may run at the same time, unless one writes memory that
/// another reads.
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
  /// The steps of the forward pass, and of both passes, before fusion.
  using forward_steps = detail::forward_steps_in<typename program::parts>;
  using steps = detail::steps_in<typename program::parts>;
  /// The values that have a buffer, in the order in which they are written.
  using buffer_list = detail::buffers_in<typename program::parts>;
  /// The roots that have a gradient: the result and the losses.
  using objective = detail::objective_in<typename program::parts>;
  using result = detail::first_in<typename Roots::list>;
  template <Expr E>
  using type = storage_t<E::kind_of, scalar>;

  /// Keeps a reference to the backend. A dynamic size that counts the instances of a repeated part is an argument;
  /// other sizes may be arguments, or be given by set().
  template <Extent... X>
  explicit Program(Backend& backend, size_value<X>... sizes)
      : runner_(program::table, program::functions, backend, times(typename program::repetitions{}, sizes...)) {
    (set_size(X{}, sizes.n), ...);
  }
  /// Values point to numbers in the program.
  Program(Program const&) = delete;
  Program& operator=(Program const&) = delete;

  /// Binds leaf L to memory of the caller, and optionally its gradient to memory of the same extents.
  /// @param instance  of a repeated leaf, which has memory for each instance
  template <Leaf L>
  void bind(L, view<type<L> const> value, view<type<L>> gradient = {}, Index instance = 0) {
    runner_.binding().bind_leaf(leaf_number<L>(instance), detail::untyped(value), detail::untyped(gradient));
  }
  /// Binds the leaf of a name: of Module::parameters(), "W_q" or "blocks.3.W_q". A name that several leaves have is an
  /// error, which says their qualified names; these bind them. A name that no leaf has is an error that lists the
  /// names.
  void bind(std::string_view name, view<scalar const> value, view<scalar> gradient = {}) {
    runner_.binding().bind_leaf(runner_.binding().leaf_of_name(name, false), detail::untyped(value),
                                detail::untyped(gradient));
  }
  /// Binds a selection, packed weights or a random key by name.
  void bind(std::string_view name, view<Int const> value) {
    runner_.binding().bind_leaf(runner_.binding().leaf_of_name(name, true), detail::untyped(value), {});
  }
  /// The leaves, each instance of a repeated one, for loops over tensors by name.
  [[nodiscard]] std::vector<named_leaf> named_leaves() const { return runner_.named_leaves(); }
  /// The gradient that leaf L is bound to.
  template <Leaf L>
  [[nodiscard]] view<type<L> const> gradient(L, Index instance = 0) const {
    return detail::typed<type<L> const>(runner_.binding().leaf_gradient(leaf_number<L>(instance)));
  }
  /// Sets the sequences of query tokens; without a call, all tokens are one sequence.
  void bind_tokens(segments s) { runner_.binding().bind_tokens(s); }
  /// Sets the sequences of context tokens, in programs with keys of a second input.
  void bind_context(segments s) { runner_.binding().bind_context(s); }
  /// Sets a dynamic size that no leaf has, e.g. the number of chosen experts.
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

  /// Bytes of workspace for the bound extents. Checks everything that can be checked before a pass.
  [[nodiscard]] std::size_t workspace_bytes() { return runner_.workspace_bytes(); }
  /// Binds the workspace, aligned to `headmix::alignment`. It must outlive the passes.
  void bind_workspace(std::span<std::byte> memory) { runner_.set_workspace(memory, {}); }
  /// The first bytes of a workspace, which hold all that a backward pass reads of the forward pass, and the roots;
  /// backward passes do not write them. The rest may be other memory in each pass. workspace_bytes() plans them.
  [[nodiscard]] std::size_t kept_bytes() const { return runner_.memory_plan().kept_bytes(); }
  /// Binds a workspace of two parts: `kept` outlives the backward passes, `rest` of workspace_bytes() - kept_bytes()
  /// the pass. A backward pass with another rest begins with resume().
  void bind_workspace(std::span<std::byte> kept, std::span<std::byte> rest) { runner_.set_workspace(kept, rest); }

  /// Forward passes write the result to memory of the caller and need no workspace for it; a view without data undoes
  /// this. Strides are free unless the program reads the result through a view. The memory must not change before a
  /// backward pass that reads the result (that of softmax does), and overlaps no leaf but an input that no call reads
  /// once the result is written: inference in place.
  /// @param write `result_write::add` adds the result to the memory, if the kernel that makes it can add and nothing
  ///   else reads it
  void bind_result(view<type<result>> y, result_write write = result_write::overwrite) {
    using M = detail::memory_of<result>;
    static_assert(detail::is_reshaped<M>,
                  "headmix: only a result with memory of its own can be bound: not a leaf, nor rows or columns of "
                  "another value");
    runner_.bind_result({detail::untyped(y), write, M::form_of == detail::form::view,
                         &detail::shape_formula_of<typename program::sizes, typename result::extents>});
  }

  /// True if the backward pass reads the result. Otherwise bound memory may change after the forward pass.
  [[nodiscard]] bool backward_reads_result() const { return runner_.memory_plan().backward_reads_result(); }

  /// Products with the weights of experts read their prepared copies in `p`; null for none.
  void bind_prepared(prepared_weights<Backend>* p) { runner_.set_prepared(p); }

  /// Computes the roots and returns the first one. The view stays valid until the next forward pass.
  view<type<result> const> forward() {
    runner_.forward();
    return get_as<result_place>();
  }
  /// Takes the values of a completed forward pass from the workspace, after which backward() may run: of another
  /// program of the same type, sizes and leaves, in this memory or in memory that was copied from there. For hosts that
  /// keep activations as one array of bytes between two calls.
  void resume() { runner_.resume(); }
  /// Adds the gradients of <dy, result> + sum of weights_i * loss_i to the gradients of the leaves.
  /// `weights` has one number for each loss; an empty list weights all losses by 0.
  template <class M = Mode>
  void backward(view<type<result> const> dy, std::initializer_list<double> weights = {}) {
    backward<M>(dy, std::span<double const>(std::data(weights), weights.size()));
  }
  /// With a span of weights.
  template <class M = Mode>
  void backward(view<type<result> const> dy, std::span<double const> weights) {
    check_backward<M>(dy, weights);
    runner_.backward(detail::untyped(dy), weights);
  }
  /// With weights in memory of the backend, [1, 1], one for each loss; the memory is read by this pass.
  template <class M = Mode>
  void backward(view<type<result> const> dy, std::span<view<accumulator_t<scalar> const> const> weights) {
    check_backward<M>(dy);
    std::vector<detail::untyped_view> bound;
    for (auto const& w : weights) bound.push_back(detail::untyped(w));
    runner_.backward(detail::untyped(dy), std::span<detail::untyped_view const>(bound));
  }
  /// The checks of backward() without the pass.
  template <class M = Mode>
  void check_backward(view<type<result> const> dy, std::span<double const> weights = {}) const {
    static_assert(!std::is_same_v<M, inference>, "headmix: a program for inference computes no gradients");
    static_assert(detail::are_numbers<result, objective>, "headmix: a loss is a single number, [1, 1]");
    detail::check_alignment("dy", dy.data, alignof(type<result>), dy.size());
    runner_.check_backward(detail::untyped(get_as<result_place>()), detail::untyped(dy), weights);
  }

  /// A root or another value of the program. Only roots survive a pass for certain.
  /// @param instance  of a value that is made several times
  template <Expr E>
  [[nodiscard]] view<type<E> const> get(E, Index instance = 0) const {
    return get_as<detail::expression_of<E>>(instance);
  }
  /// The last completed stage. After an error, forward() continues from it.
  [[nodiscard]] program_stage state() const { return runner_.state().at(); }
  /// True if the values of the last forward pass can be read.
  [[nodiscard]] bool has_run() const { return runner_.state().has_run(); }

 private:
  using result_place = detail::root_of<Roots, 0>;
  /// The value Place::type; symbols contain the place and not the expression.
  template <class Place>
  [[nodiscard]] auto get_as(Index instance = 0) const {
    using M = detail::memory_of<typename Place::type>;
    if constexpr (M::form_of == detail::form::view) {
      return M::op::apply(*this, get_as<detail::source_place<Place>>(instance));
    } else {
      constexpr int number = detail::position_in<detail::values_in<typename program::parts>, M>::value;
      return detail::typed<type<M> const>(runner_.binding().values()[runner_.unrolled().value(number, instance)]);
    }
  }
  template <Extent X>
  void set_size(X, Index n) {
    static_assert(X::value == dynamic, "headmix: this size is static; it needs no value");
    using sizes = typename program::sizes;
    if constexpr (detail::contains<sizes, X>) runner_.binding().set_size(detail::position_in<sizes, X>::value, n);
  }
  template <class X, class... R>
  static constexpr bool counts_times(type_list<R...>) {
    return (std::is_same_v<X, typename R::count> || ...);
  }
  /// The number of instances of each repetition R.
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
    static_assert(detail::contains<leaves, L>, "headmix: this leaf does not occur in the program");
    auto const n = static_cast<std::size_t>(detail::position_in<leaves, L>::value);
    return runner_.unrolled().value(static_cast<int>(n), instance);
  }

  detail::Runner<Backend> runner_;
};

}  // namespace headmix
