#pragma once
// SPDX-License-Identifier: MIT
// Unrolled: the tables of a program with every instance of its repeated parts.

#if !defined(HEADMIX_COMPILED) || defined(HEADMIX_IMPLEMENTATION)

namespace headmix::detail {

HEADMIX_INLINE Unrolled::Unrolled(program_table const& table, std::span<Index const> instances)
    : from_(&table), instances_(instances.begin(), instances.end()) {
  if (!repeats()) return;
  parts_.resize(instances_.size());
  find_repeated();
  number_values();
  make_calls();
  make_tables();
}

HEADMIX_INLINE std::size_t Unrolled::value(int n, Index instance) const {
  int const r = repeats() ? repeat_of(n) : not_repeated;
  Index const n_instances = r == not_repeated ? 1 : instances(r);
  if (0 > instance || instance >= n_instances) {
    fail("there is no instance ", instance, " of a value that has ", n_instances);
  }
  if (!repeats()) return static_cast<std::size_t>(n);
  return static_cast<std::size_t>(place(n, instance, false));
}

HEADMIX_INLINE Index Unrolled::instances_of_leaf(std::size_t n) const {
  int const r = from_->binding.leaves[n].repeat;
  return r < 0 ? 1 : instances_[static_cast<std::size_t>(r)];
}

HEADMIX_INLINE std::vector<value_origin> Unrolled::origins() const {
  std::vector<value_origin> all(repeats() ? count_ : from_->values());
  if (!repeats()) {
    for (std::size_t v = 0; v < all.size(); ++v) all[v] = {static_cast<int>(v), 0, false};
    return all;
  }
  each_place(0, from_->values(), [&](std::size_t v, Index instance, bool again) {
    int const first = again ? again_[v] : first_[v];
    all[static_cast<std::size_t>(first) + static_cast<std::size_t>(instance)] = {static_cast<int>(v), instance, again};
  });
  return all;
}

HEADMIX_INLINE std::span<int const> Unrolled::numbers_of(std::size_t c) const {
  call_row const& row = from_->calls[c];
  return from_->numbers.subspan(static_cast<std::size_t>(row.begin), static_cast<std::size_t>(row.values));
}

HEADMIX_INLINE int Unrolled::source_of(int n) const {
  return from_->sources[static_cast<std::size_t>(n) - from_->first_derived()];
}

HEADMIX_INLINE int Unrolled::repeat_of(int n) const {
  if (!is_derived(n)) return repeat_[static_cast<std::size_t>(n)];
  int const source = source_of(n);
  return source < 0 ? not_repeated : repeat_of(source);
}

HEADMIX_INLINE void Unrolled::find_repeated() {
  auto const leaves = from_->binding.leaves.size();
  repeat_.assign(from_->first_derived(), not_repeated);
  for (std::size_t l = 0; l < leaves; ++l) {
    repeat_[l] = repeat_[leaves + l] = from_->binding.leaves[l].repeat;
  }
  call_repeat_.assign(from_->calls.size(), not_repeated);
  for (std::size_t c = 0; c < from_->calls.size(); ++c) {
    call_row const& row = from_->calls[c];
    auto const n = numbers_of(c);
    if (row.edge == repeat_edge::begin) {
      part& p = part_of(row.repeat);
      if (p.in >= 0) {
        fail("repeat ", from_->repeats[static_cast<std::size_t>(row.repeat)].name,
             ": the program repeats two layers under this name; give each a name of its own");
      }
      p.in = n[0], repeat_[static_cast<std::size_t>(n[0])] = row.repeat;
    }
    if (row.edge == repeat_edge::end) part_of(row.repeat).made = n[1];
    if (row.edge == repeat_edge::gradient_begin) {
      part_of(row.repeat).d_in = n[0], repeat_[static_cast<std::size_t>(n[0])] = row.repeat;
    }
    if (row.edge == repeat_edge::gradient_end) part_of(row.repeat).d_made = n[1];
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t c = 0; c < from_->calls.size(); ++c) changed = repeat_call(c) || changed;
  }
  for (std::size_t c = 0; c < from_->calls.size(); ++c) {
    if (int const r = call_repeat_[c]; r != not_repeated) {
      part& p = part_of(r);
      (c < from_->forward_calls ? p.forward : p.backward).push_back(c);
    }
  }
  for (std::size_t r = 0; r < parts_.size(); ++r) check(parts_[r], r);
}

