#pragma once
// SPDX-License-Identifier: MIT
// Memory of a module: parameters, gradients, workspace, sequences. Compiled once for all layers on a backend.

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "headmix/contract/communicator.hpp"
#include "headmix/contract/equal_on_ranks.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/expr/random.hpp"
#include "headmix/program/parameter.hpp"
#include "headmix/program/run/binding.hpp"
#include "headmix/program/run/context.hpp"
#include "headmix/program/run/unroll.hpp"

namespace headmix::detail {

/// The leaf of a parameter, and its initialiser.
struct parameter_row {
  std::size_t leaf;
  double (*initial)(Random const&, std::uint64_t element, Index rows, Index cols);
};

inline std::size_t elements_of(Binding const& program, std::size_t leaf) {
  if (auto const size = program.unknown_size_of(leaf); !size.empty()) {
    fail(program.leaf_text(leaf), ": size ", size,
         " is dynamic; give its value to the module's constructor: at<...::", size, ">(n)");
  }
  return static_cast<std::size_t>(program.leaf_shape(leaf).size());
}
inline void refuse_padding(batch const& b, char const* input) {
  if (b.has_padding) fail(input, " is given with Padding, but the layer has not the option `padded`");
}

template <class Backend>
struct module_memory {
  using scalar = typename Backend::scalar;
  using memory_type = headmix::backend_memory<Backend>;

  module_memory(Backend b, std::uint64_t s) : backend(std::move(b)), seed(s) {
    if constexpr (HasCommunicator<Backend>) check_equal_on_all_ranks(backend.communicator(), "the seed of a module", s);
  }

  /// The first parameter of a row of the layer, the distance of its instances, and their number.
  struct parameter_place {
    std::size_t first = 0, each = 0;
    Index instances = 0;
  };
  /// Parameters, or buffers.
  struct owned_leaves {
    memory_type values, gradients;
    std::vector<headmix::parameter<scalar>> list;
    std::vector<parameter_place> places;

