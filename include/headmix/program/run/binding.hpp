#pragma once
// SPDX-License-Identifier: MIT
// The run-time side of leaves and sizes: which memory a leaf is bound to, what the dynamic sizes are, and every check
// that the compiler could not make. Messages name the leaf, the size, what was expected and what was found. A program
// is described by tables, so all of this is compiled once and not for every program.

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"
#include "headmix/program/run/aliasing.hpp"
#include "headmix/program/run/checks.hpp"
#include "headmix/program/run/rank_sizes.hpp"
#include "headmix/program/run/state.hpp"
#include "headmix/program/table/rows.hpp"

namespace headmix::detail {

/// A view without memory, of extents that are checked.
inline untyped_view without_memory(std::string_view name, Index count, Index rows, Index cols) {
  check_extents_of(name, count, rows, cols);
  return {nullptr, count, rows, cols};
}

/// Memory and sizes of the leaves of the program that `table` describes. It knows leaves by number, for code that
/// handles those of all programs alike.
class Binding {
 public:
  /// Values 0 .. leaves - 1 are the leaves, the next ones their gradients, then come those of the program.
  /// @param host_memory  the host may read what the caller binds
  /// @param bytes  of an element, by kind
  /// @param rank, ranks  of the processes that run the program
  Binding(binding_table const& table, std::size_t values, bool host_memory, State& state,
          std::array<std::size_t, 3> const& bytes, Index rank = 0, Index ranks = 1);

  /// Says where each sequence of query tokens begins; one sequence without it.
  void bind_tokens(segments s) { set_segments(sizes_.tokens, tokens_size, s); }
  /// Says where each sequence of key tokens begins, in programs whose keys come from another input.
  void bind_context(segments s) { set_segments(sizes_.context, context_size, s); }

  [[nodiscard]] std::size_t leaf_count() const { return table_->leaves.size(); }
  [[nodiscard]] kind leaf_kind(std::size_t leaf) const { return table_->leaves[leaf].kind_of; }
  [[nodiscard]] bool leaf_is_positive(std::size_t leaf) const { return table_->leaves[leaf].positive != nullptr; }
  [[nodiscard]] bool leaf_has_gradient(std::size_t leaf) const { return table_->leaves[leaf].grad; }
  /// What a selection chooses from; 0 for a leaf that is none.
  [[nodiscard]] Index leaf_domain(std::size_t leaf) const;
  [[nodiscard]] std::string_view leaf_name(std::size_t leaf) const;
  [[nodiscard]] std::string_view leaf_qualified_name(std::size_t leaf) const;
  /// The name for messages, in which leaves of one name are told apart.
  [[nodiscard]] std::string_view leaf_text(std::size_t leaf) const;
  /// A size that the extents of a leaf wait for: its name, or nothing.
  [[nodiscard]] std::string_view unknown_size_of(std::size_t leaf) const;
  /// The extents of a leaf, without memory.
  [[nodiscard]] untyped_view leaf_shape(std::size_t leaf) const;

  void bind_leaf(std::size_t leaf, untyped_view const& value, untyped_view const& gradient);
  /// Gives a bound leaf another gradient; passes that have run stay valid.
  /// @param overwrite  backward passes make it anew, until another one is bound; else they add to it
  void bind_gradient(std::size_t leaf, untyped_view const& gradient, bool overwrite = false);
  /// The gradients that a backward pass makes anew, by their numbers among the values.
  [[nodiscard]] std::span<std::size_t const> gradients_to_overwrite() const { return overwritten_; }
  /// The gradient that a leaf is bound to; without one, a view of its extents that has no data.
  [[nodiscard]] untyped_view const& leaf_gradient(std::size_t leaf) const;

  void set_size(std::size_t size, Index n);

  /// Whether the ranks have to tell each other sizes before a forward pass; what this rank adds to these; the sums.
  [[nodiscard]] bool agrees() const { return rank_sizes_.has_sums(); }
  /// True where ranks send each other rows: they have tokens of their own.
  [[nodiscard]] bool receives_rows() const { return rank_sizes_.receives_rows(); }
  void own_terms(std::vector<Index>& terms);
  void agree(std::vector<Index> const& sums);
  /// A size that a call has found out: at most what the program was planned for.
  void set_received(int size, Index n);
  /// Which part of a leaf is here.
  [[nodiscard]] tensor_part part_of_leaf(std::size_t leaf) const;

  /// Finds the value of every size and checks every requirement; fails with a message or leaves all sizes known.
  void resolve();
  /// Planning needs extents only; running needs the memory too.
  void check_memory() const;
  /// Fails if a leaf or its gradient lies in the memory that a pass writes its values to.
  void check_outside(std::span<std::byte> workspace) const;
  /// Fails unless sequences, positive constants and selections are that: they may have been written since they were
  /// bound.
  void check_numbers() const;

  /// Fails unless a forward pass has completed over what is bound now.
  void check_has_run(char const* what) const;
  /// All values of the program; those that are not leaves are for its plan and its passes to fill.
  [[nodiscard]] std::span<untyped_view> values() { return values_; }
  [[nodiscard]] std::span<untyped_view const> values() const { return values_; }
  [[nodiscard]] Index value_of(formula const& f) const { return evaluate(f, sizes_.value.data()); }
  [[nodiscard]] bound_sizes const& sizes() const { return sizes_; }
  /// The sizes that are certain: all of them once a pass is planned, before it those that set() and sequences say and
  /// shares of these. Others are `dynamic`.
  [[nodiscard]] bound_sizes certain_sizes() const;

 private:
  /// Finds the value of every size that follows from what is bound, given and agreed on.
  void find_sizes();
  void find_shares();
  [[nodiscard]] std::string_view size_name(std::size_t size) const { return unqualified(table_->sizes[size]); }

  /// A name for messages: the whole one where several leaves have the short one.
  [[nodiscard]] std::string_view distinct(char const* name_source) const;
  /// f(formula, extent of the bound memory, its name) for count, rows and columns of a leaf.
  template <class F>
  void each_extent(std::size_t leaf, F f) const;
  [[nodiscard]] std::string expectation(formula const& f) const;
  void fix(std::size_t size, segments const& s);
  void set_segments(segments& mine, std::size_t size, segments const& s);
  /// A leaf's name is looked for only where there is an error: passes bind leaves, too.
  void check_memory_of(std::size_t leaf, untyped_view const& v, char const* what) const;
  void check_gradient(std::size_t leaf, untyped_view const& value, untyped_view const& gradient) const;
  void set_gradient(std::size_t leaf, untyped_view const& gradient);
  [[nodiscard]] std::size_t element_of(std::size_t leaf) const;

  binding_table const* table_;
  State* state_;
  std::vector<untyped_view> values_;
  std::vector<bool> bound_;
  std::vector<std::size_t> overwritten_;  // gradients that backward passes make anew
  std::vector<Index> given_;              // by set()
  std::vector<char const*> source_;       // the leaf that fixed a size
  std::array<std::size_t, 3> bytes_;
  bound_sizes sizes_;
  RankSizes rank_sizes_;
  bool host_memory_;
};

}  // namespace headmix::detail

#include "headmix/program/run/binding.ipp"
