#pragma once
// SPDX-License-Identifier: MIT
// Where the values of a program lie: every buffer lives from the call that writes it to the last call that reads it,
// and gets memory that no other living buffer has. What a backward pass reads of the forward pass lies first.

#include <algorithm>
#include <utility>

#include "headmix/core/arena.hpp"
#include "headmix/program/run/binding.hpp"

namespace headmix {

/// What a forward pass does with the memory that a result is bound to.
enum class result_write {
  overwrite,  ///< y = ...
  add,        ///< y += ..., e.g. a residual connection
};

namespace detail {

/// Memory of the caller for the result of a program.
struct bound_result {
  untyped_view memory;  ///< without data for none
  result_write write;
  bool reshaped;                           ///< the result is the buffer with other rows and columns
  shape_formula const* extents = nullptr;  ///< of the result
};

/// Where the values of a program that are not leaves lie in its workspace.
class Plan {
 public:
  /// The memory of a value of the program.
  struct buffer {
    std::size_t writer = 0, last = 0;  ///< the first and the last call that use it; their number for none, and for ever
    std::size_t offset = 0, bytes = 0;
    bool used = false, laid_out = false;
    bool outside = false;   ///< memory of the caller
    std::size_t first = 0;  ///< number of the first buffer in this memory, of those that took it over from each other
    bool kept = false;      ///< of the first buffer: one of them is a root, or made by one pass and read by the other
  };

  explicit Plan(program_table const& table);

  /// Gives the values that have no memory yet their extents.
  void shape_values(Binding& binding) const;
  /// Gives the values with this size the extents that follow from it now. What they are is known: the first call lists
  /// them.
  void reshape_values(Binding& binding, int size);
  /// Bytes of scratch memory that call c needs.
  void set_scratch(std::size_t c, std::size_t bytes) { scratch_[c].bytes = bytes; }
  /// Lays out the buffers and the scratch memory of the calls; the bytes of the latter are known.
  void lay_out(std::span<untyped_view const> values);
  /// Bytes of the workspace.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Bytes of the kept part of the workspace, its beginning, which lives from the forward pass to the backward pass.
  [[nodiscard]] std::size_t kept_bytes() const { return kept_bytes_; }
  /// Fails if a leaf lies in the workspace.
  void check_outside(Binding const& binding) const {
    binding.check_outside(workspace_);
    binding.check_outside(rest_);
  }
  /// @param rest  what lies behind the kept bytes; empty if that is in `memory`
  void set_workspace(std::span<std::byte> memory, std::span<std::byte> rest, State& state);
  /// The number of losses with a gradient.
  [[nodiscard]] std::size_t losses() const;
  /// True if the backward pass reads the result.
  [[nodiscard]] bool backward_reads_result() const {
    return reads_from(program_->forward_calls, base_of(program_->roots[0]));
  }
  void place(std::span<untyped_view> values) const;
  /// Gives the result memory of the caller, or memory in the workspace.
  void bind_result(bound_result const& r, State& state);
  /// Fails if the result lies in memory that the program reads or writes otherwise.
  void check_result(Binding const& binding) const;
  /// True if the call adds to the bound result.
  [[nodiscard]] bool adds_to_result(std::size_t c) const {
    return result_.write == result_write::add && has_result() && result_buffer().writer == c;
  }
  /// True if backward passes add to the gradient of a leaf.
  [[nodiscard]] bool has_gradient(std::size_t leaf) const;
  /// The gradient that arrives at the result; the other output gradients are the weights of the losses.
  void check_output_gradients(untyped_view const& result, untyped_view const& dy, std::size_t weights) const;
  /// Memory of the output gradients of n losses, which are numbers, from the first one given on.
  template <class T>
  [[nodiscard]] view<T> weights(std::size_t first, std::size_t n) const {
    return {reinterpret_cast<T*>(at(weights_)) + first, 1, static_cast<Index>(n)};
  }
  [[nodiscard]] std::span<int const> values_of_call(std::size_t c) const {
    call_row const& row = program_->calls[c];
    return program_->numbers.subspan(static_cast<std::size_t>(row.begin), static_cast<std::size_t>(row.values));
  }
  /// The memory of value n, if that is a buffer.
  [[nodiscard]] std::span<std::byte const> memory_of(int n) const;
  [[nodiscard]] std::span<std::byte> scratch_of(std::size_t c) const {
    return scratch_[c].bytes == 0 ? std::span<std::byte>() : std::span(at(scratch_[c].offset), scratch_[c].bytes);
  }
  /// Bytes of scratch memory that call c has, once a pass is planned.
  [[nodiscard]] std::size_t scratch_bytes(std::size_t c) const { return scratch_[c].bytes; }
  /// The buffers, in the order of the table; where they lie is known once a pass is planned.
  [[nodiscard]] std::span<buffer const> buffers() const { return buffers_; }

 private:
  void find_lifetimes();
  /// Finds the bytes of all buffers, and which memory is kept.
  void find_kept(std::span<untyped_view const> values);
  [[nodiscard]] bool is_kept(buffer const& b) const { return buffers_[b.first].kept; }
  /// The address of an offset.
  [[nodiscard]] std::byte* at(std::size_t offset) const {
    return rest_.empty() || offset < kept_bytes_ ? workspace_.data() + offset : rest_.data() + (offset - kept_bytes_);
  }
  [[nodiscard]] std::size_t number_of(buffer const& b) const { return static_cast<std::size_t>(&b - buffers_.data()); }
  /// The buffer whose memory buffer i, which call c writes, takes over; null if there is none. Nothing else that the
  /// call reads may lie there.
  [[nodiscard]] buffer const* place_of(std::size_t c, std::size_t i) const;
  /// The buffer that lies below value n, if one does and its elements are read.
  [[nodiscard]] buffer const* buffer_below(int n) const;
  [[nodiscard]] buffer* buffer_below(int n) { return const_cast<buffer*>(std::as_const(*this).buffer_below(n)); }

  [[nodiscard]] bool has_result() const { return result_.memory.data != nullptr; }
  [[nodiscard]] buffer const& result_buffer() const { return *buffer_below(program_->roots[0]); }
  void shape_result(Binding& binding) const;
  /// The leaf or buffer whose memory operand n of a call is; extents alone are none, -1.
  [[nodiscard]] int base_of(int n) const;
  /// True if a call from c on, or one that runs beside others, reads value n.
  [[nodiscard]] bool reads_from(std::size_t c, int n) const;

  /// The shapes of buffers that a size is mentioned in.
  std::vector<std::size_t>& values_of_size(int size);

  struct call_memory {
    std::size_t offset = 0, bytes = 0;
  };
  struct resized {
    int size;
    std::vector<std::size_t> values;
  };
  program_table const* program_;
  std::vector<resized> resized_;
  std::vector<call_memory> scratch_;  // of every call
  std::size_t weights_ = 0;           // where those of the losses begin
  std::size_t bytes_ = 0, kept_bytes_ = 0;
  std::vector<buffer> buffers_;
  std::vector<AddressPlanner::block> living_;
  std::span<std::byte> workspace_, rest_;
  bound_result result_ = {{}, result_write::overwrite, false};
};

}  // namespace detail
}  // namespace headmix

#include "headmix/program/run/plan.ipp"
