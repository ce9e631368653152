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

template <class T>
untyped_view untyped(view<T> const& v) {
  untyped_view u;
  u.data = reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(v.data));
  u.count = v.count, u.rows = v.rows, u.cols = v.cols;
  u.stack_stride = v.stack_stride, u.row_stride = v.row_stride, u.col_stride = v.col_stride;
  return u;
}
template <class T>
view<T> typed(untyped_view const& u) {
  view<T> v;
  v.data = reinterpret_cast<T*>(u.data);
  v.count = u.count, v.rows = u.rows, v.cols = u.cols;
  v.stack_stride = u.stack_stride, v.row_stride = u.row_stride, v.col_stride = u.col_stride;
  return v;
}
inline std::string text(untyped_view const& v) {
  return v.count == 1 ? message("[", v.rows, ", ", v.cols, "]")
                      : message("[", v.count, ", ", v.rows, ", ", v.cols, "]");
}
inline std::string strides(untyped_view const& v) {
  return v.count == 1 ? message("[", v.row_stride, ", ", v.col_stride, "]")
                      : message("[", v.stack_stride, ", ", v.row_stride, ", ", v.col_stride, "]");
}
inline bool same_view(untyped_view const& a, untyped_view const& b) {
  return a.data == b.data && a.count == b.count && a.rows == b.rows && a.cols == b.cols &&
         a.stack_stride == b.stack_stride && a.row_stride == b.row_stride && a.col_stride == b.col_stride;
}
inline bool same_extents(untyped_view const& a, untyped_view const& b) {
  return a.count == b.count && a.rows == b.rows && a.cols == b.cols;
}
/// A view without memory, of extents that are checked.
inline untyped_view without_memory(std::string_view name, Index count, Index rows, Index cols) {
  check_extents_of(name, count, rows, cols);
  return {nullptr, count, rows, cols};
}

/// Memory and sizes of the leaves of the program that `table` describes. It knows leaves by number, for code that
/// handles those of all programs alike.
template <class = void>
class basic_binding {
 public:
  /// Values 0 .. leaves - 1 are the leaves, the next ones their gradients, then come those of the program.
  /// @param host_memory  the host may read what the caller binds
  /// @param bytes  of an element, by kind
  /// @param rank, ranks  of the processes that run the program
  basic_binding(binding_table const& table, std::size_t values, bool host_memory, State& state,
                std::array<std::size_t, 3> const& bytes, Index rank = 0, Index ranks = 1)
      : table_(&table),
        state_(&state),
        values_(values),
        bound_(table.leaves.size()),
        given_(table.sizes.size(), dynamic),
        source_(table.sizes.size()),
        bytes_(bytes),
        rank_sizes_(table.rules, rank, ranks),
        host_memory_(host_memory) {
    sizes_.value.assign(table.sizes.size(), dynamic);
    find_shares();
  }

  /// Says where each sequence of query tokens begins; one sequence without it.
  void bind_tokens(segments s) { set_segments(sizes_.tokens, tokens_size, s); }
  /// Says where each sequence of key tokens begins, in programs whose keys come from another input.
  void bind_context(segments s) { set_segments(sizes_.context, context_size, s); }

