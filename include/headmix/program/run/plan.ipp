#pragma once
// SPDX-License-Identifier: MIT
// Plan: lifetimes and offsets of buffers.

#if !defined(HEADMIX_COMPILED) || defined(HEADMIX_IMPLEMENTATION)

namespace headmix::detail {

HEADMIX_INLINE Plan::Plan(program_table const& table)
    : program_(&table),
      scratch_(table.calls.size()),
      buffers_(table.buffers.size()),
      living_(table.buffers.size() + 2) {
  find_lifetimes();
}

HEADMIX_INLINE void Plan::shape_values(Binding& binding) const {
  for (std::size_t i = 0; i < program_->shapes.size(); ++i) {
    auto const& extent = program_->shapes[i].extent;
    binding.values()[program_->first_output_gradient() + i] =
        without_memory("a value of the program", binding.value_of(*extent[0]), binding.value_of(*extent[1]),
                       binding.value_of(*extent[2]));
  }
  if (has_result()) shape_result(binding);
}

HEADMIX_INLINE void Plan::reshape_values(Binding& binding, int size) {
  std::vector<std::size_t>& values = values_of_size(size);
  for (std::size_t const i : values) {
    auto const& extent = program_->shapes[i].extent;
    untyped_view& value = binding.values()[program_->first_output_gradient() + i];
    value = untyped_view(value.data, binding.value_of(*extent[0]), binding.value_of(*extent[1]),
                         binding.value_of(*extent[2]));
    if (has_result() && &buffers_[i - program_->output_gradients] == &result_buffer()) shape_result(binding);
  }
}

HEADMIX_INLINE void Plan::find_kept(std::span<untyped_view const> values) {
  std::size_t const calls = program_->calls.size();
  for (buffer& b : buffers_) b.laid_out = b.outside = b.kept = false;
  if (has_result()) buffer_below(program_->roots[0])->outside = true;
  for (std::size_t c = 0; c < calls; ++c) {
    for (int const n : values_of_call(c)) {
      buffer* const b = buffer_below(n);
      if (b == nullptr || b->writer != c || b->laid_out) continue;
      std::size_t const i = number_of(*b);
      b->laid_out = true;
      b->used = b->last > c || !program_->buffers[i].optional;
      b->bytes = checked_bytes(values[program_->first_buffer() + i].size(), program_->buffers[i].element);
      buffer const* const before = b->used && !b->outside ? place_of(c, i) : nullptr;
      b->first = before == nullptr ? i : before->first;
    }
  }
  if (program_->forward_calls == calls) return;
  for (buffer const& b : buffers_) {
    if (b.laid_out && b.used && !b.outside && b.last == calls) buffers_[b.first].kept = true;
  }
  for (std::size_t c = 0; c < calls; ++c) {  // outputs that lie behind each other are kept together
    if (!program_->calls[c].stacks_outputs) continue;
    auto const outputs = values_of_call(c).first(static_cast<std::size_t>(program_->calls[c].outputs));
    auto const kept = [this](int n) { return buffer_below(n) != nullptr && is_kept(*buffer_below(n)); };
    if (std::none_of(outputs.begin(), outputs.end(), kept)) continue;
    for (int const n : outputs) {
      if (buffer* const b = buffer_below(n); b != nullptr && b->used && !b->outside) buffers_[b->first].kept = true;
    }
  }
}

HEADMIX_INLINE void Plan::lay_out(std::span<untyped_view const> values) {
  find_kept(values);
  AddressPlanner planner(living_);
  kept_bytes_ = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffer& b = buffers_[i];
    if (b.laid_out && b.first == i && b.kept) b.offset = std::exchange(kept_bytes_, aligned(kept_bytes_ + b.bytes));
  }
  // Behind the kept bytes lies what no pass needs of the other one.
  std::size_t const calls = program_->calls.size();
  for (buffer& b : buffers_) b.laid_out = false;
  for (std::size_t c = 0; c < calls; ++c) {
    for (int const n : values_of_call(c)) {
      buffer* const b = buffer_below(n);
      if (b == nullptr || b->writer != c || b->laid_out) continue;
      std::size_t const i = number_of(*b);
      b->laid_out = true;
      if (!b->used || b->outside) continue;
      if (b->first != i) {
        b->offset = buffers_[b->first].offset;
        if (!is_kept(*b)) planner.hand_on(number_of(*place_of(c, i)), i);
      } else if (!b->kept) {
        b->offset = kept_bytes_ + planner.acquire(i, b->bytes);
      }
    }
    if (scratch_[c].bytes > 0) {
      scratch_[c].offset = kept_bytes_ + planner.acquire(buffers_.size(), scratch_[c].bytes);
      planner.release(buffers_.size());
    }
    for (int const n : values_of_call(c)) {
      buffer* const b = buffer_below(n);
      if (b != nullptr && b->last == c && b->used && !b->outside && !is_kept(*b)) planner.release(number_of(*b));
    }
  }
  weights_ = kept_bytes_ + planner.peak();
  bytes_ = aligned(weights_ + losses() * sizeof(double));
}

