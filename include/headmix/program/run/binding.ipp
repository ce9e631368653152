#pragma once
// SPDX-License-Identifier: MIT
// Binding: memory and sizes of leaves, and their checks.

#if !defined(HEADMIX_COMPILED) || defined(HEADMIX_IMPLEMENTATION)

namespace headmix::detail {

HEADMIX_INLINE Binding::Binding(binding_table const& table, std::size_t values, bool host_memory, State& state,
                                std::array<std::size_t, 3> const& bytes, Index rank, Index ranks)
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

HEADMIX_INLINE Index Binding::leaf_domain(std::size_t leaf) const {
  formula const* const f = table_->leaves[leaf].domain;
  return f == nullptr ? 0 : value_of(*f);
}

HEADMIX_INLINE std::string_view Binding::leaf_name(std::size_t leaf) const {
  return unqualified(table_->leaves[leaf].name_source);
}

HEADMIX_INLINE std::string_view Binding::leaf_qualified_name(std::size_t leaf) const {
  return name_in(table_->leaves[leaf].name_source, true);
}

HEADMIX_INLINE std::string_view Binding::leaf_text(std::size_t leaf) const {
  return distinct(table_->leaves[leaf].name_source);
}

HEADMIX_INLINE std::size_t Binding::leaf_of_name(std::string_view name, bool integers) const {
  for (bool const qualified : {false, true}) {
    std::string found;
    std::size_t n = 0, which = 0;
    for (std::size_t l = 0; l < leaf_count(); ++l) {
      if ((qualified ? leaf_qualified_name(l) : leaf_name(l)) != name) continue;
      found += message(n++ == 0 ? "" : " and ", leaf_qualified_name(l));
      which = l;
    }
    if (n == 1) {
      if ((element_kind(which) == kind::integer) == integers) return which;
      fail("bind(): ", leaf_text(which), " is a ", text_of(what_leaf(which)), ": expected ",
           integers ? "numbers of the backend, found Int" : "Int, found numbers of the backend");
    }
    if (n > 1) fail("bind(): ", name, " is the name of ", n, " leaves: ", found, "; expected one of these names");
  }
  std::string all;
  for (std::size_t l = 0; l < leaf_count(); ++l) all += message(l == 0 ? "" : ", ", leaf_text(l));
  fail("bind(): expected the name of a leaf, found \"", name, "\"; the leaves are ", all);
}

HEADMIX_INLINE named_leaf Binding::named(std::size_t leaf, bool gradient) const {
  bound_sizes const certain = certain_sizes();
  auto const& extent = table_->leaves[leaf].shape.extent;
  auto const of = [&](formula const& f) {
    return unknown_size(f, certain.value.data()) == nullptr ? evaluate(f, certain.value.data()) : dynamic;
  };
  return {leaf_name(leaf), leaf_qualified_name(leaf), what_leaf(leaf), of(*extent[0]), of(*extent[1]), of(*extent[2]),
          gradient,        bool(bound_[leaf])};
}

HEADMIX_INLINE std::string_view Binding::unknown_size_of(std::size_t leaf) const {
  for (formula const* const extent : table_->leaves[leaf].shape.extent) {
    if (formula const* const f = unknown_size(*extent, sizes_.value.data())) return unqualified(f->name_source);
  }
  return {};
}

HEADMIX_INLINE untyped_view Binding::leaf_shape(std::size_t leaf) const {
  auto const& extent = table_->leaves[leaf].shape.extent;
  return without_memory(leaf_name(leaf), value_of(*extent[0]), value_of(*extent[1]), value_of(*extent[2]));
}

HEADMIX_INLINE void Binding::bind_leaf(std::size_t leaf, untyped_view const& value, untyped_view const& gradient) {
  check_memory_of(leaf, value, "");
  check_gradient(leaf, value, gradient);
  untyped_view& mine = values_[leaf];
  if (!bound_[leaf] || !same_extents(mine, value) || mine.contiguous() != value.contiguous()) {
    state_->fall_back(program_stage::bound, "was bound to memory of other extents", leaf);
  } else if (!same_view(mine, value)) {
    state_->fall_back(program_stage::planned, "was bound to other memory", leaf);
  }
  mine = value;
  bound_[leaf] = true;
  set_gradient(leaf, gradient);
}

HEADMIX_INLINE void Binding::bind_gradient(std::size_t leaf, untyped_view const& gradient, bool overwrite) {
  check_gradient(leaf, values_[leaf], gradient);
  set_gradient(leaf, gradient);
  if (overwrite) overwritten_.push_back(table_->leaves.size() + leaf);
}

HEADMIX_INLINE untyped_view const& Binding::leaf_gradient(std::size_t leaf) const {
  return values_[table_->leaves.size() + leaf];
}

HEADMIX_INLINE void Binding::set_size(std::size_t size, Index n) {
  if (0 > n) fail("size ", size_name(size), " must not be negative; found ", n);
  if (n > max_elements) fail("size ", size_name(size), ": expected at most ", max_elements, ", found ", n);
  if (given_[size] != n) state_->fall_back(program_stage::bound, "a size was set");
  given_[size] = sizes_.value[size] = n;
  find_shares();
}

HEADMIX_INLINE void Binding::own_terms(std::vector<Index>& terms) {
  find_sizes();
  rank_sizes_.own_terms(terms, sizes_.value);
}

HEADMIX_INLINE void Binding::agree(std::vector<Index> const& sums) {
  if (rank_sizes_.agree(sums)) state_->fall_back(program_stage::bound, "other sizes were bound on another rank");
}

HEADMIX_INLINE void Binding::set_received(int size, Index n) {
  auto const s = static_cast<std::size_t>(size);
  Index const most = given_[s] != dynamic ? given_[s] : rank_sizes_.most_received(size, sizes_.value);
  if (n > most) fail(size_name(s), ": ", n, " rows come from all ranks, the program has memory for ", most);
  sizes_.value[s] = n;
}

HEADMIX_INLINE tensor_part Binding::part_of_leaf(std::size_t leaf) const {
  return rank_sizes_.part_of(table_->leaves[leaf].shape, sizes_.value);
}

HEADMIX_INLINE void Binding::resolve() {
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
      fail(leaf_text(static_cast<std::size_t>(l)), " is split or merged, so its rows must follow each other; ", text(v),
           " has the strides ", strides(v), ", expected ", strides({nullptr, v.count, v.rows, v.cols}));
    }
  }
  Index const context_sequences = (std::max)(sizes_.context.count, Index{1});
  if (table_->keys_from_context && context_sequences != sizes_.value[sequences_size]) {
    fail("context_tokens has ", context_sequences, " sequences, tokens has ", sizes_.value[sequences_size],
         "; bind_context() and bind_tokens() say where they begin");
  }
}

