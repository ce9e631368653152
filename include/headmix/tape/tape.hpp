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
#include "headmix/tape/values.hpp"

namespace headmix {

namespace detail {

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

/// The steps of a program: the forward ones, and those followed by the backward ones.
template <class Roots, class Mode>
struct program {
  using wanted = typename wanted_leaves<Mode, leaves_of<Roots>>::type;
  using forward_steps = schedule<type_list<>, typename Roots::list>;
  using steps = schedule_gradients<forward_steps, graph<Roots, wanted>>;
};

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

/// @tparam Roots `roots<Y, losses and selections...>`
/// @tparam Backend runs the kernels; the tape keeps a reference to it
/// @tparam Mode `training`, `inference` or `gradients_by<leaves...>`
template <class Roots, class Backend, class Mode = training>
class Tape : public Values<Roots, typename detail::program<Roots, Mode>::steps, typename Backend::scalar> {
  using Base = Values<Roots, typename detail::program<Roots, Mode>::steps, typename Backend::scalar>;

 public:
  using scalar = typename Backend::scalar;
  using wanted = typename detail::program<Roots, Mode>::wanted;
  using forward_steps = typename detail::program<Roots, Mode>::forward_steps;
  using steps = typename detail::program<Roots, Mode>::steps;
  using buffer_list = typename Base::buffer_list;
  using result = typename Base::result;
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
    if (memory.data() == workspace_.data() && memory.size() == workspace_.size()) return;
    workspace_ = memory;
    placed_ = ran_ = false;
  }

  /// Computes the roots and returns the first one. The view stays valid until the next forward pass.
  view<type<result> const> forward() {
    prepare();
    this->check_memory();
    if constexpr (Backend::host_memory) this->check_selections();
    run<0>(forward_steps{});
    ran_ = true;
    this->rebound_ = false;
    return this->get(result{});
  }

  /// Adds the gradients of <dy, result> + sum of weights_i * loss_i to the gradients of the leaves.
  /// `weights` has one number per further root that has a gradient; without any the losses count nothing.
  void backward(view<type<result> const> dy, std::initializer_list<double> weights = {}) {
    static_assert(!std::is_same_v<Mode, inference>, "headmix: a tape for inference computes no gradients");
    if (!ran_ || this->rebound_ || this->changed())
      fail("backward() needs a forward() over the same memory and extents before it");
    this->bind_seeds(dy, weights);
    run_backward(steps{});
  }

  /// True when the values of the last forward pass are there to be read.
  [[nodiscard]] bool has_run() const { return ran_; }

 private:
  using Run = run_context<Tape, Backend>;
  static constexpr auto last_read = last_reads<forward_steps, steps, Roots>();

  // ---- planning: the steps in order, every buffer from its writer to its last reader ----

  void plan() {
    this->resolve();
    for_each(forward_steps{}, [&]<class S>() { validate(S{}); });
    OffsetPlanner<static_cast<std::size_t>(buffer_list::size) + 1> planner;
    std::size_t const scratch_id = static_cast<std::size_t>(buffer_list::size);
    std::size_t next = 0;
    int step = 0;
    for_each(steps{}, [&]<class S>() {
      for_each(typename detail::written<S>::type{}, [&]<class E>() {
        auto& b = this->template slot_of<E>().v;
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
      this->template slot_of<E>().v.data =
          used_[i] ? reinterpret_cast<type<E>*>(workspace_.data() + offsets_[i]) : nullptr;
      ++i;
    });
    placed_ = true;
  }

  template <class S>
  void validate(S) const {}
  template <class N>
  void validate(compute<N>) const {
    if constexpr (N::op::validates) validate_node<N>(typename N::args{});
  }
  template <class N, class... A>
  void validate_node(type_list<A...>) const {
    N::op::template validate<A...>(context(-1));
  }

  template <class N>
  std::size_t scratch_of(compute<N>) {
    return scratch_of_call<N>(
        this->outputs_of(detail::outputs_of<N>(std::make_integer_sequence<int, N::op::outputs - 1>{})));
  }
  template <class E>
  std::size_t scratch_of(store<E>) {
    return scratch_of_terms(this->template slot_of<E>().v, stored_terms<E>{});
  }
  template <class L, class T>
  std::size_t scratch_of(sink<L, T>) {
    // Sized by the leaf: its gradient may be bound later.
    return scratch_of_terms(view<type<L>>(nullptr, this->template extent<count<L>>(), this->template extent<rows<L>>(),
                                          this->template extent<cols<L>>()),
                            T{});
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
                        std::tuple_cat(outputs, this->template operands<N>(typename N::args{})));
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
    auto outputs = this->outputs_of(detail::outputs_of<N>(std::make_integer_sequence<int, N::op::outputs - 1>{}));
    auto const arguments = std::tuple_cat(outputs, overwrite<N>(), this->template operands<N>(typename N::args{}));
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
    fill(this->template slot_of<E>().v, stored_terms<E>{}, false, step);
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
      backend_->map(y, this->template lower<decltype(detail::sum_of(fused{}))>(), accumulate);
      accumulate = true;
    }
    auto const one = [&]<class N>() {
      if constexpr (AddsInPlace<N>) {
        auto const arguments = this->template operands<N>(typename N::args{});
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

  Backend* backend_;
  std::array<std::size_t, static_cast<std::size_t>(buffer_list::size) + 1> offsets_{};
  std::array<bool, static_cast<std::size_t>(buffer_list::size) + 1> used_{};
  std::array<std::size_t, static_cast<std::size_t>(steps::size) + 1> scratch_offset_{}, scratch_bytes_{};
  std::span<std::byte> workspace_;
  std::size_t bytes_ = 0;
  bool placed_ = false, ran_ = false;
};

}  // namespace headmix