    /// An instance of parameter number `row` of the layer.
    [[nodiscard]] headmix::parameter<scalar> const& at(std::size_t row, Index instance) const {
      parameter_place const& place = places[row];
      if (0 > instance || instance >= place.instances) {
        fail("get(): there is no instance ", instance, " of ", list[place.first].name, ", which has ", place.instances);
      }
      return list[place.first + static_cast<std::size_t>(instance) * place.each];
    }
  };
  /// The rows of all parameters; those of a repeated layer by instance.
  template <class Tables>
  static std::vector<parameter_row> rows_of_all_times(std::span<parameter_row const> rows, Tables const& program,
                                                      std::vector<parameter_place>& places) {
    std::vector<parameter_row> all;
    places.assign(rows.size(), {});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (places[i].each > 0) continue;
      std::vector<std::size_t> together = {i};
      int const repeat = program.repeat_of_leaf(rows[i].leaf);
      for (std::size_t j = i + 1; repeat >= 0 && j < rows.size(); ++j) {
        if (program.repeat_of_leaf(rows[j].leaf) == repeat) together.push_back(j);
      }
      for (Index instance = 0; instance < program.instances_of_leaf(rows[i].leaf); ++instance) {
        for (std::size_t const j : together) {
          if (instance == 0) places[j] = {all.size(), together.size(), program.instances_of_leaf(rows[j].leaf)};
          all.push_back({program.value(static_cast<int>(rows[j].leaf), instance), rows[j].initial});
        }
      }
    }
    return all;
  }
  /// @param trains  false: none gets a gradient
  /// @param draws  false: they are zeros
  /// @param stream  what they are drawn from, by their numbers
  void allocate(owned_leaves& to, Binding& program, std::span<parameter_row const> rows, bool trains, bool draws,
                random_stream stream) {
    std::size_t bytes = 0;
    for (auto const& row : rows) bytes = aligned(bytes + elements_of(program, row.leaf) * sizeof(scalar));
    to.values = memory_type(bytes);
    if (trains) to.gradients = memory_type(bytes);
    std::vector<scalar> start;
    std::size_t offset = 0;
    std::uint64_t number = 0;
    for (auto const& row : rows) {
      auto const shape = program.leaf_shape(row.leaf);
      view<scalar> const value{to.values.template as<scalar>(offset), shape.count, shape.rows, shape.cols};
      view<scalar> gradient;
      if (trains) gradient = {to.gradients.template as<scalar>(offset), shape.count, shape.rows, shape.cols};
      auto const elements = static_cast<std::size_t>(value.size());
      tensor_part const part = program.part_of_leaf(row.leaf);
      if (draws) {
        Random const numbers(seed, number++, stream);
        start.resize(elements);
        std::size_t i = 0;
        for (Index c = 0; c < shape.count; ++c) {
          for (Index r = 0; r < shape.rows; ++r) {
            for (Index k = 0; k < shape.cols; ++k) {
              auto const element = static_cast<std::uint64_t>(part.number(c, r, k));
              start[i++] = static_cast<scalar>(row.initial(numbers, element, part.whole[1], part.whole[2]));
            }
          }
        }
        upload(backend, value.data, start.data(), elements);
      }
      program.bind_leaf(row.leaf, untyped(value), untyped(gradient));
      to.list.push_back({program.leaf_name(row.leaf), value, gradient, program.leaf_qualified_name(row.leaf), part});
      offset += aligned(elements * sizeof(scalar));
    }
  }
  void adopt(owned_leaves& to, Binding& program, std::span<parameter_row const> rows,
             std::vector<headmix::parameter<scalar>> const& owned, bool trains) {
    std::vector<parameter_name> mine;
    for (auto const& row : rows) mine.push_back({program.leaf_name(row.leaf), program.leaf_qualified_name(row.leaf)});
    auto const owners = names_of(owned);
    for (auto const& row : rows) {
      auto const name = mine[to.list.size()].name;
      int const which = find_parameter(mine, to.list.size(), "the module that shares them", owners,
                                       "the module whose parameters are shared");
      if (which < 0) fail("the module whose parameters are shared has none of the name ", name);
      auto const found = owned.begin() + which;
      if (trains && found->gradient.data == nullptr && found->value.size() > 0) {
        fail("the module whose parameters are shared is for inference: ", name, " has no gradient to add to");
      }
      program.bind_leaf(row.leaf, untyped(found->value), untyped(found->gradient));
      to.list.push_back(*found);
    }
  }
  void allocate_packed(Binding& program, std::size_t leaf, Index in, Index out) {
    memory_type& memory = known.emplace_back(elements_of(program, leaf) * sizeof(Int));
    auto const shape = program.leaf_shape(leaf);
    view<Int> const words{memory.template as<Int>(), shape.count, shape.rows, shape.cols};
    program.bind_leaf(leaf, untyped(words), {});
    packed.push_back({program.leaf_name(leaf), words, in, out, program.leaf_qualified_name(leaf)});
  }

  void prepare() {
    is_prepared = true;
    for (auto const& p : parameters.list) prepared.add(p.value);
  }
  void set_to_zero(view<scalar> const& v) { backend.map(v, tree_number<accumulator_t<scalar>>{0}, false); }
  void zero_gradients() {
    auto& gradients = parameters.gradients;
    if (gradients.bytes().empty()) {
      for (auto const& p : parameters.list) set_to_zero(p.gradient);
      return;
    }
    // One kernel for all: their memory is contiguous.
    constexpr Index line = alignment / sizeof(scalar);
    set_to_zero(
        {gradients.template as<scalar>(), static_cast<Index>(gradients.bytes().size()) / Index{alignment}, line});
  }