  [[nodiscard]] std::size_t leaf_count() const { return table_->leaves.size(); }
  [[nodiscard]] kind leaf_kind(std::size_t leaf) const { return table_->leaves[leaf].kind_of; }
  [[nodiscard]] bool leaf_is_positive(std::size_t leaf) const { return table_->leaves[leaf].positive != nullptr; }
  [[nodiscard]] bool leaf_has_gradient(std::size_t leaf) const { return table_->leaves[leaf].grad; }
  /// What a selection chooses from; 0 for a leaf that is none.
  [[nodiscard]] Index leaf_domain(std::size_t leaf) const {
    formula const* const f = table_->leaves[leaf].domain;
    return f == nullptr ? 0 : value_of(*f);
  }
  [[nodiscard]] std::string_view leaf_name(std::size_t leaf) const {
    return unqualified(table_->leaves[leaf].name_source);
  }
  [[nodiscard]] std::string_view leaf_qualified_name(std::size_t leaf) const {
    return name_in(table_->leaves[leaf].name_source, true);
  }
  /// The name for messages, in which leaves of one name are told apart.
  [[nodiscard]] std::string_view leaf_text(std::size_t leaf) const {
    return distinct(table_->leaves[leaf].name_source);
  }
  /// A size that the extents of a leaf wait for: its name, or nothing.
  [[nodiscard]] std::string_view unknown_size_of(std::size_t leaf) const {
    for (formula const* const extent : table_->leaves[leaf].shape.extent) {
      if (formula const* const f = unknown_size(*extent, sizes_.value.data())) return unqualified(f->name_source);
    }
    return {};
  }
  /// The extents of a leaf, without memory.
  [[nodiscard]] untyped_view leaf_shape(std::size_t leaf) const {
    auto const& extent = table_->leaves[leaf].shape.extent;
    return without_memory(leaf_name(leaf), value_of(*extent[0]), value_of(*extent[1]), value_of(*extent[2]));
  }

  void bind_leaf(std::size_t leaf, untyped_view const& value, untyped_view const& gradient) {
    check_memory_of(leaf, value, "");
    check_gradient(leaf, value, gradient);
    untyped_view& mine = values_[leaf];
    if (!bound_[leaf] || !same_extents(mine, value) || mine.contiguous() != value.contiguous()) {
      state_->fall_back(stage::bound, "was bound to memory of other extents", leaf);
    } else if (!same_view(mine, value)) {
      state_->fall_back(stage::planned, "was bound to other memory", leaf);
    }
    mine = value;
    bound_[leaf] = true;
    set_gradient(leaf, gradient);
  }
  /// Gives a bound leaf another gradient; passes that have run stay valid.
  /// @param overwrite  backward passes make it anew, until another one is bound; else they add to it
  void bind_gradient(std::size_t leaf, untyped_view const& gradient, bool overwrite = false) {
    check_gradient(leaf, values_[leaf], gradient);
    set_gradient(leaf, gradient);
    if (overwrite) overwritten_.push_back(table_->leaves.size() + leaf);
  }
  /// The gradients that a backward pass makes anew, by their numbers among the values.
  [[nodiscard]] std::span<std::size_t const> gradients_to_overwrite() const { return overwritten_; }
  /// The gradient that a leaf is bound to; without one, a view of its extents that has no data.
  [[nodiscard]] untyped_view const& leaf_gradient(std::size_t leaf) const {
    return values_[table_->leaves.size() + leaf];
  }

  void set_size(std::size_t size, Index n) {
    if (0 > n) fail("size ", size_name(size), " must not be negative; found ", n);
    if (n > max_elements) fail("size ", size_name(size), ": expected at most ", max_elements, ", found ", n);
    if (given_[size] != n) state_->fall_back(stage::bound, "a size was set");
    given_[size] = sizes_.value[size] = n;
    find_shares();
  }

  /// Whether the ranks have to tell each other sizes before a forward pass; what this rank adds to these; the sums.
  [[nodiscard]] bool agrees() const { return rank_sizes_.has_sums(); }
  /// True where ranks send each other rows: they have tokens of their own.
  [[nodiscard]] bool receives_rows() const { return rank_sizes_.receives_rows(); }
  void own_terms(std::vector<Index>& terms) {
    find_sizes();
    rank_sizes_.own_terms(terms, sizes_.value);
  }
  void agree(std::vector<Index> const& sums) {
    if (rank_sizes_.agree(sums)) state_->fall_back(stage::bound, "other sizes were bound on another rank");
  }
  /// A size that a call has found out: at most what the program was planned for.
  void set_received(int size, Index n) {
    auto const s = static_cast<std::size_t>(size);
    Index const most = given_[s] != dynamic ? given_[s] : rank_sizes_.most_received(size, sizes_.value);
    if (n > most) fail(size_name(s), ": ", n, " rows come from all ranks, the program has memory for ", most);
    sizes_.value[s] = n;
  }
  /// Which part of a leaf is here.
  [[nodiscard]] tensor_part part_of_leaf(std::size_t leaf) const {
    return rank_sizes_.part_of(table_->leaves[leaf].shape, sizes_.value);
  }