HEADMIX_INLINE void Plan::set_workspace(std::span<std::byte> memory, std::span<std::byte> rest, State& state) {
  for (auto const& part : {memory, rest}) {
    if (reinterpret_cast<std::uintptr_t>(part.data()) % alignment != 0) {
      fail("the workspace must be aligned to ", alignment, " bytes");
    }
  }
  auto const same = [](std::span<std::byte> a, std::span<std::byte> b) {
    return a.data() == b.data() && a.size() == b.size();
  };
  if (same(memory, workspace_) && same(rest, rest_)) return;
  workspace_ = memory;
  rest_ = rest;
  state.fall_back(program_stage::planned, "another workspace was bound");
}

HEADMIX_INLINE void Plan::place(std::span<untyped_view> values) const {
  if (std::size_t const needed = rest_.empty() ? bytes_ : kept_bytes_; workspace_.size() < needed) {
    fail("the workspace has ", workspace_.size(), " bytes, the program needs ", needed);
  }
  if (!rest_.empty() && rest_.size() < bytes_ - kept_bytes_) {
    fail("the rest of the workspace has ", rest_.size(), " bytes, the program needs ", bytes_ - kept_bytes_);
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffer const& b = buffers_[i];
    values[program_->first_buffer() + i].data = b.outside ? result_.memory.data : b.used ? at(b.offset) : nullptr;
  }
}

HEADMIX_INLINE void Plan::bind_result(bound_result const& r, State& state) {
  untyped_view const& v = r.memory;
  if (v.data == nullptr && v.size() != 0) fail("the result is bound to a null pointer; its extents are ", text(v));
  if (v.data != nullptr) {
    check_extents_of("the result", v.count, v.rows, v.cols);
    check_alignment("the result", v.data, program_->buffers[number_of(result_buffer())].element, v.size());
    if (overlaps_itself(v)) {
      fail("the result must have memory of its own for every element; ", text(v), " with strides ", strides(v),
           " has not");
    }
    int const n = base_of(program_->roots[0]);
    bool const viewed = std::any_of(program_->sources.begin(), program_->sources.end(),
                                    [&](int source) { return source >= 0 && base_of(source) == n; });
    if ((r.reshaped || viewed) && !v.contiguous()) {
      fail("the result is split, merged or read through a view, so its rows must follow each other; ", text(v),
           " has the strides ", strides(v), ", expected ", strides({nullptr, v.count, v.rows, v.cols}));
    }
    if (r.write == result_write::add) {
      auto const first = result_buffer().writer;
      call_row const& row = program_->calls[first];
      bool const several = std::count_if(program_->roots.begin(), program_->roots.end(),
                                         [&](int root) { return base_of(root) == n; }) > 1;
      if (!row.can_add || row.outputs != 1) {
        fail("the result cannot be added to its memory: the kernel that makes it (call ", first,
             ") only overwrites; expected result_write::overwrite");
      }
      if (several || reads_from(0, n)) {
        fail("the result cannot be added to its memory: ", several ? "a loss" : "a later call",
             " reads it; expected result_write::overwrite");
      }
    }
  }
  bool const same_layout = has_result() == (v.data != nullptr) && same_extents(v, result_.memory) &&
                           v.stack_stride == result_.memory.stack_stride && v.row_stride == result_.memory.row_stride &&
                           v.col_stride == result_.memory.col_stride && r.write == result_.write;
  if (!same_layout) {
    state.fall_back(program_stage::bound, "the result was bound to memory of other extents");
  } else if (v.data != result_.memory.data) {
    state.fall_back(program_stage::planned, "the result was bound to other memory");
  }
  result_ = r;
}

