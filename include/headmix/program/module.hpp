#pragma once
// SPDX-License-Identifier: MIT
// Module: a layer with memory for its parameters, gradients and workspace.
//
//   Module<Moa<512, 64, SoftmaxTopK<8, 2>>, Cpu<float>> m(seed);
//   auto y = m.forward(x);
//   m.backward(dy);
//
// Inputs, results, parameters, gradients and selections lie in memory of the backend; batches, sizes and losses in
// memory of the host.

#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include "headmix/expr/layer_policy.hpp"
#include "headmix/program/module/leaves.hpp"
#include "headmix/program/module/loss_weights.hpp"
#include "headmix/program/module/memory.hpp"
#include "headmix/program/program.hpp"

namespace headmix {

/// Tag: the module uses the parameters of another module.
struct share_parameters {};
/// Tag: parameters start as zeros and not by the layer's initialisers.
struct uninitialized {};

/// A layer with its parameters, their gradients and a workspace.
///
/// One thread at a time may call a module. Several modules may run at the same time on their own threads, also with one
/// thread_pool; with shared parameters only while no thread writes the parameters or their gradients.
/// @tparam L the layer, e.g. Moa
/// @tparam Backend Cpu, Cuda, Reference or your own
/// @tparam Mode `training`, `inference` or `gradients_by<leaves...>`
template <GivenLayer L, BackendPolicy Backend, class Mode = training>
class Module {
  static_assert(detail::checked_losses<typename L::losses>::value, "headmix: a loss of the layer is no single number");

 public:
  using layer = L;
  using scalar = typename Backend::scalar;
  using memory_type = backend_memory<Backend>;
  /// The roots of the layer; a class, so that names of types do not spell them out.
  struct layer_roots {
    using list = typename detail::module_roots<decltype(detail::result_of<L, Mode>()), typename L::losses,
                                               typename L::observed>::type::list;
  };
  using program_type = Program<layer_roots, Backend, Mode>;
  /// The number type of y and dy: `scalar`, or its accumulator_t for values that are never rounded, as losses are.
  using result_scalar = typename program_type::template type<typename program_type::result>;
  /// The number type of x: `scalar`, or Int where x is a selection, such as the ids of tokens.
  using input_scalar = storage_t<L::x::kind_of, scalar>;
  using parameter_leaves = detail::filter<typename program_type::leaves, detail::is_parameter>;
  using buffer_leaves = detail::filter<typename program_type::leaves, detail::is_buffer>;
  using packed_leaves = detail::filter<typename program_type::leaves, detail::is_packed>;

  /// Parameters start by the layer's initialisers; a seed gives the same numbers on every platform. Dynamic sizes of
  /// the layer are further arguments: `Module m(seed, backend, at<L::model_dim>(512), ...)`. Modules that read each
  /// other's results need copies of one backend: every default-constructed backend of a GPU has its own stream.
  template <Extent... X>
  explicit Module(std::uint64_t seed, Backend backend = {}, size_value<X>... sizes)
      : Module(initial_weights::by_the_rules, seed, std::move(backend), sizes...) {}
  /// A module of zero weights, for load() and copy_parameters().
  template <Extent... X>
  explicit Module(uninitialized, Backend backend = {}, size_value<X>... sizes)
      : Module(initial_weights::none, 0, std::move(backend), sizes...) {}
  /// A module that uses the parameters of `owner` and adds to their gradients. Parameters are matched by name; a name
  /// that the owner lacks is an error. The owner must outlive the module.
  template <class Owner, Extent... X>
  requires std::is_same_v<std::remove_cvref_t<decltype(std::declval<Owner&>().backend())>, Backend> Module(
      share_parameters, Owner& owner, size_value<X>... sizes)
      : Module(share_parameters{}, owner, owner.backend(), sizes...) {}
  /// On another backend with the same memory, such as one with another executor: a server has one set of weights and a
  /// thread pool for each module.
  template <class Owner, Extent... X>
  Module(share_parameters, Owner& owner, Backend backend, size_value<X>... sizes)
      : self_(std::make_unique<body>(std::move(backend), owner.seed(), sizes...)) {
    static_assert(std::is_same_v<typename Owner::memory_type, memory_type>,
                  "headmix: modules share parameters where their backends have the same memory");
    auto& memory = self_->memory;
    memory.adopt(memory.parameters, binding(), of_all_times(parameter_rows, memory.parameters), owner.parameters(),
                 trains);
    if constexpr (buffer_leaves::size > 0) {
      memory.adopt(memory.buffers, binding(), of_all_times(buffer_rows, memory.buffers), owner.buffers(), false);
    }
    static_assert(packed_leaves::size == 0, "headmix: a layer with packed weights cannot share parameters");
    fill_known(detail::filter<typename program_type::leaves, detail::is_known>{});
    find_random_keys();
    bind_randomness();
  }