  /// Finds the value of every size and checks every requirement; fails with a message or leaves all sizes known.
  void resolve() {
    find_sizes();
    for (std::size_t s = 0; s < given_.size(); ++s) {
      if (sizes_.value[s] == dynamic) {
        fail("size ", size_name(s), " is not known: no bound leaf has it; call set(", size_name(s), "{}, n) first");
      }
    }
    for (std::size_t l = 0; l < bound_.size(); ++l) {
      each_extent(l, [&](formula const& f, Index found, char const* what) {
        if (found != value_of(f)) fail(leaf_text(l), " has ", found, " ", what, ", expected ", expectation(f));
      });
    }
    for (check_row const& c : table_->checks) {
      Index const x = value_of(*c.x), y = value_of(*c.y);
      if (!c.holds(x, y)) {
        auto const names = [this](char const* source) { return distinct(source); };
        fail(describe(*c.node, names), ": ", describe(c.x_side, names), " = ", x, " ", c.text, " ",
             describe(c.y_side, names), " = ", y);
      }
    }
    for (int const l : table_->reshaped) {
      untyped_view const& v = values_[static_cast<std::size_t>(l)];
      if (!v.contiguous()) {
        fail(leaf_text(static_cast<std::size_t>(l)), " is split or merged, so its rows must follow each other; ",
             text(v), " has the strides ", strides(v), ", expected ", strides({nullptr, v.count, v.rows, v.cols}));
      }
    }
    Index const context_sequences = (std::max)(sizes_.context.count, Index{1});
    if (table_->keys_from_context && context_sequences != sizes_.value[sequences_size]) {
      fail("context_tokens has ", context_sequences, " sequences, tokens has ", sizes_.value[sequences_size],
           "; bind_context() and bind_tokens() say where they begin");
    }
  }
  /// Planning needs extents only; running needs the memory too.
  void check_memory() const {
    for (std::size_t l = 0; l < bound_.size(); ++l) {
      if (values_[l].data == nullptr && values_[l].size() > 0) {
        fail(leaf_text(l), " is bound to a null pointer; its extents are ", text(values_[l]));
      }
    }
  }
  /// Fails if a leaf or its gradient lies in the memory that a pass writes its values to.
  void check_outside(std::span<std::byte> workspace) const {
    auto const begin = reinterpret_cast<std::uintptr_t>(workspace.data());
    address_range const all{begin, begin + workspace.size()};
    for (std::size_t l = 0; l < bound_.size(); ++l) {
      for (bool const gradient : {false, true}) {
        untyped_view const& v = gradient ? leaf_gradient(l) : values_[l];
        if (v.data == nullptr || !addresses_of(v, element_of(l)).meets(all)) continue;
        if (gradient) fail("the gradient of ", leaf_text(l), " lies in the workspace, which the pass overwrites");
        fail(
            leaf_text(l),
            " lies in the workspace, which the pass overwrites: a result is there until the next forward(); copy it to "
            "use it as an input");
      }
    }
  }
  /// Fails unless sequences, positive constants and selections are that: they may have been written since they were
  /// bound.
  void check_numbers() const {
    if (sizes_.tokens.count > 0) check_segments(table_->sizes[tokens_size], sizes_.tokens, true);
    if (sizes_.context.count > 0) check_segments(table_->sizes[context_size], sizes_.context, true);
    for (std::size_t l = 0; l < bound_.size(); ++l) {
      if (auto const read = table_->leaves[l].positive; read != nullptr) {
        double const first = first_not_positive(values_[l], element_of(l), read);
        if (!is_positive(first)) fail(leaf_text(l), ": expected finite numbers above 0, found ", first);
      }
      if (table_->leaves[l].domain == nullptr) continue;
      auto const v = typed<Int const>(values_[l]);
      Index const limit = value_of(*table_->leaves[l].domain);
      for (Index i = 0; i < v.rows; ++i) {
        for (Index j = 0; j < v.cols; ++j) {
          if (v(i, j) < -1 || v(i, j) >= limit) {
            fail(leaf_text(l), " holds ", v(i, j), " at (", i, ", ", j, "), expected -1 or 0 .. ", limit - 1);
          }
        }
      }
    }
  }

