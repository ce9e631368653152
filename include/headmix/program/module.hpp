#pragma once
// SPDX-License-Identifier: MIT
// Module: a layer with memory. It owns the parameters, their gradients and the workspace, and is what a newcomer uses:
//
//   Module<Moa<512, 64, SoftmaxTopK<8, 2>>, Cpu<float>> m(seed);
//   auto y = m.forward(x);
//   m.backward(dy);
//
// What goes in and comes out (x, y, dy, parameters, gradients, selections) lies in the memory of the backend; batches,
// sizes and losses are the host's.

#include <algorithm>
#include <iterator>
#include <vector>

#include "headmix/program/module_memory.hpp"
#include "headmix/program/program.hpp"

namespace headmix {

/// A layer names its input `x` and its result `y`; further roots are `losses`, [1, 1] each, and `observed` selections.
/// It may have a second input `context`, and leaves `valid_rows` and `context_valid_rows` for inputs with padding, and
/// say in `y_inference` how a program without gradients computes y. A constant or selection with static extents that
/// has a function `element(row, column)` is filled by the module.
template <class L>
concept LayerPolicy = Leaf<typename L::x> && Expr<std::remove_cvref_t<decltype(L::y)>> && requires {
  typename L::losses;
  typename L::observed;
};

namespace detail {
template <class Y, class Losses, class Observed>
struct module_roots;
template <class Y, class... L, class... O>
struct module_roots<Y, type_list<L...>, type_list<O...>> {
  using type = roots<Y, L..., O...>;
};
/// What the program of a mode computes as y.
template <class L, class Mode>
constexpr auto result_of() {
  if constexpr (requires { L::y_inference; } && std::is_same_v<Mode, inference>) {
    return std::remove_cvref_t<decltype(L::y_inference)>{};
  } else {
    return std::remove_cvref_t<decltype(L::y)>{};
  }
}
struct is_known {
  template <class E>
  static constexpr bool value = requires {
    E::element(Index{}, Index{});
  };
};
struct is_parameter {
  template <class E>
  static constexpr bool value = Parameter<E>;
};
struct is_packed {
  template <class E>
  static constexpr bool value = PackedParameter<E>;
};
template <class Initial>
double initial_value(Random const& random, std::uint64_t element, Index rows, Index cols) {
  return Initial::value(random, element, rows, cols);
}
template <class Leaves, class Parameters>
struct parameter_table;
template <class Leaves, class... P>
struct parameter_table<Leaves, type_list<P...>> {
  static constexpr std::array<parameter_row, sizeof...(P)> value = {
      parameter_row{position_in<Leaves, P>::value, &initial_value<typename P::initializer>}...};
};
}  // namespace detail

/// Says that a module works on the parameters of another one.
struct share_parameters {};

/// A layer with its parameters, their gradients and a workspace.
///
/// One thread at a time may call a module. Several modules may run at the same time on threads of their own, also with
/// one thread_pool; with shared parameters only while nobody writes these or their gradients.
/// @tparam L the layer, e.g. Moa
/// @tparam Backend Cpu, Cuda, Reference or your own
/// @tparam Mode `training`, `inference` or `gradients_by<leaves...>`
template <LayerPolicy L, BackendPolicy Backend, class Mode = training>
class Module {
 public:
  using layer = L;
  using scalar = typename Backend::scalar;
  using memory_type = backend_memory<Backend>;
  /// The layer's values; a class of its own, so that the names of types do not spell them out.
  struct layer_roots
      : detail::module_roots<decltype(detail::result_of<L, Mode>()), typename L::losses, typename L::observed>::type {};
  using program_type = Program<layer_roots, Backend, Mode>;
  using parameter_leaves = filter<typename program_type::leaves, detail::is_parameter>;
  using packed_leaves = filter<typename program_type::leaves, detail::is_packed>;

