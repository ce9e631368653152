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
#include <vector>

#include "headmix/core/padding.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/tape/memory.hpp"
#include "headmix/tape/parameter.hpp"
#include "headmix/tape/tape.hpp"

namespace headmix {

/// A layer names its input `x` and its result `y`; further roots are `losses`, [1, 1] each, and `observed` selections.
/// It may have a second input `memory`, and leaves `kept` and `kept_memory` for inputs with padding, and say in
/// `y_inference` how a program without gradients computes y. A constant or selection with static extents that has a
/// function `element(row, column)` is filled by the module.
template <class L>
concept Layer = Leaf<typename L::x> && Expr<std::remove_cvref_t<decltype(L::y)>> && requires {
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
/// Which leaf a parameter is, and how it starts.
struct parameter_row {
  std::size_t leaf;
  double (*initial)(Random const&, std::uint64_t element, Index rows, Index cols);
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
      parameter_row{position_in<Leaves, P>::value, &initial_value<typename P::initial>}...};
};
}  // namespace detail

/// Says that a module works on the parameters of another one.
struct share_parameters {};

template <Layer L, class Backend, class Mode = training>
class Module {
 public:
  using layer = L;
  using scalar = typename Backend::scalar;
  using memory_type = backend_memory<Backend>;
  /// The layer's values; a class of its own, so that the names of types do not spell them out.
  struct program
      : detail::module_roots<decltype(detail::result_of<L, Mode>()), typename L::losses, typename L::observed>::type {};
  using tape_type = Tape<program, Backend, Mode>;
  using parameter_leaves = filter<typename tape_type::leaves, detail::is_parameter>;
  using packed_leaves = filter<typename tape_type::leaves, detail::is_packed>;

  /// Parameters start by the layer's rules; the same seed gives the same numbers on every platform. Dynamic sizes of
  /// the layer follow: `Module m(seed, backend, at<L::D>(512), ...)`. Modules that work on each other's results are
  /// given copies of one backend, since every default-made one of a GPU is a stream of its own.
  template <Extent... X>
  explicit Module(std::uint64_t seed, Backend backend = {}, size_value<X>... sizes)
      : backend_(std::move(backend)), tape_(backend_), seed_(seed) {
    (tape_.set(X{}, sizes.n), ...);
    allocate_parameters(seed);
    allocate_packed(packed_leaves{});
    fill_known(filter<typename tape_type::leaves, detail::is_known>{});
    if constexpr (draws_randomness) bind_randomness();
  }
  /// A module that works on the parameters of another one and adds to their gradients: another program of the same
  /// weights. Parameters are found by name; one that the owner does not have is an error. The owner must outlive it.
  template <class Owner, Extent... X>
  Module(share_parameters, Owner& owner, size_value<X>... sizes)
      : backend_(owner.backend()), tape_(backend_), seed_(owner.seed()) {
    (tape_.set(X{}, sizes.n), ...);
    for (auto const& row : parameter_rows::value) adopt(row.leaf, owner.parameters());
    static_assert(packed_leaves::size == 0, "headmix: a layer with packed weights cannot share parameters");
    fill_known(filter<typename tape_type::leaves, detail::is_known>{});
    if constexpr (draws_randomness) bind_randomness();
  }
  Module(Module const&) = delete;
  Module& operator=(Module const&) = delete;

  /// y of x, [tokens, D], all of one sequence. Keeps a reference to x. The result stays valid until the next forward
  /// pass.
  view<scalar const> forward(view<scalar const> x) { return forward(x, uniform(1, x.rows)); }
  /// y of x, whose rows belong to the sequences `b`: `segments`, or a `Padding` where the layer is `padded`.
  view<scalar const> forward(view<scalar const> x, batch const& b) {
    bind_input<typename L::x>(x, input_gradient_);
    tape_.bind_tokens(carried<tokens>(b, offsets_));
    if constexpr (requires { typename L::kept; }) {
      bind_real_rows<typename L::kept>(b, real_rows_, "x", x.rows);
    } else {
      refuse_padding(b, "x");
    }
    return forward();
  }
  /// y of x and of the second input, from which keys and values are made (cross-attention).
  template <class Of = L>
  view<scalar const> forward(view<scalar const> x, batch const& b, view<scalar const> memory, batch const& m) {
    static_assert(has_leaf<typename Of::memory>, "headmix: the layer has no second input; see the option memory_width");
    bind_input<typename Of::memory>(memory, memory_gradient_);
    tape_.bind_memory(carried<memory_tokens>(m, memory_offsets_));
    bind_real_rows<typename Of::kept_memory>(m, real_memory_rows_, "memory", memory.rows);
    return forward(x, b);
  }
  /// The same over leaves that were bound with tape().bind().
  view<scalar const> forward() {
    if constexpr (draws_randomness && !std::is_same_v<Mode, inference>) {
      if (!fixed_randomness_) randomness_ = randomness(seed_, passes_++);
    }
    if constexpr (draws_randomness) bind_randomness();
    reserve(workspace_, tape_.workspace_bytes());
    tape_.bind_workspace(workspace_.bytes());
    return tape_.forward();
  }
  /// Adds the gradients of <dy, y> + sum of weights_i * losses_i; see Tape::backward.
  void backward(view<scalar const> dy, std::initializer_list<double> weights = {}) { tape_.backward(dy, weights); }