HEADMIX_INLINE void Plan::check_result(Binding const& binding) const {
  if (!has_result()) return;
  buffer const& b = result_buffer();
  std::size_t const element = program_->buffers[number_of(b)].element;
  for (auto const& part : {workspace_, rest_}) {
    auto const begin = reinterpret_cast<std::uintptr_t>(part.data());
    if (addresses_of(result_.memory, element).meets({begin, begin + part.size()})) {
      fail("the result lies in the workspace, which the pass overwrites");
    }
  }
  binding.check_apart(result_.memory, element, [&](std::size_t leaf) {
    if (binding.what_leaf(leaf) != leaf_kind::input) return false;
    if (!reads_from(b.writer, static_cast<int>(leaf))) return true;
    fail("the result shares memory with ", binding.leaf_text(leaf), ", which ",
         reads_from(program_->forward_calls, static_cast<int>(leaf)) ? "the backward pass" : "a call",
         " reads after the result is written; a program for inference can have both in one place if its last call "
         "does not read ",
         binding.leaf_text(leaf));
  });
}

HEADMIX_INLINE bool Plan::has_gradient(std::size_t leaf) const {
  for (std::size_t c = program_->forward_calls; c < program_->calls.size(); ++c) {
    auto const gradient = static_cast<int>(program_->binding.leaves.size() + leaf);
    if (program_->calls[c].accumulates_gradient && values_of_call(c)[0] == gradient) return true;
  }
  return false;
}

HEADMIX_INLINE void Plan::check_output_gradients(untyped_view const& result, untyped_view const& dy,
                                                 std::size_t weights) const {
  if (weights != 0 && weights != losses()) {
    fail("backward() got ", weights, " loss weights, the program has ", losses(), " losses");
  }
  if (!program_->result_has_gradient) return;
  if (dy.data == nullptr && result.size() > 0) {
    fail("dy is a null pointer; the result has extents ", text(result));
  }
  if (!same_extents(dy, result)) fail("dy has extents ", text(dy), ", the result has ", text(result));
}

HEADMIX_INLINE std::span<std::byte const> Plan::memory_of(int n) const {
  buffer const* const b = buffer_below(n);
  if (b == nullptr || !b->used) return {};
  if (b->outside) {
    auto const all = addresses_of(result_.memory, program_->buffers[number_of(*b)].element);
    return {reinterpret_cast<std::byte const*>(all.begin), all.end - all.begin};
  }
  return b->bytes == 0 ? std::span<std::byte const>() : std::span<std::byte const>(at(b->offset), b->bytes);
}

HEADMIX_INLINE void Plan::find_lifetimes() {
  std::size_t const calls = program_->calls.size();
  for (buffer& b : buffers_) b.writer = calls;
  for (std::size_t c = 0; c < calls; ++c) {
    for (int const n : values_of_call(c)) {
      buffer* const b = buffer_below(n);
      if (b == nullptr) continue;
      if (b->writer == calls) {
        b->writer = b->last = c;
      } else if (b->last != calls) {
        // What the forward pass made and the backward pass reads survives: a backward pass can be repeated.
        b->last = b->writer < program_->forward_calls && c >= program_->forward_calls ? calls : c;
      }
    }
  }
  for (int const root : program_->roots) {
    if (buffer* const b = buffer_below(root)) b->last = calls;
  }
  for (std::size_t c = calls; c-- > 0;) {
    if (!program_->calls[c].is_asynchronous) continue;
    buffer const* const result = buffer_below(values_of_call(c)[0]);
    for (int const n : values_of_call(c)) {
      if (buffer* const b = buffer_below(n)) b->last = (std::max)(b->last, result->last);
    }
  }
}