HEADMIX_INLINE bool Unrolled::repeat_call(std::size_t c) {
  call_row const& row = from_->calls[c];
  auto const n = numbers_of(c);
  bool const begins = row.edge == repeat_edge::begin || row.edge == repeat_edge::gradient_begin;
  bool const ends = row.edge != repeat_edge::none;
  if (begins || call_repeat_[c] != not_repeated) return false;
  int found = ends ? row.repeat : not_repeated;
  for (std::size_t i = 0; i < n.size(); ++i) {
    if (n[i] >= 0 && repeat_of(n[i]) != not_repeated) found = repeat_of(n[i]);
  }
  if (found == not_repeated) return false;
  call_repeat_[c] = found;
  for (int i = 0; i < row.outputs && !ends; ++i)
    repeat_[static_cast<std::size_t>(n[static_cast<std::size_t>(i)])] = found;
  return true;
}

HEADMIX_INLINE void Unrolled::check(part const& p, std::size_t r) const {
  char const* const name = from_->repeats[r].name;
  auto const most = static_cast<Index>((std::numeric_limits<int>::max)() / (3 * (from_->values() + 1)));
  if (instances_[r] > most) fail("repeat ", name, ": it is done ", instances_[r], " times; expected at most ", most);
  if (instances_[r] < 1) fail("repeat ", name, ": it is done ", instances_[r], " times; expected at least one");
  if (p.in < 0 || p.made < 0) fail("repeat ", name, ": the program has the repeated layer without its result");
  if (!p.backward.empty() && p.d_made < 0 && instances_[r] > 1) {
    fail("repeat ", name,
         ": gradients by its parameters need one by what it works on; add a leaf of that to gradients_by");
  }
}

HEADMIX_INLINE void Unrolled::number_values() {
  std::size_t const values = from_->values();
  first_.assign(values, 0);
  again_.assign(values, not_repeated);
  int next = 0;
  auto const number = [&](std::size_t begin, std::size_t end) {
    for (std::size_t v = begin; v < end; ++v) {
      first_[v] = next;
      int const r = repeat_of(static_cast<int>(v));
      next += r == not_repeated ? 1 : static_cast<int>(instances(r));
    }
  };
  number(0, from_->first_buffer());
  number(from_->first_buffer(), from_->first_derived());
  find_again();
  for (std::size_t v = from_->first_buffer(); v < from_->first_derived(); ++v) {
    if (is_again(static_cast<int>(v)))
      again_[v] = next, next += static_cast<int>(instances(repeat_of(static_cast<int>(v))));
  }
  number(from_->first_derived(), values);
  for (std::size_t v = from_->first_derived(); v < values; ++v) {
    if (is_again(static_cast<int>(v)))
      again_[v] = next, next += static_cast<int>(instances(repeat_of(static_cast<int>(v))));
  }
  count_ = static_cast<std::size_t>(next);
}

HEADMIX_INLINE void Unrolled::find_again() {
  for (std::size_t r = 0; r < parts_.size(); ++r) {
    part& p = parts_[r];
    p.again.assign(from_->first_derived(), false);
    if (!from_->repeats[r].recompute) continue;
    auto const want = [&](std::size_t c) {
      for (int n : numbers_of(c)) {
        if (n < 0) continue;
        while (is_derived(n) && source_of(n) >= 0) n = source_of(n);
        if (!is_derived(n)) p.again[static_cast<std::size_t>(n)] = true;
      }
    };
    for (std::size_t const c : p.backward) want(c);
    for (std::size_t i = p.forward.size(); i-- > 0;) {
      if (makes_again(p, p.forward[i])) want(p.forward[i]);
    }
    // Only what the forward calls of the part write.
    std::vector<bool> written(from_->first_derived(), false);
    for (std::size_t const c : p.forward) {
      for (int i = 0; i < from_->calls[c].outputs && makes_again(p, c); ++i) {
        written[static_cast<std::size_t>(numbers_of(c)[static_cast<std::size_t>(i)])] = true;
      }
    }
    p.again = std::move(written);
  }
}