HEADMIX_INLINE void Binding::check_memory() const {
  for (std::size_t l = 0; l < bound_.size(); ++l) {
    if (values_[l].data == nullptr && values_[l].size() > 0) {
      fail(leaf_text(l), " is bound to a null pointer; its extents are ", text(values_[l]));
    }
  }
}

HEADMIX_INLINE void Binding::check_outside(std::span<std::byte> workspace) const {
  auto const begin = reinterpret_cast<std::uintptr_t>(workspace.data());
  address_range const all{begin, begin + workspace.size()};
  for (std::size_t l = 0; l < bound_.size(); ++l) {
    for (bool const gradient : {false, true}) {
      untyped_view const& v = gradient ? leaf_gradient(l) : values_[l];
      if (v.data == nullptr || !addresses_of(v, element_of(l)).meets(all)) continue;
      if (gradient) fail("the gradient of ", leaf_text(l), " lies in the workspace, which the pass overwrites");
      fail(leaf_text(l),
           " lies in the workspace, which the pass overwrites: a result is there until the next forward(); copy it to "
           "use it as an input");
    }
  }
}

template <class F>
void Binding::check_apart(untyped_view const& result, std::size_t element, F const& may_share) const {
  auto const meet = [&](untyped_view const& v, std::size_t leaf) {
    std::size_t const of_leaf = element_of(leaf);
    if (v.data == nullptr || !addresses_of(v, of_leaf).meets(addresses_of(result, element))) return false;
    return of_leaf != element || share_memory(v, result, element);
  };
  for (std::size_t l = 0; l < bound_.size(); ++l) {
    if (meet(leaf_gradient(l), l)) fail("the result shares memory with the gradient of ", leaf_text(l));
    if (meet(values_[l], l) && !may_share(l)) {
      fail("the result shares memory with ", leaf_text(l), ", a ", text_of(what_leaf(l)));
    }
  }
}

