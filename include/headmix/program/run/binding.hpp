#pragma once
// SPDX-License-Identifier: MIT
// Memory of leaves, values of dynamic sizes, and the checks of both. Messages name the leaf, the size, the expected and
// the found number.

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

/// Memory and sizes of the leaves of a program; leaves are known by number.
class Binding {
 public:
  /// @param values  the number of all values; the first ones are the leaves, then the gradients of leaves
  /// @param host_memory  the host can read bound memory
  /// @param bytes  of an element, by kind
  /// @param rank, ranks  of the processes that run the program
  Binding(binding_table const& table, std::size_t values, bool host_memory, State& state,
          std::array<std::size_t, 3> const& bytes, Index rank = 0, Index ranks = 1);

  /// Sets the sequences of query tokens; without a call, all tokens are one sequence.
  void bind_tokens(segments s) { set_segments(sizes_.tokens, tokens_size, s); }
  /// Sets the sequences of context tokens, in programs with keys of a second input.
  void bind_context(segments s) { set_segments(sizes_.context, context_size, s); }

  [[nodiscard]] std::size_t leaf_count() const { return table_->leaves.size(); }
  [[nodiscard]] kind element_kind(std::size_t leaf) const { return table_->leaves[leaf].kind_of; }
  [[nodiscard]] bool leaf_is_positive(std::size_t leaf) const { return table_->leaves[leaf].positive != nullptr; }
  [[nodiscard]] bool leaf_has_gradient(std::size_t leaf) const { return table_->leaves[leaf].grad; }
  /// The number of items that a selection chooses from; 0 for other leaves.
  [[nodiscard]] Index leaf_domain(std::size_t leaf) const;
  [[nodiscard]] std::string_view leaf_name(std::size_t leaf) const;
  [[nodiscard]] std::string_view leaf_qualified_name(std::size_t leaf) const;
  /// The name for messages: qualified where several leaves have one name.
  [[nodiscard]] std::string_view leaf_text(std::size_t leaf) const;
  /// The leaf of a name or a qualified name. Fails if there is none, or several, or if its elements are not Int
  /// (`integers`) or numbers of the backend.
  [[nodiscard]] std::size_t leaf_of_name(std::string_view name, bool integers) const;
  /// Name, kind and extents; `gradient`: backward passes add to one.
  [[nodiscard]] named_leaf named(std::size_t leaf, bool gradient) const;
  [[nodiscard]] leaf_kind what_leaf(std::size_t leaf) const { return table_->leaves[leaf].what; }
  /// The name of an unknown size in the extents of a leaf, or nothing.
  [[nodiscard]] std::string_view unknown_size_of(std::size_t leaf) const;
  /// The extents of a leaf, without memory.
  [[nodiscard]] untyped_view leaf_shape(std::size_t leaf) const;

  void bind_leaf(std::size_t leaf, untyped_view const& value, untyped_view const& gradient);
  /// Gives a bound leaf another gradient; passes that have run stay valid.
  /// @param overwrite  backward passes overwrite it and do not add, until another one is bound
  void bind_gradient(std::size_t leaf, untyped_view const& gradient, bool overwrite = false);
  /// The numbers of the gradients that backward passes overwrite.
  [[nodiscard]] std::span<std::size_t const> gradients_to_overwrite() const { return overwritten_; }
  /// The bound gradient of a leaf; a view without data if there is none.
  [[nodiscard]] untyped_view const& leaf_gradient(std::size_t leaf) const;

  void set_size(std::size_t size, Index n);

  /// True if sizes are sums over ranks. own_terms() has the terms of this rank, agree() sets the sums.
  [[nodiscard]] bool agrees() const { return rank_sizes_.has_sums(); }
  /// True if ranks have different tokens and exchange rows.
  [[nodiscard]] bool receives_rows() const { return rank_sizes_.receives_rows(); }
  void own_terms(std::vector<Index>& terms);
  void agree(std::vector<Index> const& sums);
  /// Sets a size that a call found out; fails above the planned maximum.
  void set_received(int size, Index n);
  /// The part of a leaf that this rank has.
  [[nodiscard]] tensor_part part_of_leaf(std::size_t leaf) const;

  /// Finds the values of all sizes and checks all requirements.
  void resolve();
  /// Fails if a leaf has no memory: planning needs extents alone, passes need memory.
  void check_memory() const;
  /// Fails if a leaf or its gradient lies in the workspace.
  void check_outside(std::span<std::byte> workspace) const;
  /// Fails if a leaf or its gradient shares memory with a result of such elements, unless `may_share(leaf)`.
  template <class F>
  void check_apart(untyped_view const& result, std::size_t element, F const& may_share) const;
  /// Fails unless offsets, positive constants and selections are valid: memory may be written after it is bound.
  void check_numbers() const;

  /// Fails unless a forward pass has completed since leaves were bound.
  void check_has_run(char const* what) const;
  /// All values of the program; the plan and the passes set those that are not leaves.
  [[nodiscard]] std::span<untyped_view> values() { return values_; }
  [[nodiscard]] std::span<untyped_view const> values() const { return values_; }
  [[nodiscard]] Index value_of(formula const& f) const { return evaluate(f, sizes_.value.data()); }
  [[nodiscard]] bound_sizes const& sizes() const { return sizes_; }
  /// The known sizes: all sizes once a pass is planned, before it those of set() and of sequences and their shares.
  /// Others are `dynamic`.
  [[nodiscard]] bound_sizes certain_sizes() const;

 private:
  /// Finds the values of sizes from leaves, sequences, set() and sums over ranks.
  void find_sizes();
  void find_shares();
  [[nodiscard]] std::string_view size_name(std::size_t size) const { return unqualified(table_->sizes[size]); }

  /// A name for messages: qualified where several leaves have the short name.
  [[nodiscard]] std::string_view distinct(char const* name_source) const;
  /// f(formula, extent of the bound memory, its name) for count, rows and columns of a leaf.
  template <class F>
  void each_extent(std::size_t leaf, F f) const;
  [[nodiscard]] std::string expectation(formula const& f) const;
  void fix(std::size_t size, segments const& s);
  void set_segments(segments& mine, std::size_t size, segments const& s);
  /// Looks up the name of a leaf only for an error: every pass binds leaves.
  void check_memory_of(std::size_t leaf, untyped_view const& v, char const* what) const;
  void check_gradient(std::size_t leaf, untyped_view const& value, untyped_view const& gradient) const;
  void set_gradient(std::size_t leaf, untyped_view const& gradient);
  [[nodiscard]] std::size_t element_of(std::size_t leaf) const;

  binding_table const* table_;
  State* state_;
  std::vector<untyped_view> values_;
  std::vector<bool> bound_;
  std::vector<std::size_t> overwritten_;  // numbers of gradients that backward passes overwrite
  std::vector<Index> given_;              // by set()
  std::vector<char const*> source_;       // the leaf that fixed a size
  std::array<std::size_t, 3> bytes_;
  bound_sizes sizes_;
  RankSizes rank_sizes_;
  bool host_memory_;
};

}  // namespace headmix::detail

#include "headmix/program/run/binding.ipp"