HEADMIX_INLINE bool Unrolled::makes_again(part const& p, std::size_t c) const {
  call_row const& row = from_->calls[c];
  if (row.edge != repeat_edge::none) return false;
  for (int i = 0; i < row.outputs; ++i) {
    if (p.again[static_cast<std::size_t>(numbers_of(c)[static_cast<std::size_t>(i)])]) return true;
  }
  return false;
}

HEADMIX_INLINE bool Unrolled::is_again(int n) const {
  int const r = repeat_of(n);
  if (r == not_repeated) return false;
  if (is_derived(n)) return source_of(n) >= 0 && is_again(source_of(n));
  return part_of(r).again[static_cast<std::size_t>(n)];
}

HEADMIX_INLINE int Unrolled::place(int n, Index instance, bool again) const {
  int const r = repeat_of(n);
  if (r == not_repeated) return first_[static_cast<std::size_t>(n)];
  part const& p = part_of(r);
  if (n == p.in && instance > 0) return place(p.made, instance - 1, false);
  if (n == p.d_in && instance + 1 < instances(r)) return place(p.d_made, instance + 1, true);
  int const first = again && again_[static_cast<std::size_t>(n)] >= 0 ? again_[static_cast<std::size_t>(n)]
                                                                      : first_[static_cast<std::size_t>(n)];
  return first + static_cast<int>(instance);
}

HEADMIX_INLINE void Unrolled::add_call_of(std::size_t c, Index instance, bool again, bool accumulate) {
  call_row row = from_->calls[c];
  auto const numbers = numbers_of(c);
  row.begin = static_cast<int>(numbers_.size());
  row.accumulate = row.accumulate || accumulate;
  for (int const n : numbers) numbers_.push_back(n < 0 ? ~place(~n, instance, again) : place(n, instance, again));
  calls_.push_back(row);
  calls_of_.push_back(c);
}

HEADMIX_INLINE void Unrolled::emit_forward(part const& p, int r) {
  for (Index instance = 0; instance < instances(r); ++instance) {
    for (std::size_t const c : p.forward) {
      repeat_edge const edge = from_->calls[c].edge;
      if (edge == repeat_edge::end && instance + 1 < instances(r)) continue;
      add_call_of(c, instance, false, edge == repeat_edge::total && instance > 0);
    }
  }
}

HEADMIX_INLINE void Unrolled::emit_backward(part const& p, int r) {
  for (Index instance = instances(r); instance-- > 0;) {
    for (std::size_t const c : p.forward) {
      if (makes_again(p, c)) add_call_of(c, instance, true, false);
    }
    for (std::size_t const c : p.backward) {
      repeat_edge const edge = from_->calls[c].edge;
      if (edge == repeat_edge::gradient_end && instance > 0) continue;
      add_call_of(c, instance, true, edge == repeat_edge::gradient_total && instance + 1 < instances(r));
    }
  }
}

HEADMIX_INLINE void Unrolled::make_calls() {
  writers_.resize(from_->first_derived());
  for (std::size_t c = 0; c < from_->calls.size(); ++c) {
    for (int i = 0; i < from_->calls[c].outputs; ++i) {
      writers_[static_cast<std::size_t>(numbers_of(c)[static_cast<std::size_t>(i)])].push_back(c);
    }
  }
  emitted_.assign(from_->calls.size(), false);
  for (std::size_t c = 0; c < from_->forward_calls; ++c) emit_in_order(c);
  forward_calls_ = calls_.size();
  for (std::size_t c = from_->forward_calls; c < from_->calls.size(); ++c) emit_in_order(c);
}

