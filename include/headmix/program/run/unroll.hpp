#pragma once
// SPDX-License-Identifier: MIT
// A program whose tables have repeated parts once becomes one that has every time of them: what the times share keeps
// one number, everything else gets one for each time. So the plan sees the whole program and gives it one workspace.
//
// Every time works on what the time before made: for time i, the value that came in stands for the one that time i - 1
// was to bring out, and in the backward pass the other way round. Only the outermost edges copy.

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "headmix/program/run/plain_tables.hpp"

namespace headmix::detail {

/// The tables of a program, unrolled, and where its values are in them.
template <class = void>
class basic_unrolled {
 public:
  /// @param times  of each repetition
  basic_unrolled(program_table const& table, std::span<Index const> times)
      : from_(&table), times_(times.begin(), times.end()) {
    parts_.resize(times_.size());
    find_repeated();
    number_values();
    make_calls();
    make_tables();
  }
  basic_unrolled(basic_unrolled const&) = delete;
  basic_unrolled& operator=(basic_unrolled const&) = delete;

  [[nodiscard]] program_table const& table() const { return table_; }
  /// The value of the original tables at one of its times.
  [[nodiscard]] std::size_t value(int n, Index time = 0) const {
    int const r = repeat_of(n);
    check_time(time, r == not_repeated ? 1 : times(r));
    return static_cast<std::size_t>(place(n, time, false));
  }
  /// How many times there are of a leaf.
  [[nodiscard]] Index times_of_leaf(std::size_t n) const {
    int const r = from_->binding.leaves[n].repeat;
    return r < 0 ? 1 : times_[static_cast<std::size_t>(r)];
  }
  /// Which repetition it belongs to, -1 for none.
  [[nodiscard]] int repeat_of_leaf(std::size_t n) const { return from_->binding.leaves[n].repeat; }
  /// The call, or the derived value, of the original tables that one here is.
  [[nodiscard]] std::size_t call_of(std::size_t c) const { return calls_of_[c]; }
  [[nodiscard]] std::size_t derived_of(std::size_t d) const { return derived_of_[d]; }
  /// The derived values in an order in which they can be made.
  [[nodiscard]] std::size_t derived_in_order(std::size_t i) const { return order_[i]; }
  /// For every value here: the value of the original tables that it is, and its time.
  [[nodiscard]] std::vector<value_origin> origins() const {
    std::vector<value_origin> all(count_);
    each_place(0, from_->values(), [&](std::size_t v, Index time, bool again) {
      int const first = again ? again_[v] : first_[v];
      all[static_cast<std::size_t>(first) + static_cast<std::size_t>(time)] = {static_cast<int>(v), time, again};
    });
    return all;
  }

 private:
  static constexpr int not_repeated = -1;
  struct part {
    int in = -1, made = -1;                      // what comes in, and what a time makes of it
    int d_in = -1, d_made = -1;                  // the gradient that comes in, and what a time makes of that
    std::vector<std::size_t> forward, backward;  // its calls
    std::vector<bool> again;                     // which values of the forward pass the backward pass computes again
  };

  [[nodiscard]] std::span<int const> numbers_of(std::size_t c) const {
    call_row const& row = from_->calls[c];
    return from_->numbers.subspan(static_cast<std::size_t>(row.begin), static_cast<std::size_t>(row.values));
  }
  [[nodiscard]] bool is_derived(int n) const { return n >= static_cast<int>(from_->first_derived()); }
  [[nodiscard]] int source_of(int n) const {
    return from_->sources[static_cast<std::size_t>(n) - from_->first_derived()];
  }
  /// The repetition that value n has several times for.
  [[nodiscard]] int repeat_of(int n) const {
    if (!is_derived(n)) return repeat_[static_cast<std::size_t>(n)];
    int const source = source_of(n);
    return source < 0 ? not_repeated : repeat_of(source);
  }
  [[nodiscard]] part& part_of(int r) { return parts_[static_cast<std::size_t>(r)]; }
  [[nodiscard]] part const& part_of(int r) const { return parts_[static_cast<std::size_t>(r)]; }
  [[nodiscard]] Index times(int r) const { return times_[static_cast<std::size_t>(r)]; }

