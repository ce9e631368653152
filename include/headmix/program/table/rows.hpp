#pragma once
// SPDX-License-Identifier: MIT
// A program as rows of tables, all of them on this page: sizes, leaves and checks (binding_table), calls and buffers
// (program_table), and the functions of a backend (program_functions).
//
// Types become rows in program/lower/binding_table.hpp and program/lower/program_table.hpp. Rows are read by the binding (checks, memory of
// the caller), the plan (memory of values), the runner (passes) and listings. Extents are formulas of sizes
// (program/table/extent_formula.hpp), and expressions are described in words (program/table/describe.hpp).

#include <cstddef>
#include <span>

#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"
#include "headmix/expr/repeat_edge.hpp"
#include "headmix/program/table/describe.hpp"
#include "headmix/program/table/extent_formula.hpp"

namespace headmix::detail {

/// A view whose element type the program knows; strides count elements.
using untyped_view = view<std::byte>;

// ---- what is bound ----

/// A leaf: memory that the caller binds.
struct leaf_row {
  char const* name_source;  ///< see unqualified()
  shape_formula shape;
  kind kind_of;
  bool grad;                                       ///< has a gradient
  formula const* domain;                           ///< of a selection, else null
  int repeat = -1;                                 ///< which repetition it belongs to
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
/// The first sizes of every program; those of its layer follow.
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
};
/// A part of the program that is repeated; see program/run/unroll.hpp.
struct repeat_row {
  char const* name;
  bool recompute;  ///< the backward pass computes its values anew
};
/// A value that has memory in the workspace.
struct buffer_row {
  std::size_t element;  ///< bytes
  bool optional;        ///< left out by its kernel if nobody reads it
};

/// A program: its values are the leaves, their gradients, the output gradients, the buffers in the order in which they
/// are written, and the values derived from others.
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

/// The operands of a call; see program/lower/call.hpp.
struct value_reader;

/// The functions of a call.
template <class Run>
struct call_functions {
  void (*run)(Run const&, value_reader, bool accumulate);
  std::size_t (*scratch)(Run const&, value_reader);
  int sized_output;  ///< 0 for none
  Index (*columns)(Run const&, value_reader);
  Index (*received)(Run const&, value_reader);  ///< null unless it finds out the rows of its result
};
/// A derived value: the function that makes it when a pass begins.
template <class Run>
struct derived_row {
  untyped_view (*view)(Run const&, untyped_view const& source);
  double (*number)(Run const&);
};
template <class Run>
struct program_functions {
  std::span<call_functions<Run> const> calls;
  std::span<derived_row<Run> const> derived;
  std::span<void (*const)(Run const&)> validators;
};

}  // namespace headmix::detail
