#pragma once
// SPDX-License-Identifier: MIT
// Tape: a program bound to memory. Bind the leaves, give it a workspace of workspace_bytes(), then call forward() and
// backward(dy); after that nothing allocates.
//
// Gradients of leaves are added to what the caller's memory holds; zero it between steps. A backward pass may be
// repeated.

#include <span>
#include <tuple>

#include "headmix/core/arena.hpp"
#include "headmix/tape/binding.hpp"
#include "headmix/tape/gradient.hpp"
#include "headmix/tape/liveness.hpp"
#include "headmix/tape/lower.hpp"

namespace headmix {

/// Gradients of all parameters and inputs.
struct training {};
/// Forward only; nothing is kept for a backward pass.
struct inference {};
/// Gradients of these leaves and of nothing else: what only other gradients need is not computed.
template <Leaf... L>
struct gradients_by {};

namespace detail {

struct has_gradient {
  template <class E>
  static constexpr bool value = E::grad;
};
template <class Mode, class Leaves>
struct wanted_leaves;
template <class Leaves>
struct wanted_leaves<training, Leaves> {
  using type = decltype(filter(Leaves{}, has_gradient{}));
};
template <class Leaves>
struct wanted_leaves<inference, Leaves> {
  using type = type_list<>;
};
template <class... L, class Leaves>
struct wanted_leaves<gradients_by<L...>, Leaves> {
  static_assert((contains<Leaves, L> && ...), "headmix: a gradient is wanted by a leaf that is not in the program");
  using type = type_list<L...>;
};

template <class E, class Scalar>
struct buffer {
  view<storage_t<E::kind_of, Scalar>> v;
};
template <class L, class Scalar>
struct buffers;
template <class... E, class Scalar>
struct buffers<type_list<E...>, Scalar> : buffer<E, Scalar>... {};

/// True when the kernel leaves this buffer out if nobody reads it.
template <class E>
constexpr bool optional_buffer() {
  if constexpr (E::form_of == form::output) {
    return operand_of<E>::op::optional_outputs;
  } else if constexpr (E::form_of == form::barrier) {
    return E::op::optional_outputs;
  } else {
    return false;
  }
}

template <class E>
struct is_seed : std::false_type {};
template <class R>
struct is_seed<seed<R>> : std::true_type {};

}  // namespace detail

/// What an operation sees of the running tape: the backend, the extents and the step's scratch memory.
template <class Tape, class Backend>
struct run_context {
  Backend& backend;
  Tape const& tape;
  std::span<std::byte> scratch;

  template <Extent X>
  [[nodiscard]] Index extent() const {
    return tape.template extent<X>();
  }
  template <Extent X>
  [[nodiscard]] segments segments_of() const {
    return tape.template segments_of<X>();
  }
};

template <class Roots, class Backend, class Mode = training>
class Tape : public Binding<Roots, typename Backend::scalar> {
  using Base = Binding<Roots, typename Backend::scalar>;

 public:
  using scalar = typename Backend::scalar;
  using leaves = typename Base::leaves;
  using wanted = typename detail::wanted_leaves<Mode, leaves>::type;
  using objective = decltype(detail::filter(typename Roots::list{}, detail::has_gradient{}));
  using forward_steps = schedule<type_list<>, typename Roots::list>;
  using steps = schedule_gradients<forward_steps, graph<Roots, wanted>>;
  using buffer_list = buffers_of<steps>;
  using result = typename detail::first_of<typename Roots::list>::type;
  template <Expr E>
  using type = typename Base::template type<E>;

  explicit Tape(Backend& backend) : backend_(&backend) {}

  /// Bytes of workspace that the bound extents need. Checks everything that can be checked before running.
  [[nodiscard]] std::size_t workspace_bytes() {
    if (this->changed()) plan();
    return bytes_;
  }
  /// Gives the tape its workspace, aligned to `headmix::alignment`, for as long as the tape runs.
  void bind_workspace(std::span<std::byte> memory) {
    if (reinterpret_cast<std::uintptr_t>(memory.data()) % alignment != 0) {
      fail("the workspace must be aligned to ", alignment, " bytes");
    }
    workspace_ = memory;
    placed_ = false;
  }

  /// Computes the roots and returns the first one. The view stays valid until the next forward pass.
  view<type<result> const> forward() {
    prepare();
    if constexpr (Backend::host_memory) check_selections();
    run<0>(forward_steps{});
    ran_ = true;
    return get(result{});
  }

  /// Adds the gradients of <dy, result> + sum of weights_i * loss_i to the gradients of the leaves.
  /// `weights` has one number per further root that has a gradient.
  void backward(view<type<result> const> dy, std::initializer_list<double> weights = {}) {
    if (!ran_ || this->changed()) fail("backward() needs a forward() over the same extents before it");
    bind_seeds(dy, weights);
    run_backward(steps{});
  }