  /// Fails unless a forward pass has completed over what is bound now.
  void check_has_run(char const* what) const {
    if (state_->has_run()) return;
    fail(what, " needs a forward() over the same memory and extents before it: ",
         state_->leaf() == State::no_leaf ? std::string_view{} : leaf_text(state_->leaf()),
         state_->leaf() == State::no_leaf ? "" : " ", state_->reason());
  }
  /// All values of the program; those that are not leaves are for its plan and its passes to fill.
  [[nodiscard]] std::span<untyped_view> values() { return values_; }
  [[nodiscard]] std::span<untyped_view const> values() const { return values_; }
  [[nodiscard]] Index value_of(formula const& f) const { return evaluate(f, sizes_.value.data()); }
  [[nodiscard]] bound_sizes const& sizes() const { return sizes_; }
  /// The sizes that are certain: all of them once a pass is planned, before it those that set() and sequences say and
  /// shares of these. Others are `dynamic`.
  [[nodiscard]] bound_sizes certain_sizes() const {
    bound_sizes certain = sizes_;
    if (state_->at() >= stage::planned) return certain;
    certain.value = given_;
    if (certain.tokens.count > 0) certain.value[tokens_size] = certain.tokens.rows;
    if (certain.context.count > 0) certain.value[context_size] = certain.context.rows;
    certain.value[ranks_size] = rank_sizes_.ranks();
    rank_sizes_.find_shares(certain.value, [](std::size_t) {});
    return certain;
  }

 private:
  /// Finds the value of every size that follows from what is bound, given and agreed on.
  void find_sizes() {
    for (std::size_t s = 0; s < given_.size(); ++s) {
      sizes_.value[s] = given_[s];
      source_[s] = "set()";
    }
    find_shares();
    fix(tokens_size, sizes_.tokens);
    fix(context_size, sizes_.context);
    sizes_.value[sequences_size] = (std::max)(sizes_.tokens.count, Index{1});
    for (std::size_t l = 0; l < bound_.size(); ++l) {
      if (!bound_[l]) fail(leaf_text(l), " is not bound: call bind(", leaf_text(l), "{}, memory) first");
      each_extent(l, [&](formula const& f, Index found, char const*) {
        if (f.what != formula::op::size || sizes_.value[static_cast<std::size_t>(f.value)] != dynamic) return;
        sizes_.value[static_cast<std::size_t>(f.value)] = found;
        source_[static_cast<std::size_t>(f.value)] = table_->leaves[l].name_source;
      });
    }
    for (std::size_t const s : {tokens_size, context_size}) {
      if (!table_->mentions[s]) sizes_.value[s] = 0;
    }
    find_shares();
    rank_sizes_.find_sums(sizes_.value);
  }
  void find_shares() {
    sizes_.value[ranks_size] = rank_sizes_.ranks();
    rank_sizes_.find_shares(sizes_.value, [this](std::size_t size) { source_[size] = "this rank's share"; });
  }
  [[nodiscard]] std::string_view size_name(std::size_t size) const { return unqualified(table_->sizes[size]); }

