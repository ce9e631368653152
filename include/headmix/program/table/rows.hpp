#pragma once
// SPDX-License-Identifier: MIT
// A program as rows of tables, all of them on this page: sizes, leaves and checks (binding_table), calls and buffers
// (program_table), and the functions of a backend (program_functions).
//
// program/lower makes the rows of a program from its types; program/run and listings read them. Extents are formulas of
// sizes (program/table/extent_formula.hpp), and expressions are described in words (program/table/describe.hpp).

#include <cstddef>
#include <span>

#include "headmix/core/scalar.hpp"
#include "headmix/expr/repeat_edge.hpp"
#include "headmix/program/named_leaf.hpp"
#include "headmix/program/table/describe.hpp"
#include "headmix/program/table/extent_formula.hpp"
#include "headmix/program/table/untyped_view.hpp"

namespace headmix::detail {

/// A view whose element type the program knows; strides count elements.
using untyped_view = view<std::byte>;

// ---- what is bound ----

/// A leaf: memory that the caller binds.
struct leaf_row {
  char const* name_source;  ///< see unqualified()
  shape_formula shape;
  kind kind_of;
  leaf_kind what;
  bool grad;                                       ///< has a gradient
  formula const* domain;                           ///< of a selection, else null
  int repeat = -1;                                 ///< the repetition that it belongs to
  double (*positive)(std::byte const*) = nullptr;  ///< reads a number, of a leaf whose numbers are above 0; else null
};
/// A requirement of a node on its operands.
struct check_row {
  formula const *x, *y;
  bool (*holds)(Index, Index);
  char const* text;
  description const* node;
  side_description x_side, y_side;
};
/// The first sizes of every program, as types and as numbers; those of its layer follow.
using builtin_sizes = type_list<tokens, context_tokens, sequences, rank_count>;
enum : std::size_t { tokens_size, context_size, sequences_size, ranks_size };

/// Sizes, leaves and checks of a program.
struct binding_table {
  std::span<char const* const> sizes;  ///< their names
  bool mentions[2];                    ///< tokens and context_tokens
  bool keys_from_context;
  std::span<leaf_row const> leaves;
  std::span<check_row const> checks;
  std::span<int const> reshaped;  ///< leaves whose rows must follow each other
  std::span<size_rule const> rules;
};

// ---- what runs ----

/// A call of a kernel.
struct call_row {
  int begin, values;  ///< its values among the numbers of all calls: outputs first, then operands
  int outputs;
  bool accumulate;            ///< adds to its outputs
  bool accumulates_gradient;  ///< adds to the gradient of a leaf, which may be unbound
  repeat_edge edge = repeat_edge::none;
  int repeat = -1;               ///< whose edge it is
  int received = -1;             ///< the size that the call finds out
  bool is_asynchronous = false;  ///< see operation
  int in_place = 0;              ///< outputs; see operation
  bool can_add = false;          ///< the kernel can add to its output
  bool stacks_outputs = false;   ///< one product, if its outputs lie behind each other
};
/// A part of the program that is repeated; see program/run/unroll.hpp.
struct repeat_row {
  char const* name;
  bool recompute;  ///< the backward pass computes its values anew
};
/// A value that has memory in the workspace.
struct buffer_row {
  std::size_t element;  ///< bytes
  bool optional;        ///< left out by its kernel if no call reads it
};

/// A program. Its values are numbered: leaves, gradients of leaves, output gradients, buffers in the order of their
/// writes, derived values.
struct program_table {
  binding_table binding;
  std::span<call_row const> calls;
  std::size_t forward_calls;
  std::span<int const> numbers;           ///< values of all calls; ~i where only the extents of i are read
  std::span<shape_formula const> shapes;  ///< of output gradients, buffers and derived values
  std::size_t output_gradients;
  std::span<buffer_row const> buffers;
  std::span<int const> sources;  ///< of the derived values, -1 for none
  std::span<int const> roots;    ///< values that survive the program
  bool result_has_gradient;
  std::span<repeat_row const> repeats;

  [[nodiscard]] std::size_t first_output_gradient() const { return 2 * binding.leaves.size(); }
  [[nodiscard]] std::size_t first_buffer() const { return first_output_gradient() + output_gradients; }
  [[nodiscard]] std::size_t first_derived() const { return first_buffer() + buffers.size(); }
  [[nodiscard]] std::size_t values() const { return first_derived() + sources.size(); }
};

// ---- the functions of a backend ----

/// Numbers of values; ~i where only the extents of value i are read.
using value_number = int;
/// Reads the values of a call in order.
struct value_reader {
  untyped_view const* values;
  value_number const* next;

  untyped_view const& memory() { return values[*next++]; }
  untyped_view const& extents() { return values[~*next++]; }
};
/// The backend, sizes and scratch memory of a running call; see program/run/context.hpp.
template <class Backend>
struct run_context;

/// The functions of a call.
template <class Backend>
struct call_functions {
  using context = run_context<Backend>;
  void (*run)(context const&, value_reader, bool accumulate);
  std::size_t (*scratch)(context const&, value_reader);  ///< bytes; null for none
  int sized_output;                                      ///< the output whose columns a function counts; 0 for none
  Index (*columns)(context const&, value_reader);
  Index (*received)(context const&, value_reader);  ///< rows of the result; null unless the call finds them out
};
/// The function that makes a derived value when a pass begins.
template <class Backend>
struct derived_row {
  untyped_view (*view)(run_context<Backend> const&, untyped_view const& source);
  double (*number)(run_context<Backend> const&);
};
template <class Backend>
struct program_functions {
  std::span<call_functions<Backend> const> calls;
  std::span<derived_row<Backend> const> derived;
  std::span<void (*const)(run_context<Backend> const&)> validators;
};

}  // namespace headmix::detail