  /// A root or another value of the program. Only roots are sure to survive a pass.
  template <Expr E>
  [[nodiscard]] view<type<E> const> get(E) const {
    return value<E>();
  }

 private:
  using Run = run_context<Tape, Backend>;
  static constexpr auto last_read = last_reads<forward_steps, steps, Roots>();

  template <Expr E>
  detail::buffer<E, scalar>& slot_of() {
    return buffers_;
  }
  template <Expr E>
  detail::buffer<E, scalar> const& slot_of() const {
    return buffers_;
  }

  // ---- planning: the steps in order, every buffer from its writer to its last reader ----

  void plan() {
    this->resolve();
    OffsetPlanner<static_cast<std::size_t>(buffer_list::size) + 1> planner;
    std::size_t const scratch_id = static_cast<std::size_t>(buffer_list::size);
    std::size_t next = 0;
    int step = 0;
    for_each(steps{}, [&]<class S>() {
      for_each(typename detail::written<S>::type{}, [&]<class E>() {
        auto& b = slot_of<E>().v;
        b = {nullptr, this->template extent<count<E>>(), this->template extent<rows<E>>(),
             this->template extent<cols<E>>()};
        used_[next] = last_read[next] > step || !detail::optional_buffer<E>();
        if (used_[next]) {
          offsets_[next] = planner.acquire(next, static_cast<std::size_t>(b.size()) * sizeof(*b.data));
        }
        ++next;
      });
      std::size_t const scratch = scratch_of(S{});
      scratch_bytes_[static_cast<std::size_t>(step)] = scratch;
      if (scratch > 0) {
        scratch_offset_[static_cast<std::size_t>(step)] = planner.acquire(scratch_id, scratch);
        planner.release(scratch_id);
      }
      for (std::size_t i = 0; i < next; ++i) {
        if (last_read[i] == step) planner.release(i);
      }
      ++step;
    });
    bytes_ = planner.peak();
    placed_ = false;
    ran_ = false;
  }
  void prepare() {
    if (this->changed()) plan();
    if (placed_) return;
    if (workspace_.size() < bytes_) {
      fail("the workspace has ", workspace_.size(), " bytes, the program needs ", bytes_);
    }
    std::size_t i = 0;
    for_each(buffer_list{}, [&]<class E>() {
      slot_of<E>().v.data = used_[i] ? reinterpret_cast<type<E>*>(workspace_.data() + offsets_[i]) : nullptr;
      ++i;
    });
    placed_ = true;
  }

  template <class N>
  std::size_t scratch_of(compute<N>) {
    return scratch_of_call<N>(outputs_of(detail::outputs_of<N>(std::make_integer_sequence<int, N::op::outputs - 1>{})));
  }
  template <class E>
  std::size_t scratch_of(store<E>) {
    return scratch_of_terms(slot_of<E>().v, stored_terms<E>{});
  }
  template <class L, class T>
  std::size_t scratch_of(sink<L, T>) {
    return scratch_of_terms(this->template slot<L>().gradient, T{});
  }
  template <class V, class... T>
  std::size_t scratch_of_terms(V y, type_list<T...>) {
    std::size_t bytes = 0;
    auto const one = [&]<class X>() {
      if constexpr (AddsInPlace<X>) bytes = (std::max)(bytes, scratch_of_call<X>(std::tuple{y}));
    };
    (one.template operator()<T>(), ...);
    return bytes;
  }
  template <class N, class Outputs>
  std::size_t scratch_of_call(Outputs outputs) {
    if constexpr (N::op::needs_scratch) {
      return std::apply([&](auto const&... v) { return N::op::scratch(context(-1), v...); },
                        std::tuple_cat(outputs, operands<N>(typename N::args{})));
    } else {
      return 0;
    }
  }

  // ---- running ----

  [[nodiscard]] Run context(int step) const {
    if (step < 0) return {*backend_, *this, {}};
    auto const s = static_cast<std::size_t>(step);
    return {*backend_, *this, workspace_.subspan(scratch_offset_[s], scratch_bytes_[s])};
  }

  template <int Step, class... S>
  void run(type_list<S...>) {
    int step = Step;
    (execute(S{}, step++), ...);
  }
  template <class... S>
  void run_backward(type_list<S...>) {
    int step = 0;
    auto const one = [&]<class X>() {
      if (step >= forward_steps::size) execute(X{}, step);
      ++step;
    };
    (one.template operator()<S>(), ...);
  }