  /// y of x, [tokens, D], one sequence. Keeps a reference to x. The result is valid until the next forward pass, so it
  /// cannot be the input of that pass.
  view<result_scalar const> forward(view<input_scalar const> x) { return forward(x, uniform(1, x.rows)); }
  /// y of x, whose rows belong to the sequences `b`: `segments`, or a `Padding` where the layer is `padded`.
  view<result_scalar const> forward(view<input_scalar const> x, batch const& b) {
    detail::program_access::state(self_->program).begin_forward();
    self_->program.bind(typename L::x{}, x);
    self_->program.bind_tokens(self_->memory.carried(detail::name_source<tokens>(), b, self_->memory.sequences));
    if constexpr (requires { typename L::valid_rows; }) {
      bind_valid_rows<typename L::valid_rows>(b, self_->memory.valid_rows, "x", x.rows);
    } else {
      detail::refuse_padding(b, "x");
    }
    return forward();
  }
  /// y of x and of a second input, the source of keys and values (cross-attention). Positions of queries among the rows
  /// of the second input: contract/position.hpp.
  template <class Of = L>
  view<result_scalar const> forward(view<input_scalar const> x, batch const& b, view<scalar const> context,
                                    batch const& m) {
    static_assert(has_leaf<typename Of::context>, "headmix: the layer has no second input; see the option context_dim");
    detail::program_access::state(self_->program).begin_forward();
    self_->program.bind(typename Of::context{}, context);
    self_->program.bind_context(
        self_->memory.carried(detail::name_source<context_tokens>(), m, self_->memory.context_sequences));
    if constexpr (requires { typename Of::context_valid_rows; }) {
      bind_valid_rows<typename Of::context_valid_rows>(m, self_->memory.context_valid_rows, "context", context.rows);
    } else {
      detail::refuse_padding(m, "context");
    }
    return forward(x, b);
  }
  /// y of leaves that were bound with program().bind().
  view<result_scalar const> forward() {
    if constexpr (draws_randomness && !std::is_same_v<Mode, inference>) {
      if (!self_->fixed_randomness) {
        self_->memory.random = randomness(self_->memory.seed, self_->passes, module_of_rank());
      }
    }
    bind_randomness();
    std::size_t const bytes = self_->program.workspace_bytes();
    // Before the workspace grows: x may lie in it.
    binding().check_outside(self_->memory.workspace.bytes());
    reserve(self_->memory.workspace, bytes);
    self_->program.bind_workspace(self_->memory.workspace.bytes());
    auto const y = self_->program.forward();
    ++self_->passes;
    return y;
  }
  /// For inference with constant weights: the next forward pass copies the weights of experts into the layout that
  /// products read fastest, on backends with PreparesWeights. The copies take as much memory as the weights. After a
  /// change of parameters, call parameters_changed(); copy_parameters() does.
  template <class M = Mode>
  void prepare_weights() {
    static_assert(std::is_same_v<M, inference>, "headmix: only weights of a module for inference can be prepared");
    self_->memory.prepare();
    self_->program.bind_prepared(&self_->memory.prepared);
  }
  /// Parameters were written: the next forward pass renews the copies of prepare_weights().
  void parameters_changed() {
    if (self_->memory.is_prepared) self_->memory.prepare();
  }
  /// Adds the gradients of <dy, y> + sum of weights_i * losses_i to the gradients of parameters, and overwrites the
  /// gradients of inputs; see Program::backward.
  template <class M = Mode>
  void backward(view<result_scalar const> dy, std::initializer_list<double> weights = {}) {
    backward<M>(dy, std::span<double const>(std::data(weights), weights.size()));
  }
  /// With weights by name, `{{"load_balance", 0.01}, {"z", 0.001}}`, each for all losses of that name. A loss without a
  /// weight or with two, and a name without a loss, are errors.
  template <class M = Mode>
  void backward(view<result_scalar const> dy, loss_weights const& weights) {
    detail::weigh_losses(self_->memory.weights, loss_sources::sources, weights);
    backward<M>(dy, std::span<double const>(self_->memory.weights));
  }
  /// With a span of weights.
  template <class M = Mode>
  void backward(view<result_scalar const> dy, std::span<double const> weights) {
    static_assert(!std::is_same_v<M, inference>, "headmix: a module for inference computes no gradients");
    self_->program.check_backward(dy, weights);
    self_->memory.bind_gradient(binding(), number_of<typename L::x>(), self_->memory.input_gradient);
    if constexpr (requires { typename L::context; }) {
      if constexpr (has_leaf<typename L::context>) {
        self_->memory.bind_gradient(binding(), number_of<typename L::context>(), self_->memory.context_gradient);
      }
    }
    self_->program.backward(dy, weights);
  }