  /// A name for messages: the whole one where several leaves have the short one.
  [[nodiscard]] std::string_view distinct(char const* name_source) const {
    auto const same = [&](leaf_row const& l) { return unqualified(l.name_source) == unqualified(name_source); };
    bool const several = std::count_if(table_->leaves.begin(), table_->leaves.end(), same) > 1;
    return several ? name_in(name_source, true) : unqualified(name_source);
  }
  /// f(formula, extent of the bound memory, its name) for count, rows and columns of a leaf.
  template <class F>
  void each_extent(std::size_t leaf, F f) const {
    untyped_view const& v = values_[leaf];
    auto const& expected = table_->leaves[leaf].shape.extent;
    f(*expected[0], v.count, "matrices");
    f(*expected[1], v.rows, "rows");
    f(*expected[2], v.cols, "columns");
  }
  [[nodiscard]] std::string expectation(formula const& f) const {
    std::string const number = std::to_string(value_of(f));
    if (f.what != formula::op::size) return number;
    auto const size = static_cast<std::size_t>(f.value);
    return message(number, " (", size_name(size), ", as ", distinct(source_[size]), " has it)");
  }
  void fix(std::size_t size, segments const& s) {
    if (s.count == 0) return;
    if (given_[size] != dynamic && given_[size] != s.rows) {
      fail(size_name(size), ": set() says ", given_[size], ", the sequences have ", s.rows, " rows");
    }
    sizes_.value[size] = s.rows;
    source_[size] = "the sequences";
  }
  void set_segments(segments& mine, std::size_t size, segments const& s) {
    check_segments(table_->sizes[size], s, host_memory_);
    // Kernels may cut even and ragged sequences differently, and so need other scratch memory.
    bool const same_form = (mine.offsets == nullptr) == (s.offsets == nullptr);
    if (mine.rows != s.rows || mine.count != s.count || !same_form) {
      state_->fall_back(stage::bound, "other sequences were bound");
    } else if (mine.offsets != s.offsets || mine.past != s.past) {
      state_->fall_back(stage::placed, "other sequences were bound");
    }
    mine = s;
    sizes_.value[size] = s.rows;
  }
  /// A leaf's name is looked for only where there is an error: passes bind leaves, too.
  void check_memory_of(std::size_t leaf, untyped_view const& v, char const* what) const {
    if (0 > v.count || 0 > v.rows || 0 > v.cols) fail(what, leaf_text(leaf), " has a negative extent: ", text(v));
    if (!can_be_extents(v.count, v.rows, v.cols)) check_extents_of(leaf_text(leaf), v.count, v.rows, v.cols, what);
    if (!is_aligned(v.data, element_of(leaf))) {
      check_alignment(leaf_text(leaf), v.data, element_of(leaf), v.size(), what);
    }
  }
  void check_gradient(std::size_t leaf, untyped_view const& value, untyped_view const& gradient) const {
    if (gradient.data == nullptr) return;
    check_memory_of(leaf, gradient, "the gradient of ");
    if (!same_extents(value, gradient)) {
      fail("the gradient of ", leaf_text(leaf), " has extents ", text(gradient), ", its value has ", text(value));
    }
    if (overlaps_itself(gradient)) {
      fail("the gradient of ", leaf_text(leaf), " must have memory of its own for every element; ", text(gradient),
           " with strides ", strides(gradient), " has not");
    }
    if (value.data != nullptr && share_memory(value, gradient, element_of(leaf))) {
      fail("the gradient of ", leaf_text(leaf), " must have memory of its own; it shares some with the value");
    }
  }
  void set_gradient(std::size_t leaf, untyped_view const& gradient) {
    untyped_view const& value = values_[leaf];
    untyped_view& mine = values_[table_->leaves.size() + leaf];
    mine = gradient;
    std::erase(overwritten_, table_->leaves.size() + leaf);
    // Plans size the kernels that add to it by the leaf: a gradient may be bound later.
    if (gradient.data == nullptr) mine = {nullptr, value.count, value.rows, value.cols};
  }
  [[nodiscard]] std::size_t element_of(std::size_t leaf) const {
    return bytes_[static_cast<std::size_t>(table_->leaves[leaf].kind_of)];
  }

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
/// A template, so that units with HEADMIX_COMPILED need not compile it (program/compiled.hpp).
using Binding = basic_binding<>;
#ifdef HEADMIX_COMPILED
extern template class basic_binding<>;
#endif

}  // namespace headmix::detail