  template <class N>
  void execute(compute<N>, int step) {
    auto outputs = outputs_of(detail::outputs_of<N>(std::make_integer_sequence<int, N::op::outputs - 1>{}));
    auto const arguments = std::tuple_cat(outputs, overwrite<N>(), operands<N>(typename N::args{}));
    std::apply([&](auto const&... v) { N::op::eval(context(step), v...); }, arguments);
  }
  template <class N>
  static constexpr auto overwrite() {
    if constexpr (N::op::accumulates) {
      return std::tuple{false};
    } else {
      return std::tuple{};
    }
  }
  template <class E>
  void execute(store<E>, int step) {
    fill(slot_of<E>().v, stored_terms<E>{}, false, step);
  }
  template <class L, class T>
  void execute(sink<L, T>, int step) {
    auto const& y = this->template slot<L>().gradient;
    if (y.data != nullptr) fill(y, T{}, true, step);
  }

  /// y (+)= the sum of the terms: one pass for all that is pointwise, then the kernels that add in place.
  template <class V, class... T>
  void fill(V const& y, type_list<T...> all, bool accumulate, int step) {
    using fused = decltype(detail::filter(all, fuses{}));
    if constexpr (fused::size > 0) {
      backend_->map(y, lower<decltype(detail::sum_of(fused{}))>(), accumulate);
      accumulate = true;
    }
    auto const one = [&]<class N>() {
      if constexpr (AddsInPlace<N>) {
        auto const arguments = operands<N>(typename N::args{});
        std::apply([&](auto const&... v) { N::op::eval(context(step), y, accumulate, v...); }, arguments);
        accumulate = true;
      }
    };
    (one.template operator()<T>(), ...);
  }
  struct fuses {
    template <class E>
    static constexpr bool value = !AddsInPlace<E>;
  };

  // ---- values ----

  template <Expr E>
  view<type<E> const> value() const {
    if constexpr (detail::is_seed<E>::value) {
      return static_cast<detail::leaf_slot<E, scalar> const&>(seeds_).value;
    } else if constexpr (Leaf<E>) {
      return this->template slot<E>().value;
    } else if constexpr (E::form_of == form::view) {
      return E::op::apply(context(-1), value<operand_of<E>>());
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
    using W = wide_t<scalar>;
    if constexpr (E::form_of == form::immediate) {
      return tree_number<W>{E::template value<W>(context(-1))};
    } else if constexpr (E::form_of == form::pointwise) {
      return lower_node<E>(typename E::args{});
    } else {
      return tree_leaf < type<E>, rows<E>::value == 1 && count<E>::value == 1, cols<E>::value == 1 > {value<E>()};
    }
  }
  template <class E, class... A>
  auto lower_node(type_list<A...>) const {
    if constexpr (requires { typename E::op::repeats; }) {
      return tree_repeat<decltype(lower<A>())...>{lower<A>()..., this->template extent<typename E::op::repeats>()};
    } else {
      return tree_node<wide_t<scalar>, typename E::op, decltype(lower<A>())...>{lower<A>()...};
    }
  }

  // ---- inputs of a pass ----

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
    if (weights.size() != expected) {
      fail("backward() got ", weights.size(), " loss weights, the program has ", expected, " losses");
    }
    auto weight = weights.begin();
    std::size_t i = 0;
    for_each(objective{}, [&]<class R>() {
      auto& s = static_cast<detail::leaf_slot<seed<R>, scalar>&>(seeds_);
      if constexpr (std::same_as<R, result>) {
        auto const y = value<R>();
        if (dy.count != y.count || dy.rows != y.rows || dy.cols != y.cols) {
          fail("dy has extents ", Base::text(dy), ", the result has ", Base::text(y));
        }
        s.value = dy;
      } else {
        static_assert(rows<R>::value == 1 && cols<R>::value == 1, "headmix: a loss is a single number, [1, 1]");
        weights_[i] = static_cast<wide_t<scalar>>(*weight++);
        s.value = {&weights_[i++], 1, 1};
      }
    });
  }

  template <class... R>
  static auto seed_list(type_list<R...>) {
    return type_list<seed<R>...>{};
  }

  Backend* backend_;
  detail::buffers<buffer_list, scalar> buffers_;
  detail::leaf_slots<decltype(seed_list(objective{})), scalar> seeds_;
  std::array<wide_t<scalar>, static_cast<std::size_t>(objective::size) + 1> weights_{};
  std::array<std::size_t, static_cast<std::size_t>(buffer_list::size) + 1> offsets_{};
  std::array<bool, static_cast<std::size_t>(buffer_list::size) + 1> used_{};
  std::array<std::size_t, static_cast<std::size_t>(steps::size) + 1> scratch_offset_{}, scratch_bytes_{};
  std::span<std::byte> workspace_;
  std::size_t bytes_ = 0;
  bool placed_ = false, ran_ = false;
};

}  // namespace headmix