  /// The gradient by the input of forward(x), valid until the next backward pass. An input that was bound with a
  /// gradient by program().bind() accumulates into that gradient, which is returned.
  template <class M = Mode>
  [[nodiscard]] view<scalar const> input_gradient() const {
    static_assert(!std::is_same_v<M, inference>, "headmix: a module for inference computes no gradients");
    return self_->memory.input_gradient.latest;
  }
  /// The gradient by the second input, see input_gradient().
  template <class Of = L>
  [[nodiscard]] view<scalar const> context_gradient() const {
    static_assert(trains, "headmix: a module for inference computes no gradients");
    static_assert(has_leaf<typename Of::context>, "headmix: the layer has no second input; see the option context_dim");
    return self_->memory.context_gradient.latest;
  }

  /// The seed, step and module number of noise and dropout in the following passes; `randomness::off()` for evaluation.
  /// Without a call, training draws with the module's seed, the number of the forward pass as the step, and, for a
  /// layer that divides tokens among ranks, the rank as the module number; inference draws nothing. Call it before
  /// every launch of a recorded graph. After a change of values, backward() fails until a forward pass has run with
  /// them.
  void set_randomness(randomness r) {
    bool const same = std::equal(std::begin(r.word), std::end(r.word), std::begin(self_->memory.random.word));
    self_->memory.random = r;
    self_->fixed_randomness = true;
    if (draws_randomness && !same) {
      detail::program_access::state(self_->program).bar_backward("set_randomness() was called after it");
    }
    bind_randomness();
  }
  /// The number of forward passes so far: the step with which the next one draws noise and dropout.
  [[nodiscard]] std::uint32_t passes() const { return self_->passes; }
  /// Sets the number of forward passes, so that the next one draws as pass number `passes`. Parameters stay.
  void continue_from(std::uint64_t seed, std::uint32_t passes) {
    self_->memory.seed = seed;
    self_->passes = passes;
  }
  /// Loss `Which` of the layer. Waits for the pass that computes it.
  template <int Which>
  [[nodiscard]] double loss() const {
    static_assert(Which >= 0 && Which < L::losses::size, "headmix: the layer has no such loss");
    require_forward("loss()");
    auto const loss = detail::program_access::value<detail::root_of<layer_roots, 1 + Which>>(self_->program);
    std::remove_const_t<std::remove_reference_t<decltype(*loss.data)>> number;
    download(self_->memory.backend, &number, loss.data, 1);
    return static_cast<double>(number);
  }
  /// Selection `Which` of the layer, e.g. the experts chosen for every row.
  /// @param instance  of a layer that is repeated
  template <int Which = 0>
  [[nodiscard]] view<Int const> observed(Index instance = 0) const {
    static_assert(Which >= 0 && Which < L::observed::size, "headmix: the layer observes no such selection");
    require_forward("observed()");
    constexpr int root = 1 + L::losses::size + Which;
    return detail::program_access::value<detail::root_of<layer_roots, root>>(self_->program, instance);
  }

