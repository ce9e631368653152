#pragma once
// SPDX-License-Identifier: MIT
// The saved and loaded tensors of a module or an optimiser: named tensors in the memory of a backend. Compiled once for
// all modules.

#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/io/elements.hpp"
#include "headmix/program/parameter.hpp"

namespace headmix {

/// Strictness of loading.
struct load_options {
  bool convert = false;           ///< round other floating-point types to the module's type
  bool allow_non_finite = false;  ///< accept NaN and infinities
};

/// A class with parameters in the memory of a backend: a Module, or a class of yours with these two functions. Names
/// are unique. A class that draws random numbers also has seed(), passes() and continue_from() like a Module.
template <class M>
concept HasParameters = requires(M const& m) {
  m.parameters().begin()->value.data;
  m.parameters().begin()->name;
  m.backend();
};

namespace detail {

/// A tensor in the memory of a backend, with its name in a file.
struct stored_tensor {
  std::string name, whose;  ///< `whose`: for messages
  dtype type;
  Index count, rows, cols;
  std::byte const* host;                          ///< null if the host cannot read it
  std::function<void(std::byte*)> download;       ///< copies the whole tensor to the host
  std::function<void(std::byte const*)> replace;  ///< overwrites the tensor by host numbers of its type
  tensor_part part = {};

  [[nodiscard]] std::size_t bytes() const {
    return checked_bytes(checked(count) * rows * cols, static_cast<std::size_t>(info_of(type).size));
  }
  /// Extents of the tensor of which this may be a part.
  [[nodiscard]] std::array<Index, 3> whole() const {
    return part.divided ? part.whole : std::array<Index, 3>{count, rows, cols};
  }
  /// [count, rows, cols] of the whole, without leading extents of 1 before the last two, or before the last one.
  [[nodiscard]] std::vector<Index> shape() const {
    auto const [n, r, c] = whole();
    if (n > 1) return {n, r, c};
    if (r > 1) return {r, c};
    return {c};
  }
};

template <class Backend, class T>
[[nodiscard]] stored_tensor stored(Backend const& backend, std::string name, std::string whose, view<T> const& v,
                                   tensor_part const& part = {}) {
  if (!v.contiguous()) fail(name, ": expected contiguous numbers, found gaps or a transpose");
  auto const n = static_cast<std::size_t>(v.size());
  stored_tensor t{std::move(name), std::move(whose), dtype_of<T>, v.count, v.rows, v.cols, nullptr, {}, {}, part};
  if constexpr (Backend::host_memory) t.host = reinterpret_cast<std::byte const*>(v.data);
  t.download = [&backend, data = v.data, n](std::byte* to) {
    headmix::download(backend, reinterpret_cast<T*>(to), data, n);
  };
  t.replace = [&backend, data = v.data, n](std::byte const* from) {
    headmix::upload(backend, data, reinterpret_cast<T const*>(from), n);
  };
  return t;
}
/// A stored tensor in host memory.
struct host_only {
  static constexpr bool host_memory = true;
};
inline constexpr host_only on_host{};

/// Parameters and buffers.
template <class M>
[[nodiscard]] std::vector<stored_tensor> stored_parameters(M const& m) {
  if constexpr (requires { m.packed_parameters(); }) {
    for (auto const& p : m.packed_parameters())
      fail(p.name, " is packed: save and load the module that was trained, then copy_parameters() to this one");
  }
  std::vector<stored_tensor> all;
  for (auto const& p : with_buffers(m)) {
    std::string whose(p.qualified.empty() ? std::string_view("a parameter") : p.qualified);
    all.push_back(stored(m.backend(), std::string(p.name), std::move(whose), p.value, p.part));
  }
  return all;
}

/// Tensors by their unique names in the file.
using stored_by_name = std::map<std::string_view, stored_tensor const*>;
[[nodiscard]] inline stored_by_name by_name(std::vector<stored_tensor> const& tensors) {
  stored_by_name found;
  for (auto const& t : tensors) {
    auto const [at, is_new] = found.emplace(t.name, &t);
    if (!is_new) {
      fail(t.name, " is the name of two tensors: ", at->second->whose, " and ", t.whose,
           "; give the leaves names of their own, `static constexpr char const* name = \"...\"`");
    }
  }
  return found;
}

/// The numbers 0 .. n - 1.
[[nodiscard]] inline std::vector<Index> counted_from_zero(Index n) {
  std::vector<Index> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

/// Converts numbers of a file's tensor to `to_type`; a non-finite number is an error that names it.
inline void read_elements(std::byte* to, dtype to_type, tensor_view const& from, element_order const& order,
                          std::string const& where, load_options const& options) {
  Index const bad = copy_elements(to, to_type, from, order);
  if (bad < 0 || options.allow_non_finite) return;
  auto const cols = static_cast<Index>(order.column.size());
  Index const at = order.first + bad / cols * order.row_stride + order.column[static_cast<std::size_t>(bad % cols)];
  fail(where, ": element ", at, ": expected a finite number in the range of ", name_of(to_type), ", found ",
       element_text(from, at));
}

/// A batch of reads from a file's tensors to tensors in memory: all are checked, and all memory is allocated, before
/// the first is executed, so an error changes nothing. It refers to the tensors.
class TensorReads {
 public:
  explicit TensorReads(load_options const& options) : options_(options) {}

  /// Starts the reads of tensor `to`, whose rows consist of these columns.
  void begin(stored_tensor const& to, std::vector<Index> columns) {
    targets_.push_back({&to, std::move(columns), reads_.size()});
    if (numbers_.size() < to.bytes()) numbers_.resize(to.bytes());
  }
  /// Adds `rows` rows to byte `offset` of the tensor, from element `first` on, `row_stride` elements apart.
  /// @param where  place for messages
  void add(std::size_t offset, tensor_view const& from, Index first, Index rows, Index row_stride,
           std::string const& where) {
    auto const& t = targets_.back();
    element_order const order{first, rows, row_stride, t.columns};
    read_elements(numbers_.data() + offset, t.to->type, from, order, where, options_);
    reads_.push_back({offset, &from, order});
  }
  /// Executes the reads. Nothing allocates, so only copies to a device can fail.
  void store() {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      auto const& to = *targets_[i].to;
      std::size_t const end = i + 1 < targets_.size() ? targets_[i + 1].first_read : reads_.size();
      for (std::size_t r = targets_[i].first_read; r < end; ++r) {
        static_cast<void>(copy_elements(numbers_.data() + reads_[r].offset, to.type, *reads_[r].from, reads_[r].order));
      }
      to.replace(numbers_.data());
    }
  }

 private:
  struct target {
    stored_tensor const* to;
    std::vector<Index> columns;
    std::size_t first_read;
  };
  struct read {
    std::size_t offset;
    tensor_view const* from;
    element_order order;
  };
  load_options options_;
  std::vector<target> targets_;
  std::vector<read> reads_;
  std::vector<std::byte> numbers_;  // of one tensor
};

}  // namespace detail
}  // namespace headmix