  /// Parameters start by the layer's rules; the same seed gives the same numbers on every platform. Dynamic sizes of
  /// the layer follow: `Module m(seed, backend, at<L::model_dim>(512), ...)`. Modules that work on each other's results
  /// are given copies of one backend, since every default-made one of a GPU is a stream of its own.
  template <Extent... X>
  explicit Module(std::uint64_t seed, Backend backend = {}, size_value<X>... sizes)
      : memory_(std::move(backend), seed), program_(memory_.backend) {
    (program_.set(X{}, sizes.n), ...);
    memory_.allocate_parameters(detail::binding_of(program_), parameter_rows::value, trains);
    allocate_packed(packed_leaves{});
    fill_known(filter<typename program_type::leaves, detail::is_known>{});
    bind_randomness();
  }
  /// A module that works on the parameters of another one and adds to their gradients: another program of the same
  /// weights. Parameters are found by name; one that the owner does not have is an error. The owner must outlive it.
  template <class Owner, Extent... X>
  Module(share_parameters, Owner& owner, size_value<X>... sizes)
      : memory_(owner.backend(), owner.seed()), program_(memory_.backend) {
    (program_.set(X{}, sizes.n), ...);
    memory_.adopt_parameters(detail::binding_of(program_), parameter_rows::value, owner.parameters(), trains);
    static_assert(packed_leaves::size == 0, "headmix: a layer with packed weights cannot share parameters");
    fill_known(filter<typename program_type::leaves, detail::is_known>{});
    bind_randomness();
  }
  Module(Module const&) = delete;
  Module& operator=(Module const&) = delete;

  /// y of x, [tokens, D], all of one sequence. Keeps a reference to x. The result stays valid until the next forward
  /// pass, so it cannot be the x of that: copy it first.
  view<scalar const> forward(view<scalar const> x) { return forward(x, uniform(1, x.rows)); }
  /// y of x, whose rows belong to the sequences `b`: `segments`, or a `Padding` where the layer is `padded`.
  view<scalar const> forward(view<scalar const> x, batch const& b) {
    detail::program_access::state(program_).begin_forward();
    program_.bind(typename L::x{}, x);
    program_.bind_tokens(memory_.carried(detail::name_source<tokens>(), b, memory_.offsets));
    if constexpr (requires { typename L::valid_rows; }) {
      bind_valid_rows<typename L::valid_rows>(b, memory_.valid_rows, "x", x.rows);
    } else {
      detail::refuse_padding(b, "x");
    }
    return forward();
  }
  /// y of x and of the second input, from which keys and values are made (cross-attention).
  template <class Of = L>
  view<scalar const> forward(view<scalar const> x, batch const& b, view<scalar const> context, batch const& m) {
    static_assert(has_leaf<typename Of::context>, "headmix: the layer has no second input; see the option context_dim");
    detail::program_access::state(program_).begin_forward();
    program_.bind(typename Of::context{}, context);
    program_.bind_context(memory_.carried(detail::name_source<context_tokens>(), m, memory_.context_offsets));
    bind_valid_rows<typename Of::context_valid_rows>(m, memory_.context_valid_rows, "context", context.rows);
    return forward(x, b);
  }
  /// The same over leaves that were bound with program().bind().
  view<scalar const> forward() {
    if constexpr (draws_randomness && !std::is_same_v<Mode, inference>) {
      if (!fixed_randomness_) memory_.random = randomness(memory_.seed, passes_);
    }
    bind_randomness();
    std::size_t const bytes = program_.workspace_bytes();
    // Before the workspace grows and its memory is gone.
    detail::binding_of(program_).check_outside(memory_.workspace.bytes());
    reserve(memory_.workspace, bytes);
    program_.bind_workspace(memory_.workspace.bytes());
    auto const y = program_.forward();
    ++passes_;
    return y;
  }
  /// For inference with weights that stay as they are: the next forward pass copies those of experts to where products
  /// read them fastest, on backends that have such a form, for as much memory as they take. The copies are the
  /// module's. After a change of parameters, parameters_changed() must be called; copy_parameters() does.
  template <class M = Mode>
  void prepare_weights() {
    static_assert(std::is_same_v<M, inference>, "headmix: only weights of a module for inference can be prepared");
    memory_.prepare();
    program_.bind_prepared(&memory_.prepared);
  }
  /// Says that values of parameters were written: what prepare_weights() made of them is made again by the next forward
  /// pass.
  void parameters_changed() {
    if (memory_.is_prepared) memory_.prepare();
  }
  /// Adds the gradients of <dy, y> + sum of weights_i * losses_i by the parameters to theirs, and makes those by the
  /// inputs anew; see Program::backward.
  template <class M = Mode>
  void backward(view<scalar const> dy, std::initializer_list<double> weights = {}) {
    static_assert(!std::is_same_v<M, inference>, "headmix: a module for inference computes no gradients");
    program_.check_backward(dy, weights);
    memory_.bind_gradient(detail::binding_of(program_), number_of<typename L::x>(), memory_.input_gradient);
    if constexpr (requires { typename L::context; }) {
      if constexpr (has_leaf<typename L::context>) {
        memory_.bind_gradient(detail::binding_of(program_), number_of<typename L::context>(), memory_.context_gradient);
      }
    }
    program_.backward(dy, weights);
  }