HEADMIX_INLINE Plan::buffer const* Plan::place_of(std::size_t c, std::size_t i) const {
  std::span<int const> const values = values_of_call(c);
  call_row const& row = program_->calls[c];
  int const first = static_cast<int>(program_->first_buffer());
  for (int output = 0; output < row.in_place; ++output) {
    if (values[static_cast<std::size_t>(output)] != first + static_cast<int>(i)) continue;
    int const before = values[static_cast<std::size_t>(output == 0 ? row.outputs : output - 1)];
    if (before < first || before >= static_cast<int>(program_->first_derived())) return nullptr;
    buffer const& b = buffers_[static_cast<std::size_t>(before - first)];
    auto const lies_there = [&](int n) { return buffer_below(n) == &b; };
    bool const alone = std::count_if(values.begin(), values.end(), lies_there) == 1;
    return alone && b.used && !b.outside && b.last == c && b.bytes == buffers_[i].bytes ? &b : nullptr;
  }
  return nullptr;
}

HEADMIX_INLINE void Plan::shape_result(Binding& binding) const {
  auto const& extent = result_.extents->extent;
  untyped_view const expected(nullptr, binding.value_of(*extent[0]), binding.value_of(*extent[1]),
                              binding.value_of(*extent[2]));
  if (!same_extents(result_.memory, expected)) {
    fail("the result is bound to memory of extents ", text(result_.memory), ", expected ", text(expected));
  }
  untyped_view& value = binding.values()[program_->first_buffer() + number_of(result_buffer())];
  if (!result_.reshaped) value = result_.memory;
}

HEADMIX_INLINE int Plan::base_of(int n) const {
  auto const end = static_cast<int>(program_->first_derived());
  while (n >= end) n = program_->sources[static_cast<std::size_t>(n - end)];
  return n;
}

HEADMIX_INLINE bool Plan::reads_from(std::size_t c, int n) const {
  for (std::size_t i = 0; i < program_->calls.size(); ++i) {
    call_row const& row = program_->calls[i];
    if (i < c && !row.is_asynchronous) continue;
    for (int const operand : values_of_call(i).subspan(static_cast<std::size_t>(row.outputs))) {
      if (operand >= 0 && base_of(operand) == n) return true;
    }
  }
  return false;
}

HEADMIX_INLINE std::size_t Plan::losses() const {
  return program_->output_gradients - (program_->result_has_gradient ? 1 : 0);
}

HEADMIX_INLINE Plan::buffer const* Plan::buffer_below(int n) const {
  auto const first = static_cast<int>(program_->first_buffer()), end = static_cast<int>(program_->first_derived());
  while (n >= end) n = program_->sources[static_cast<std::size_t>(n - end)];
  return n < first ? nullptr : &buffers_[static_cast<std::size_t>(n - first)];
}

HEADMIX_INLINE std::vector<std::size_t>& Plan::values_of_size(int size) {
  for (auto& of : resized_) {
    if (of.size == size) return of.values;
  }
  auto& of = resized_.emplace_back(resized{size, {}});
  for (std::size_t i = program_->output_gradients; i < program_->output_gradients + program_->buffers.size(); ++i) {
    auto const& extent = program_->shapes[i].extent;
    if (mentions(*extent[0], size) || mentions(*extent[1], size) || mentions(*extent[2], size)) {
      of.values.push_back(i);
    }
  }
  return of.values;
}

}  // namespace headmix::detail

#endif