HEADMIX_INLINE void Unrolled::emit_in_order(std::size_t c) {
  if (emitted_[c]) return;
  int const r = call_repeat_[c];
  if (r == not_repeated) {
    emitted_[c] = true;
    emit_needed(c);
    // The gradient arrives at the last instance.
    call_row const& row = from_->calls[c];
    add_call_of(c, row.edge == repeat_edge::gradient_begin ? instances(row.repeat) - 1 : 0, false, false);
    return;
  }
  bool const forward = c < from_->forward_calls;
  auto const& calls = forward ? part_of(r).forward : part_of(r).backward;
  for (std::size_t const own : calls) emitted_[own] = true;
  for (std::size_t const own : calls) emit_needed(own);
  if (forward) {
    emit_forward(part_of(r), r);
  } else {
    emit_backward(part_of(r), r);
  }
}

HEADMIX_INLINE void Unrolled::emit_needed(std::size_t c) {
  for (int n : numbers_of(c)) {
    if (n < 0) continue;
    while (is_derived(n) && source_of(n) >= 0) n = source_of(n);
    if (is_derived(n)) continue;
    for (std::size_t const w : writers_[static_cast<std::size_t>(n)]) {
      if (w < c) emit_in_order(w);
    }
  }
}

template <class F>
void Unrolled::each_place(std::size_t begin, std::size_t end, F const& f) const {
  for (bool const again : {false, true}) {
    for (std::size_t v = begin; v < end; ++v) {
      if (again && again_[v] < 0) continue;
      int const r = repeat_of(static_cast<int>(v));
      for (Index instance = 0; instance < (r == not_repeated ? 1 : instances(r)); ++instance) f(v, instance, again);
    }
  }
}

HEADMIX_INLINE void Unrolled::order_derived(std::size_t i, std::vector<bool>& made) {
  if (made[i]) return;
  made[i] = true;
  auto const first = static_cast<int>(count_ - sources_.size());
  if (sources_[i] >= first) order_derived(static_cast<std::size_t>(sources_[i] - first), made);
  order_.push_back(i);
}

HEADMIX_INLINE void Unrolled::make_tables() {
  std::size_t const leaves = from_->binding.leaves.size();
  each_place(0, leaves, [&](std::size_t l, Index instance, bool) {
    leaf_row row = from_->binding.leaves[l];
    if (row.repeat >= 0) {
      // "blocks.*.W_q" becomes "blocks.3.W_q".
      std::string name(unqualified(row.name_source));
      name.replace(name.find('*'), 1, std::to_string(instance));
      names_.push_back(std::make_unique<std::string>(std::move(name)));
      row.name_source = names_.back()->c_str();
    }
    leaves_.push_back(row);
  });
  for (int const l : from_->binding.reshaped) {
    for (Index instance = 0; instance < instances_of_leaf(static_cast<std::size_t>(l)); ++instance)
      reshaped_.push_back(place(l, instance, false));
  }
  std::size_t const seed = from_->first_output_gradient(), buffer = from_->first_buffer(),
                    derived = from_->first_derived();
  for (std::size_t s = seed; s < buffer; ++s) shapes_.push_back(from_->shapes[s - seed]);
  each_place(buffer, derived, [&](std::size_t v, Index, bool) {
    shapes_.push_back(from_->shapes[v - seed]);
    buffers_.push_back(from_->buffers[v - buffer]);
  });
  each_place(derived, from_->values(), [&](std::size_t v, Index instance, bool again) {
    shapes_.push_back(from_->shapes[v - seed]);
    int const source = from_->sources[v - derived];
    sources_.push_back(source < 0 ? source : place(source, instance, again));
    derived_of_.push_back(v - derived);
  });
  // A value that came in may be a view that a later value of the tables is.
  std::vector<bool> made(sources_.size(), false);
  for (std::size_t i = 0; i < sources_.size(); ++i) order_derived(i, made);
  for (int const root : from_->roots) {
    int const r = repeat_of(root);
    for (Index instance = 0; instance < (r == not_repeated ? 1 : instances(r)); ++instance)
      roots_.push_back(place(root, instance, false));
  }
  table_ = *from_;
  table_.binding.leaves = leaves_;
  table_.binding.reshaped = reshaped_;
  table_.calls = calls_;
  table_.forward_calls = forward_calls_;
  table_.numbers = numbers_;
  table_.shapes = shapes_;
  table_.buffers = buffers_;
  table_.sources = sources_;
  table_.roots = roots_;
}

}  // namespace headmix::detail

#endif