  /// The gradient by the input of forward(x), zeroed there.
  [[nodiscard]] view<scalar const> input_gradient() const { return tape_.gradient(typename L::x{}); }
  /// The gradient by the second input, zeroed by forward(x, b, memory, m).
  template <class Of = L>
  [[nodiscard]] view<scalar const> memory_gradient() const {
    return tape_.gradient(typename Of::memory{});
  }

  /// What noise and dropout of the following passes are drawn with; `randomness::off()` for evaluation. Without a call,
  /// training draws with the module's seed, the number of the forward pass being the step, and inference draws nothing.
  /// Before every launch of a recorded graph, it gives the pass new values.
  void set_randomness(randomness r) {
    randomness_ = r;
    fixed_randomness_ = true;
    if constexpr (draws_randomness) bind_randomness();
  }
  /// Loss `Which` of the layer. Waits for the pass that computes it.
  template <int Which>
  [[nodiscard]] double loss() const {
    static_assert(Which >= 0 && Which < L::losses::size, "headmix: the layer has no such loss");
    require_forward("loss()");
    auto const loss = tape_.get(nth<Which, typename L::losses>{});
    std::remove_const_t<std::remove_reference_t<decltype(*loss.data)>> number;
    download(backend_, &number, loss.data, 1);
    return static_cast<double>(number);
  }
  /// Selection `Which` of the layer, e.g. the experts chosen for every row.
  template <int Which = 0>
  [[nodiscard]] view<Int const> observed() const {
    static_assert(Which >= 0 && Which < L::observed::size, "headmix: the layer observes no such selection");
    require_forward("observed()");
    return tape_.get(nth<Which, typename L::observed>{});
  }