  /// Which values and calls are repeated: those that depend on what comes in, or on a repeated leaf.
  void find_repeated() {
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
  /// True if something new is repeated.
  bool repeat_call(std::size_t c) {
    call_row const& row = from_->calls[c];
    auto const n = numbers_of(c);
    bool const begins = row.edge == repeat_edge::begin || row.edge == repeat_edge::gradient_begin;
    bool const ends =
        row.edge == repeat_edge::end || row.edge == repeat_edge::total || row.edge == repeat_edge::gradient_end;
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
  void check(part const& p, std::size_t r) const {
    char const* const name = from_->repeats[r].name;
    auto const most = static_cast<Index>((std::numeric_limits<int>::max)() / (3 * (from_->values() + 1)));
    if (times_[r] > most) fail("repeat ", name, ": it is done ", times_[r], " times; expected at most ", most);
    if (times_[r] < 1) fail("repeat ", name, ": it is done ", times_[r], " times; expected at least one");
    if (p.in < 0 || p.made < 0) fail("repeat ", name, ": the program has the repeated layer without its result");
    if (!p.backward.empty() && p.d_made < 0 && times_[r] > 1) {
      fail("repeat ", name,
           ": gradients by its parameters need one by what it works on; add a leaf of that to gradients_by");
    }
  }

  /// Numbers for all values: leaves, their gradients, output gradients, buffers and derived values, as the tables have
  /// them.
  void number_values() {
    std::size_t const values = from_->values();
    first_.assign(values, 0);
    again_.assign(values, not_repeated);
    int next = 0;
    auto const number = [&](std::size_t begin, std::size_t end) {
      for (std::size_t v = begin; v < end; ++v) {
        first_[v] = next;
        int const r = repeat_of(static_cast<int>(v));
        next += r == not_repeated ? 1 : static_cast<int>(times(r));
      }
    };
    number(0, from_->first_buffer());
    number(from_->first_buffer(), from_->first_derived());
    find_again();
    for (std::size_t v = from_->first_buffer(); v < from_->first_derived(); ++v) {
      if (is_again(static_cast<int>(v)))
        again_[v] = next, next += static_cast<int>(times(repeat_of(static_cast<int>(v))));
    }
    number(from_->first_derived(), values);
    for (std::size_t v = from_->first_derived(); v < values; ++v) {
      if (is_again(static_cast<int>(v)))
        again_[v] = next, next += static_cast<int>(times(repeat_of(static_cast<int>(v))));
    }
    count_ = static_cast<std::size_t>(next);
  }
  /// Which values the backward pass of a recomputed part makes again: what it reads, and what that is made of.
  void find_again() {
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
  [[nodiscard]] bool makes_again(part const& p, std::size_t c) const {
    call_row const& row = from_->calls[c];
    if (row.edge != repeat_edge::none) return false;
    for (int i = 0; i < row.outputs; ++i) {
      if (p.again[static_cast<std::size_t>(numbers_of(c)[static_cast<std::size_t>(i)])]) return true;
    }
    return false;
  }
  [[nodiscard]] bool is_again(int n) const {
    int const r = repeat_of(n);
    if (r == not_repeated) return false;
    if (is_derived(n)) return source_of(n) >= 0 && is_again(source_of(n));
    return part_of(r).again[static_cast<std::size_t>(n)];
  }

  /// The number of value n at a time; `again`: as the backward pass has it.
  [[nodiscard]] int place(int n, Index time, bool again) const {
    int const r = repeat_of(n);
    if (r == not_repeated) return first_[static_cast<std::size_t>(n)];
    part const& p = part_of(r);
    if (n == p.in && time > 0) return place(p.made, time - 1, false);
    if (n == p.d_in && time + 1 < times(r)) return place(p.d_made, time + 1, true);
    int const first = again && again_[static_cast<std::size_t>(n)] >= 0 ? again_[static_cast<std::size_t>(n)]
                                                                        : first_[static_cast<std::size_t>(n)];
    return first + static_cast<int>(time);
  }

  void add_call_of(std::size_t c, Index time, bool again, bool accumulate) {
    call_row row = from_->calls[c];
    auto const numbers = numbers_of(c);
    row.begin = static_cast<int>(numbers_.size());
    row.accumulate = row.accumulate || accumulate;
    for (int const n : numbers) numbers_.push_back(n < 0 ? ~place(~n, time, again) : place(n, time, again));
    calls_.push_back(row);
    calls_of_.push_back(c);
  }
  void emit_forward(part const& p, int r) {
    for (Index time = 0; time < times(r); ++time) {
      for (std::size_t const c : p.forward) {
        repeat_edge const edge = from_->calls[c].edge;
        if (edge == repeat_edge::end && time + 1 < times(r)) continue;
        add_call_of(c, time, false, edge == repeat_edge::total && time > 0);
      }
    }
  }
  void emit_backward(part const& p, int r) {
    for (Index time = times(r); time-- > 0;) {
      for (std::size_t const c : p.forward) {
        if (makes_again(p, c)) add_call_of(c, time, true, false);
      }
      for (std::size_t const c : p.backward) {
        if (from_->calls[c].edge == repeat_edge::gradient_end && time > 0) continue;
        add_call_of(c, time, true, false);
      }
    }
  }
  /// Calls in their order, but those of a part together, before the first other call that needs what they make.
  void make_calls() {
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
  /// Call c, or the whole part that it belongs to, after what it needs.
  void emit_in_order(std::size_t c) {
    if (emitted_[c]) return;
    int const r = call_repeat_[c];
    if (r == not_repeated) {
      emitted_[c] = true;
      emit_needed(c);
      // The gradient comes in at the last time.
      call_row const& row = from_->calls[c];
      add_call_of(c, row.edge == repeat_edge::gradient_begin ? times(row.repeat) - 1 : 0, false, false);
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
  void emit_needed(std::size_t c) {
    for (int n : numbers_of(c)) {
      if (n < 0) continue;
      while (is_derived(n) && source_of(n) >= 0) n = source_of(n);
      if (is_derived(n)) continue;
      for (std::size_t const w : writers_[static_cast<std::size_t>(n)]) {
        if (w < c) emit_in_order(w);
      }
    }
  }

  /// f(original value, time, again) for all numbers of the original values [begin, end), in the order of the numbers.
  template <class F>
  void each_place(std::size_t begin, std::size_t end, F const& f) const {
    for (bool const again : {false, true}) {
      for (std::size_t v = begin; v < end; ++v) {
        if (again && again_[v] < 0) continue;
        int const r = repeat_of(static_cast<int>(v));
        for (Index time = 0; time < (r == not_repeated ? 1 : times(r)); ++time) f(v, time, again);
      }
    }
  }
  void order_derived(std::size_t i, std::vector<bool>& made) {
    if (made[i]) return;
    made[i] = true;
    auto const first = static_cast<int>(count_ - sources_.size());
    if (sources_[i] >= first) order_derived(static_cast<std::size_t>(sources_[i] - first), made);
    order_.push_back(i);
  }
  void make_tables() {
    std::size_t const leaves = from_->binding.leaves.size();
    each_place(0, leaves, [&](std::size_t l, Index time, bool) {
      leaf_row row = from_->binding.leaves[l];
      if (row.repeat >= 0) {
        // "blocks.*.W_q" becomes "blocks.3.W_q".
        std::string name(unqualified(row.name_source));
        name.replace(name.find('*'), 1, std::to_string(time));
        names_.push_back(std::make_unique<std::string>(std::move(name)));
        row.name_source = names_.back()->c_str();
      }
      leaves_.push_back(row);
    });
    for (int const l : from_->binding.reshaped) {
      for (Index time = 0; time < times_of_leaf(static_cast<std::size_t>(l)); ++time)
        reshaped_.push_back(place(l, time, false));
    }
    std::size_t const seed = from_->first_output_gradient(), buffer = from_->first_buffer(),
                      derived = from_->first_derived();
    for (std::size_t s = seed; s < buffer; ++s) shapes_.push_back(from_->shapes[s - seed]);
    each_place(buffer, derived, [&](std::size_t v, Index, bool) {
      shapes_.push_back(from_->shapes[v - seed]);
      buffers_.push_back(from_->buffers[v - buffer]);
    });
    each_place(derived, from_->values(), [&](std::size_t v, Index time, bool again) {
      shapes_.push_back(from_->shapes[v - seed]);
      int const source = from_->sources[v - derived];
      sources_.push_back(source < 0 ? source : place(source, time, again));
      derived_of_.push_back(v - derived);
    });
    // A value that came in may be a view that a later value of the tables is.
    std::vector<bool> made(sources_.size(), false);
    for (std::size_t i = 0; i < sources_.size(); ++i) order_derived(i, made);
    for (int const root : from_->roots) {
      int const r = repeat_of(root);
      for (Index time = 0; time < (r == not_repeated ? 1 : times(r)); ++time)
        roots_.push_back(place(root, time, false));
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

  program_table const* from_;
  std::vector<Index> times_;
  std::vector<part> parts_;
  std::vector<int> repeat_, call_repeat_;  // of each value but derived ones, and of each call
  std::vector<int> first_, again_;         // numbers of the first times of each value
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
/// A template, so that units with HEADMIX_COMPILED need not compile it (program/compiled.hpp).
using Unrolled = basic_unrolled<>;
#ifdef HEADMIX_COMPILED
extern template class basic_unrolled<>;
#endif

}  // namespace headmix::detail