  /// The gradient by the input of forward(x), of the latest backward pass: it stays valid until the next one. Whoever
  /// binds the input with program().bind() and gives it a gradient gets that one, added to.
  template <class M = Mode>
  [[nodiscard]] view<scalar const> input_gradient() const {
    static_assert(!std::is_same_v<M, inference>, "headmix: a module for inference computes no gradients");
    return memory_.input_gradient.latest;
  }
  /// The gradient by the second input, likewise.
  template <class Of = L>
  [[nodiscard]] view<scalar const> context_gradient() const {
    static_assert(trains, "headmix: a module for inference computes no gradients");
    static_assert(has_leaf<typename Of::context>, "headmix: the layer has no second input; see the option context_dim");
    return memory_.context_gradient.latest;
  }

  /// What noise and dropout of the following passes are drawn with; `randomness::off()` for evaluation. Without a call,
  /// training draws with the module's seed, the number of the forward pass being the step, and inference draws nothing.
  /// Before every launch of a recorded graph, it gives the pass new values. backward() needs a forward pass with the
  /// same randomness, so other values make it fail until there was one.
  void set_randomness(randomness r) {
    bool const same = std::equal(std::begin(r.word), std::end(r.word), std::begin(memory_.random.word));
    memory_.random = r;
    fixed_randomness_ = true;
    if (draws_randomness && !same) {
      detail::program_access::state(program_).bar_backward("set_randomness() was called after it");
    }
    bind_randomness();
  }
  /// The number of forward passes so far: with the seed, what the next one draws noise and dropout with.
  [[nodiscard]] std::uint32_t passes() const { return passes_; }
  /// The next forward pass draws what pass number `passes` of a module of this seed draws. Initial values stay.
  void continue_from(std::uint64_t seed, std::uint32_t passes) {
    memory_.seed = seed;
    passes_ = passes;
  }
  /// Loss `Which` of the layer. Waits for the pass that computes it.
  template <int Which>
  [[nodiscard]] double loss() const {
    static_assert(Which >= 0 && Which < L::losses::size, "headmix: the layer has no such loss");
    require_forward("loss()");
    auto const loss = program_.get(nth<Which, typename L::losses>{});
    std::remove_const_t<std::remove_reference_t<decltype(*loss.data)>> number;
    download(memory_.backend, &number, loss.data, 1);
    return static_cast<double>(number);
  }
  /// Selection `Which` of the layer, e.g. the experts chosen for every row.
  template <int Which = 0>
  [[nodiscard]] view<Int const> observed() const {
    static_assert(Which >= 0 && Which < L::observed::size, "headmix: the layer observes no such selection");
    require_forward("observed()");
    return program_.get(nth<Which, typename L::observed>{});
  }