  /// A gradient of an input, in memory of the module.
  struct gradient_of_input {
    memory_type memory;
    view<scalar> latest;  ///< what the latest backward pass made
  };
  /// Binds the gradient of an input, which backward passes overwrite, unless the caller bound one to accumulate into.
  void bind_gradient(Binding& program, std::size_t leaf, gradient_of_input& g) {
    auto const bound = typed<scalar>(program.leaf_gradient(leaf));
    if (bound.data == nullptr || bound.data == g.memory.template as<scalar>()) {
      reserve(g.memory, static_cast<std::size_t>(bound.size()) * sizeof(scalar));
      g.latest = {g.memory.template as<scalar>(), bound.count, bound.rows, bound.cols};
      program.bind_gradient(leaf, untyped(g.latest), true);
    } else {
      g.latest = bound;
    }
  }
  struct carried_numbers {
    HostInts<Backend> offsets, past;
  };
  /// The sequences, with a copy of their offsets, which backward() reads again.
  segments carried(char const* name_source, batch const& b, carried_numbers& copy) {
    segments s = b.sequences;
    if (s.offsets == nullptr && s.past == nullptr) return s;
    // Checked before they are read, and here because a device's program cannot look at them.
    check_segments(name_source, s, true);
    auto const n = static_cast<std::size_t>(s.count);
    if (s.offsets != nullptr) s.offsets = copy.offsets.assign(backend, s.offsets, n + 1);
    if (s.past != nullptr) s.past = copy.past.assign(backend, s.past, n);
    return s;
  }
  void bind_valid_rows(Binding& program, std::size_t leaf, batch const& b, HostInts<Backend>& numbers,
                       char const* input, Index rows) {
    if (!b.has_padding) fail("the layer is padded; give a Padding of ", input, " that says which rows are real");
    if (b.rows != rows) fail(input, " has ", rows, " rows, its Padding is about ", b.rows);
    auto const real = static_cast<std::size_t>(b.valid_rows.rows);
    bind_ints(program, leaf, {numbers.assign(backend, b.valid_rows.data, real), b.valid_rows.rows, 1});
  }
  /// Random keys of a program have different numbers: the key of the program itself is number 0, keys of uses are
  /// numbered in the order of their names. A repeated layer so draws the same numbers as the layer used as often.
  void number_random_keys(Binding const& program, std::vector<std::size_t> const& keys_of_uses) {
    std::vector<std::pair<std::string_view, std::size_t>> named;
    for (std::size_t const leaf : keys_of_uses) named.emplace_back(program.leaf_name(leaf), leaf);
    std::sort(named.begin(), named.end());
    if (named.size() >= randomness::modules) {
      fail("a module: expected random numbers of at most ", randomness::modules - 1, " uses of layers, found ",
           named.size());
    }
    std::uint32_t use = 0;
    for (auto const& key : named) random_keys.push_back({key.second, ++use});
  }
  void bind_randomness(Binding& program) {
    key_words.clear();
    for (auto const& key : random_keys) {
      randomness const r = random.of_use(key.use);
      key_words.insert(key_words.end(), std::begin(r.word), std::end(r.word));
    }
    Int const* const bound = random_words.assign(backend, key_words.data(), key_words.size());
    for (std::size_t k = 0; k < random_keys.size(); ++k) bind_ints(program, random_keys[k].leaf, {bound + 6 * k, 1, 6});
  }
  static void bind_ints(Binding& program, std::size_t leaf, view<Int const> v) {
    program.bind_leaf(leaf, untyped(v), {});
  }

  Backend backend;
  std::uint64_t seed;
  randomness random;
  owned_leaves parameters, buffers;
  memory_type workspace;
  std::vector<double> weights;  // of a backward pass with weights by name
  gradient_of_input input_gradient, context_gradient;
  struct random_key_leaf {
    std::size_t leaf;
    std::uint32_t use;
  };
  std::vector<random_key_leaf> random_keys;
  std::vector<Int> key_words;
  std::vector<packed_parameter> packed;
  headmix::prepared_weights<Backend> prepared;
  bool is_prepared = false;
  std::vector<memory_type> known;  // of leaves with `element`, and packed weights
  carried_numbers sequences, context_sequences;
  HostInts<Backend> random_words, valid_rows, context_valid_rows;
};

}  // namespace headmix::detail
