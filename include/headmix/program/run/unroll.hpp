#pragma once
// SPDX-License-Identifier: MIT
// Tables in which a repeated part has one row for each of its instances, from tables in which the part is once. Values
// that all instances share keep one number; other values have one for each instance. The plan so lays out the whole
// program in one workspace.
//
// The input of instance i is the result of instance i - 1; in the backward pass, the gradient that arrives at instance
// i is that of the input of instance i + 1. Only the outermost edges copy.

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "headmix/program/table/rows.hpp"

namespace headmix::detail {

/// The value of the original tables that a value is.
struct value_origin {
  int value;
  Index instance;  ///< of a repeated part
  bool again;      ///< as the backward pass computes it anew
};

/// The tables of a program with every instance of its repeated parts. A program without any keeps its own tables.
class Unrolled {
 public:
  /// @param instances  of each repetition
  Unrolled(program_table const& table, std::span<Index const> instances);
  Unrolled(Unrolled const&) = delete;
  Unrolled& operator=(Unrolled const&) = delete;

  [[nodiscard]] program_table const& table() const { return repeats() ? table_ : *from_; }
  /// The number of an instance of value n of the original tables.
  [[nodiscard]] std::size_t value(int n, Index instance = 0) const;
  /// The number of instances of a leaf.
  [[nodiscard]] Index instances_of_leaf(std::size_t leaf) const;
  /// The repetition that a leaf belongs to, -1 for none.
  [[nodiscard]] int repeat_of_leaf(std::size_t leaf) const { return from_->binding.leaves[leaf].repeat; }
  /// The call of the original tables that call c is an instance of.
  [[nodiscard]] std::size_t call_of(std::size_t c) const { return repeats() ? calls_of_[c] : c; }
  /// The derived value of the original tables that derived value d is an instance of.
  [[nodiscard]] std::size_t derived_of(std::size_t d) const { return repeats() ? derived_of_[d] : d; }
  /// The derived values in an order in which each one follows its sources.
  [[nodiscard]] std::size_t derived_in_order(std::size_t i) const { return repeats() ? order_[i] : i; }
  /// By value: the original value and its instance.
  [[nodiscard]] std::vector<value_origin> origins() const;

 private:
  static constexpr int not_repeated = -1;
  [[nodiscard]] bool repeats() const { return !instances_.empty(); }
  struct part {
    int in = -1, made = -1;                      // the input and the result of an instance
    int d_in = -1, d_made = -1;                  // the gradient of the result, and that of the input
    std::vector<std::size_t> forward, backward;  // calls
    std::vector<bool> again;                     // by value of the forward pass: recomputed in the backward pass
  };

  [[nodiscard]] std::span<int const> numbers_of(std::size_t c) const;
  [[nodiscard]] bool is_derived(int n) const { return n >= static_cast<int>(from_->first_derived()); }
  [[nodiscard]] int source_of(int n) const;
  /// The repetition that value n belongs to.
  [[nodiscard]] int repeat_of(int n) const;
  [[nodiscard]] part& part_of(int r) { return parts_[static_cast<std::size_t>(r)]; }
  [[nodiscard]] part const& part_of(int r) const { return parts_[static_cast<std::size_t>(r)]; }
  [[nodiscard]] Index instances(int r) const { return instances_[static_cast<std::size_t>(r)]; }

  /// Finds the repeated values and calls: those that depend on the input of a repetition or on a repeated leaf.
  void find_repeated();
  /// Marks call c and its outputs as repeated if an operand is; true if the call was not marked before.
  bool repeat_call(std::size_t c);
  void check(part const& p, std::size_t r) const;

  /// Numbers for all values: leaves, their gradients, output gradients, buffers and derived values, as the tables have
  /// them.
  void number_values();
  /// Finds the values that the backward pass of a recomputed part computes again: its operands, and their operands.
  void find_again();
  [[nodiscard]] bool makes_again(part const& p, std::size_t c) const;
  [[nodiscard]] bool is_again(int n) const;

  /// The number of an instance of value n; `again`: as recomputed in the backward pass.
  [[nodiscard]] int place(int n, Index instance, bool again) const;

  void add_call_of(std::size_t c, Index instance, bool again, bool accumulate);
  void emit_forward(part const& p, int r);
  void emit_backward(part const& p, int r);
  /// Calls in their order, but those of a part together, before the first other call that needs what they make.
  void make_calls();
  /// Call c, or the whole part that it belongs to, after what it needs.
  void emit_in_order(std::size_t c);
  void emit_needed(std::size_t c);

  /// f(original value, instance, again) for all numbers of the original values [begin, end), in ascending order.
  template <class F>
  void each_place(std::size_t begin, std::size_t end, F const& f) const;
  void order_derived(std::size_t i, std::vector<bool>& made);
  void make_tables();

  program_table const* from_;
  std::vector<Index> instances_;
  std::vector<part> parts_;
  std::vector<int> repeat_, call_repeat_;  // by value, without derived ones, and by call
  std::vector<int> first_, again_;         // by value: the number of its first instance
  std::vector<std::vector<std::size_t>> writers_;
  std::vector<bool> emitted_;
  std::size_t count_ = 0, forward_calls_ = 0;

  std::vector<std::unique_ptr<std::string>> names_;
  std::vector<leaf_row> leaves_;
  std::vector<int> reshaped_, numbers_, sources_, roots_;
  std::vector<call_row> calls_;
  std::vector<std::size_t> calls_of_, derived_of_, order_;
  std::vector<shape_formula> shapes_;
  std::vector<buffer_row> buffers_;
  program_table table_;
};

}  // namespace headmix::detail

#include "headmix/program/run/unroll.ipp"