HEADMIX_INLINE void Binding::check_numbers() const {
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

HEADMIX_INLINE void Binding::check_has_run(char const* what) const {
  if (state_->has_run()) return;
  fail(what, " needs a forward() over the same memory and extents before it: ",
       state_->leaf() == State::no_leaf ? std::string_view{} : leaf_text(state_->leaf()),
       state_->leaf() == State::no_leaf ? "" : " ", state_->reason());
}

HEADMIX_INLINE bound_sizes Binding::certain_sizes() const {
  bound_sizes certain = sizes_;
  if (state_->at() >= program_stage::planned) return certain;
  certain.value = given_;
  if (certain.tokens.count > 0) certain.value[tokens_size] = certain.tokens.rows;
  if (certain.context.count > 0) certain.value[context_size] = certain.context.rows;
  certain.value[ranks_size] = rank_sizes_.ranks();
  rank_sizes_.find_shares(certain.value, [](std::size_t) {});
  return certain;
}

HEADMIX_INLINE void Binding::find_sizes() {
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

HEADMIX_INLINE void Binding::find_shares() {
  sizes_.value[ranks_size] = rank_sizes_.ranks();
  rank_sizes_.find_shares(sizes_.value, [this](std::size_t size) { source_[size] = "this rank's share"; });
}

HEADMIX_INLINE std::string_view Binding::distinct(char const* name_source) const {
  auto const same = [&](leaf_row const& l) { return unqualified(l.name_source) == unqualified(name_source); };
  bool const several = std::count_if(table_->leaves.begin(), table_->leaves.end(), same) > 1;
  return several ? name_in(name_source, true) : unqualified(name_source);
}

template <class F>
void Binding::each_extent(std::size_t leaf, F f) const {
  untyped_view const& v = values_[leaf];
  auto const& expected = table_->leaves[leaf].shape.extent;
  f(*expected[0], v.count, "matrices");
  f(*expected[1], v.rows, "rows");
  f(*expected[2], v.cols, "columns");
}

HEADMIX_INLINE std::string Binding::expectation(formula const& f) const {
  std::string const number = std::to_string(value_of(f));
  if (f.what != formula::op::size) return number;
  auto const size = static_cast<std::size_t>(f.value);
  return message(number, " (", size_name(size), ", as ", distinct(source_[size]), " has it)");
}

HEADMIX_INLINE void Binding::fix(std::size_t size, segments const& s) {
  if (s.count == 0) return;
  if (given_[size] != dynamic && given_[size] != s.rows) {
    fail(size_name(size), ": set() says ", given_[size], ", the sequences have ", s.rows, " rows");
  }
  sizes_.value[size] = s.rows;
  source_[size] = "the sequences";
}

HEADMIX_INLINE void Binding::set_segments(segments& mine, std::size_t size, segments const& s) {
  check_segments(table_->sizes[size], s, host_memory_);
  // Kernels may cut even and ragged sequences differently, and so need other scratch memory.
  bool const same_form = (mine.offsets == nullptr) == (s.offsets == nullptr);
  if (mine.rows != s.rows || mine.count != s.count || !same_form) {
    state_->fall_back(program_stage::bound, "other sequences were bound");
  } else if (mine.offsets != s.offsets || mine.past != s.past) {
    state_->fall_back(program_stage::placed, "other sequences were bound");
  }
  mine = s;
  sizes_.value[size] = s.rows;
}

HEADMIX_INLINE void Binding::check_memory_of(std::size_t leaf, untyped_view const& v, char const* what) const {
  if (0 > v.count || 0 > v.rows || 0 > v.cols) fail(what, leaf_text(leaf), " has a negative extent: ", text(v));
  if (!can_be_extents(v.count, v.rows, v.cols)) check_extents_of(leaf_text(leaf), v.count, v.rows, v.cols, what);
  if (!is_aligned(v.data, element_of(leaf))) {
    check_alignment(leaf_text(leaf), v.data, element_of(leaf), v.size(), what);
  }
}

HEADMIX_INLINE void Binding::check_gradient(std::size_t leaf, untyped_view const& value,
                                            untyped_view const& gradient) const {
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

HEADMIX_INLINE void Binding::set_gradient(std::size_t leaf, untyped_view const& gradient) {
  untyped_view const& value = values_[leaf];
  untyped_view& mine = values_[table_->leaves.size() + leaf];
  mine = gradient;
  std::erase(overwritten_, table_->leaves.size() + leaf);
  // Plans size the kernels that add to it by the leaf: a gradient may be bound later.
  if (gradient.data == nullptr) mine = {nullptr, value.count, value.rows, value.cols};
}

HEADMIX_INLINE std::size_t Binding::element_of(std::size_t leaf) const {
  return bytes_[static_cast<std::size_t>(table_->leaves[leaf].kind_of)];
}

}  // namespace headmix::detail

#endif