  /// Name, value and gradient of every parameter; in a module for inference the gradients are empty.
  [[nodiscard]] std::vector<parameter<scalar>> const& parameters() const { return self_->memory.parameters.list; }
  /// Name and value of every `buffer`, without gradients.
  [[nodiscard]] std::vector<parameter<scalar>> const& buffers() const { return self_->memory.buffers.list; }
  /// The names of the losses, in the order of weights without names.
  [[nodiscard]] static std::vector<std::string_view> loss_names() {
    std::vector<std::string_view> names;
    for (char const* const source : loss_sources::sources) names.push_back(detail::loss_name_of(source));
    return names;
  }
  /// Packed weights, [matrices, 1, words], of a layer for inference; see copy_parameters().
  [[nodiscard]] std::vector<packed_parameter> const& packed_parameters() const { return self_->memory.packed; }
  /// A parameter: `m.get<Layer::W_q>()`.
  /// @param instance  of a layer that is repeated
  template <Parameter P>
  [[nodiscard]] headmix::parameter<scalar> const& get(Index instance = 0) const {
    static_assert(detail::contains<parameter_leaves, P>, "headmix: the layer has no such parameter");
    return self_->memory.parameters.at(static_cast<std::size_t>(detail::position_in<parameter_leaves, P>::value),
                                       instance);
  }
  /// A buffer.
  template <ModuleBuffer P>
  [[nodiscard]] headmix::parameter<scalar> const& get(Index instance = 0) const {
    static_assert(detail::contains<buffer_leaves, P>, "headmix: the layer has no such buffer");
    return self_->memory.buffers.at(static_cast<std::size_t>(detail::position_in<buffer_leaves, P>::value), instance);
  }
  /// The number of instances of a leaf: more than 1 in repeat() alone.
  template <class Leaf>
  [[nodiscard]] Index times_of() const {
    return detail::program_access::unrolled(self_->program)
        .instances_of_leaf(detail::position_in<typename program_type::leaves, Leaf>::value);
  }
  /// Gradients of parameters, also of those that another module owns.
  void zero_gradients() { self_->memory.zero_gradients(); }
  /// The module's own copy.
  [[nodiscard]] Backend const& backend() const { return self_->memory.backend; }
  /// The seed of parameters and randomness.
  [[nodiscard]] std::uint64_t seed() const { return self_->memory.seed; }
  /// The program, for binding further inputs, sequences and sizes.
  [[nodiscard]] program_type& program() { return self_->program; }

 private:
  using random_keys = detail::filter<typename program_type::leaves, detail::is_random_key>;
  using loss_sources = detail::loss_names<detail::filter<typename L::losses, detail::has_gradient>>;
  enum class initial_weights { none, by_the_rules };
  static constexpr auto parameter_rows = detail::parameter_rows_of<typename program_type::leaves>(parameter_leaves{});
  static constexpr auto buffer_rows = detail::parameter_rows_of<typename program_type::leaves>(buffer_leaves{});

  template <class Leaf>
  static constexpr bool has_leaf = detail::contains<typename program_type::leaves, Leaf>;
  static constexpr bool draws_randomness = random_keys::size > 0;
  static constexpr bool trains = !std::is_same_v<Mode, inference>;

  /// At a fixed address, since values of the program point into it: modules can be moved.
  struct body {
    template <Extent... X>
    body(Backend backend, std::uint64_t seed, size_value<X>... sizes)
        : memory(std::move(backend), seed), program(memory.backend, sizes...) {}

    detail::module_memory<Backend> memory;
    program_type program;
    std::uint32_t passes = 0;
    bool fixed_randomness = false;
  };

  template <Extent... X>
  Module(initial_weights weights, std::uint64_t seed, Backend backend, size_value<X>... sizes)
      : self_(std::make_unique<body>(std::move(backend), seed, sizes...)) {
    auto& memory = self_->memory;
    memory.allocate(memory.parameters, binding(), of_all_times(parameter_rows, memory.parameters), trains,
                    weights == initial_weights::by_the_rules, random_stream::parameters);
    if constexpr (buffer_leaves::size > 0) {
      memory.allocate(memory.buffers, binding(), of_all_times(buffer_rows, memory.buffers), false, true,
                      random_stream::buffers);
    }
    allocate_packed();
    fill_known(detail::filter<typename program_type::leaves, detail::is_known>{});
    find_random_keys();
    bind_randomness();
  }