  /// Name, value and gradient of every parameter.
  [[nodiscard]] std::vector<parameter<scalar>> const& parameters() const { return parameters_; }
  /// Packed weights, [matrices, 1, words], of a layer for inference; see copy_parameters().
  [[nodiscard]] std::vector<packed_parameter> const& packed_parameters() const { return packed_; }
  /// One of them: `m.get<Layer::W_q>()`.
  template <Parameter P>
  [[nodiscard]] headmix::parameter<scalar> const& get() const {
    static_assert(contains<parameter_leaves, P>, "headmix: the layer has no such parameter");
    return parameters_[static_cast<std::size_t>(position_in<parameter_leaves, P>::value)];
  }
  /// Also where they belong to another module.
  void zero_gradients() {
    if (gradients_.bytes().empty()) {
      for (auto const& p : parameters_) set_to_zero(p.gradient);
      return;
    }
    // One kernel for all: they lie in one piece.
    constexpr Index line = alignment / sizeof(scalar);
    set_to_zero(
        {gradients_.template as<scalar>(), static_cast<Index>(gradients_.bytes().size()) / Index{alignment}, line});
  }
  [[nodiscard]] Backend const& backend() const { return backend_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  /// The tape, for binding further inputs, sequences and sizes.
  [[nodiscard]] tape_type& tape() { return tape_; }

 private:
  using parameter_rows = detail::parameter_table<typename tape_type::leaves, parameter_leaves>;

  template <class Leaf>
  static constexpr bool has_leaf = contains<typename tape_type::leaves, Leaf>;
  static constexpr bool draws_randomness = has_leaf<random_key>;

  void set_to_zero(view<scalar> const& v) { backend_.map(v, tree_number<wide_t<scalar>>{0}, false); }
  void bind_randomness() { tape_.bind(random_key{}, {random_words_.assign(backend_, randomness_.word, 6), 1, 6}); }
  template <class Leaf>
  void bind_input(view<scalar const> value, memory_type& memory) {
    reserve(memory, static_cast<std::size_t>(value.size()) * sizeof(scalar));
    view<scalar> const gradient{memory.template as<scalar>(), value.rows, value.cols};
    set_to_zero(gradient);
    tape_.bind(Leaf{}, value, gradient);
  }
  /// The sequences, with a copy of the offsets: backward() reads them again.
  template <class Tokens>
  segments carried(batch const& b, HostInts<Backend>& offsets) {
    segments s = b.sequences;
    if (s.offsets != nullptr) {
      // Checked before they are read, and here because a device's tape cannot look at them.
      detail::check_segments(detail::name_source<Tokens>(), s, true);
      s.offsets = offsets.assign(backend_, s.offsets, static_cast<std::size_t>(s.count) + 1);
    }
    return s;
  }
  template <class RealRows>
  void bind_real_rows(batch const& b, HostInts<Backend>& numbers, char const* input, Index rows) {
    if constexpr (has_leaf<RealRows>) {
      if (!b.has_padding) fail("the layer is padded; give a Padding of ", input, " that says which rows are real");
      if (b.rows != rows) fail(input, " has ", rows, " rows, its Padding is about ", b.rows);
      auto const real = static_cast<std::size_t>(b.real_rows.rows);
      tape_.bind(RealRows{}, {numbers.assign(backend_, b.real_rows.data, real), b.real_rows.rows, 1});
    } else {
      refuse_padding(b, input);
    }
  }
  static void refuse_padding(batch const& b, char const* input) {
    if (b.has_padding) fail(input, " is given with Padding, but the layer has not the option `padded`");
  }
  void require_forward(char const* what) const {
    if (!tape_.has_run()) fail(what, " needs a forward() before it");
  }

  void allocate_parameters(std::uint64_t seed) {
    std::size_t bytes = 0;
    for (auto const& row : parameter_rows::value) bytes += aligned(elements(row.leaf) * sizeof(scalar));
    values_ = memory_type(bytes);
    gradients_ = memory_type(bytes);
    std::vector<scalar> start;
    std::size_t offset = 0;
    std::uint64_t stream = 0;
    for (auto const& row : parameter_rows::value) {
      auto const shape = tape_.leaf_shape(row.leaf);
      view<scalar> const value{values_.template as<scalar>(offset), shape.count, shape.rows, shape.cols};
      view<scalar> const gradient{gradients_.template as<scalar>(offset), shape.count, shape.rows, shape.cols};
      Random const random(seed, stream++);
      start.resize(static_cast<std::size_t>(value.size()));
      for (std::size_t i = 0; i < start.size(); ++i) {
        start[i] = static_cast<scalar>(row.initial(random, i, shape.rows, shape.cols));
      }
      upload(backend_, value.data, start.data(), start.size());
      tape_.bind_leaf(row.leaf, detail::untyped(value), detail::untyped(gradient));
      parameters_.push_back({tape_.leaf_name(row.leaf), value, gradient});
      offset += aligned(elements(row.leaf) * sizeof(scalar));
    }
  }
  template <class... Packed>
  void allocate_packed(type_list<Packed...>) {
    (add_packed<Packed>(position_in<typename tape_type::leaves, Packed>::value), ...);
  }
  template <class Leaf>
  void add_packed(std::size_t leaf) {
    memory_type& memory = known_.emplace_back(elements(leaf) * sizeof(Int));
    auto const shape = tape_.leaf_shape(leaf);
    view<Int> const words{memory.template as<Int>(), shape.count, shape.rows, shape.cols};
    tape_.bind(Leaf{}, words);
    packed_.push_back({tape_.leaf_name(leaf), words, tape_.template extent<typename Leaf::in>(),
                       tape_.template extent<typename Leaf::out>()});
  }
  void adopt(std::size_t leaf, std::vector<headmix::parameter<scalar>> const& owned) {
    auto const name = tape_.leaf_name(leaf);
    auto const found = std::find_if(owned.begin(), owned.end(), [&](auto const& p) { return p.name == name; });
    if (found == owned.end()) fail("the module whose parameters are shared has none of the name ", name);
    tape_.bind_leaf(leaf, detail::untyped(found->value), detail::untyped(found->gradient));
    parameters_.push_back(*found);
  }
  template <class... Known>
  void fill_known(type_list<Known...>) {
    (fill<Known>(known_.emplace_back()), ...);
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
    upload(backend_, memory.template as<T>(), elements.data(), elements.size());
    tape_.bind(Leaf{}, {memory.template as<T>(), rows<Leaf>::value, cols<Leaf>::value});
  }
  std::size_t elements(std::size_t leaf) const {
    if (auto const size = tape_.unknown_size_of(leaf); !size.empty()) {
      fail(tape_.leaf_name(leaf), ": size ", size,
           " is dynamic; give its value to the module's constructor: at<...::", size, ">(n)");
    }
    return static_cast<std::size_t>(tape_.leaf_shape(leaf).size());
  }

  Backend backend_;
  tape_type tape_;
  std::uint64_t seed_;
  std::uint32_t passes_ = 0;
  bool fixed_randomness_ = false;
  randomness randomness_;
  memory_type values_, gradients_, workspace_, input_gradient_, memory_gradient_;
  std::vector<headmix::parameter<scalar>> parameters_;
  std::vector<packed_parameter> packed_;
  std::vector<memory_type> known_;  // what leaves with `element` hold, and packed weights
  HostInts<Backend> random_words_, offsets_, memory_offsets_, real_rows_, real_memory_rows_;
};

}  // namespace headmix