  /// Name, value and gradient of every parameter; in a module for inference the gradients are empty.
  [[nodiscard]] std::vector<parameter<scalar>> const& parameters() const { return memory_.parameters; }
  /// Packed weights, [matrices, 1, words], of a layer for inference; see copy_parameters().
  [[nodiscard]] std::vector<packed_parameter> const& packed_parameters() const { return memory_.packed; }
  /// One of them: `m.get<Layer::W_q>()`.
  template <Parameter P>
  [[nodiscard]] headmix::parameter<scalar> const& get() const {
    static_assert(contains<parameter_leaves, P>, "headmix: the layer has no such parameter");
    return memory_.parameters[static_cast<std::size_t>(position_in<parameter_leaves, P>::value)];
  }
  /// Also where they belong to another module.
  void zero_gradients() { memory_.zero_gradients(); }
  /// The module's own copy.
  [[nodiscard]] Backend const& backend() const { return memory_.backend; }
  /// What the parameters and the randomness are drawn with.
  [[nodiscard]] std::uint64_t seed() const { return memory_.seed; }
  /// The program, for binding further inputs, sequences and sizes.
  [[nodiscard]] program_type& program() { return program_; }

 private:
  using parameter_rows = detail::parameter_table<typename program_type::leaves, parameter_leaves>;

  template <class Leaf>
  static constexpr bool has_leaf = contains<typename program_type::leaves, Leaf>;
  static constexpr bool draws_randomness = has_leaf<random_key>;
  static constexpr bool trains = !std::is_same_v<Mode, inference>;

  template <class Leaf>
  static constexpr std::size_t number_of() {
    return position_in<typename program_type::leaves, Leaf>::value;
  }
  void bind_randomness() {
    if constexpr (draws_randomness) memory_.bind_randomness(detail::binding_of(program_), number_of<random_key>());
  }
  template <class RealRows>
  void bind_valid_rows(batch const& b, HostInts<Backend>& numbers, char const* input, Index rows) {
    if constexpr (has_leaf<RealRows>) {
      memory_.bind_valid_rows(detail::binding_of(program_), number_of<RealRows>(), b, numbers, input, rows);
    } else {
      detail::refuse_padding(b, input);
    }
  }
  void require_forward(char const* what) const { detail::binding_of(program_).check_has_run(what); }

  template <class... Packed>
  void allocate_packed(type_list<Packed...>) {
    (memory_.allocate_packed(detail::binding_of(program_), number_of<Packed>(),
                             program_.template extent<typename Packed::in>(),
                             program_.template extent<typename Packed::out>()),
     ...);
  }
  template <class... Known>
  void fill_known(type_list<Known...>) {
    (fill<Known>(memory_.known.emplace_back()), ...);
  }
  template <class Leaf>
  void fill(memory_type& memory) {
    using T = storage_t<Leaf::kind_of, scalar>;
    static_assert(rows<Leaf>::value != dynamic && cols<Leaf>::value != dynamic,
                  "headmix: a leaf with a function `element` has static extents");
    std::vector<T> elements;
    for (Index i = 0; i < rows<Leaf>::value; ++i) {
      for (Index j = 0; j < cols<Leaf>::value; ++j) elements.push_back(static_cast<T>(Leaf::element(i, j)));
    }
    memory = memory_type(elements.size() * sizeof(T));
    upload(memory_.backend, memory.template as<T>(), elements.data(), elements.size());
    program_.bind(Leaf{}, {memory.template as<T>(), rows<Leaf>::value, cols<Leaf>::value});
  }

  detail::module_memory<Backend> memory_;
  program_type program_;
  std::uint32_t passes_ = 0;
  bool fixed_randomness_ = false;
};

}  // namespace headmix