  [[nodiscard]] detail::Binding& binding() const { return detail::binding_of(self_->program); }
  template <class Owned, std::size_t Rows>
  [[nodiscard]] std::vector<detail::parameter_row> of_all_times(std::array<detail::parameter_row, Rows> const& rows,
                                                                Owned& owned) {
    return self_->memory.rows_of_all_times(rows, detail::program_access::unrolled(self_->program), owned.places);
  }
  template <class Leaf>
  [[nodiscard]] std::size_t number_of(Index instance = 0) const {
    return detail::program_access::unrolled(self_->program)
        .value(detail::position_in<typename program_type::leaves, Leaf>::value, instance);
  }
  /// The rank if each rank has its own tokens, so that noise and dropout differ; else 0.
  [[nodiscard]] std::uint32_t module_of_rank() const {
    if constexpr (HasCommunicator<Backend>) {
      constexpr bool divides_tokens = requires { L::divides_tokens; };
      if (divides_tokens || binding().receives_rows()) {
        return static_cast<std::uint32_t>(self_->memory.backend.communicator().rank());
      }
    }
    return 0;
  }
  void find_random_keys() {
    std::vector<std::size_t> of_uses;
    for_each(random_keys{}, [&]<class K>() {
      for (Index instance = 0; instance < times_of<K>(); ++instance) {
        if (std::is_same_v<K, random_key>) {
          self_->memory.random_keys.push_back({number_of<K>(instance), 0});
        } else {
          of_uses.push_back(number_of<K>(instance));
        }
      }
    });
    self_->memory.number_random_keys(binding(), of_uses);
  }
  void bind_randomness() {
    if constexpr (draws_randomness) self_->memory.bind_randomness(binding());
  }
  template <class RealRows>
  void bind_valid_rows(batch const& b, HostInts<Backend>& numbers, char const* input, Index rows) {
    if constexpr (has_leaf<RealRows>) {
      self_->memory.bind_valid_rows(binding(), number_of<RealRows>(), b, numbers, input, rows);
    } else {
      detail::refuse_padding(b, input);
    }
  }
  void require_forward(char const* what) const { binding().check_has_run(what); }

  void allocate_packed() {
    for_each(packed_leaves{}, [this]<class P>() {
      for (Index instance = 0; instance < times_of<P>(); ++instance) {
        self_->memory.allocate_packed(binding(), number_of<P>(instance),
                                      self_->program.template extent<typename P::in>(),
                                      self_->program.template extent<typename P::out>());
      }
    });
  }
  template <class... Known>
  void fill_known(type_list<Known...>) {
    (fill<Known>(self_->memory.known.emplace_back()), ...);
  }
  template <class Leaf>
  void fill(memory_type& memory) {
    using T = storage_t<Leaf::kind_of, scalar>;
    constexpr bool takes_columns = requires { Leaf::element(Index{}, Index{}, Index{}); };
    static_assert(takes_columns || (rows<Leaf>::value != dynamic && cols<Leaf>::value != dynamic),
                  "headmix: a leaf with a function `element(row, column)` has static extents; see `element(row, "
                  "column, columns)`");
    Index const n = self_->program.template extent<rows<Leaf>>(), m = self_->program.template extent<cols<Leaf>>();
    std::vector<T> elements(static_cast<std::size_t>(n * m));
    detail::write_known<Leaf>(elements.data(), n, m);
    memory = memory_type(elements.size() * sizeof(T));
    upload(self_->memory.backend, memory.template as<T>(), elements.data(), elements.size());
    self_->program.bind(Leaf{}, {memory.template as<T>(), n, m});
  }

  std::unique_ptr<body> self_;
};

namespace detail {
/// A layer whose equations were refused.
template <class L>
struct refused_layer {
  using x = typename L::x;
  static constexpr auto y = x{};
  using losses = type_list<>;
  using observed = type_list<>;
};
}  // namespace detail

/// The module of a refused layer: no further errors.
template <GivenLayer L, BackendPolicy Backend, class Mode>
requires detail::Refused<std::remove_cvref_t<decltype(L::y)>>
class Module<L, Backend, Mode> : public Module<detail::refused_layer<L>, Backend, Mode> {
  using base = Module<detail::refused_layer<L>, Backend, Mode>;

 public:
  using base::base;
  /// As of any layer.
  template <int>
  [[nodiscard]] double loss() const;
  /// As of any layer.
  template <int = 0>
  [[nodiscard]] view<Int const> observed(Index = 0) const;
  /// As of any layer.
  template <class>
  [[nodiscard]] parameter<typename base::scalar> const& get(Index = 0) const;
};

}  // namespace headmix
