#pragma once
// SPDX-License-Identifier: MIT
// A case to replay: options and tensors of a file, taken one by one. A missing, unexpected or untaken one is an error
// that names it.

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "headmix/io/safetensors.hpp"

namespace replay {

using headmix::Index;
using Shape = std::vector<Index>;

class Case {
 public:
  explicit Case(std::string const& path) : file_(headmix::Safetensors::read(path)), path_(path) {}

  /// An option with one of `values`, by default the first.
  std::string_view choice(std::string_view name, std::vector<std::string_view> const& values);
  /// A required option with one of `values`.
  std::string_view require(std::string_view name, std::vector<std::string_view> const& values);
  /// A whole number in [low, high].
  Index count(std::string_view name, Index low, Index high, std::optional<Index> fallback = {});
  /// A finite number, by default `fallback`.
  double number(std::string_view name, double fallback);

  /// The option for the mean's positions, `all`, `prefix` or `window:N`: their number, 0 for all.
  Index pool(std::string_view name);

  [[nodiscard]] bool has(std::string_view tensor) const { return file_.tensors().contains(tensor); }
  /// The dtype of a required tensor: F64 or F32.
  [[nodiscard]] headmix::dtype float_type(std::string_view tensor) const;
  /// The extents of a required tensor, each at least 1; `names` names them, e.g. "B, T, d".
  [[nodiscard]] Shape extents(std::string_view tensor, std::size_t rank, char const* names) const;
  /// The elements of a required tensor.
  template <class T>
  std::vector<T> take(std::string_view tensor, Shape const& shape) {
    check(tensor, headmix::dtype_of<T>, shape);
    return file_.values<T>(tensor);
  }
  /// A mask of zeros and ones, by default ones.
  std::vector<std::uint8_t> take_mask(std::string_view tensor, Shape const& shape);

  /// `rows` numbers, each one of `choices`.
  std::vector<headmix::Int> take_choices(std::string_view tensor, Index rows, Index choices);

  /// Fails for an option or tensor that was not taken.
  void finish() const;
  /// Fails with the name of an option or tensor, the expected and the found value.
  [[noreturn]] void reject(std::string_view name, std::string_view expected, std::string_view found) const;

 private:
  /// Null if the case has no such option.
  std::string const* option(std::string_view name);
  void check(std::string_view tensor, headmix::dtype type, Shape const& shape);

  headmix::Safetensors file_;
  std::string path_;
  std::set<std::string, std::less<>> taken_options_, taken_tensors_;
};

/// The resulting tensors of a replay.
class Result {
 public:
  template <class T>
  void add(std::string const& name, Shape shape, std::vector<T> const& elements) {
    auto const bytes = std::as_bytes(std::span(elements));
    auto const& copy = memory_.emplace_back(bytes.begin(), bytes.end());
    tensors_.insert_or_assign(name, headmix::tensor_view{headmix::dtype_of<T>, std::move(shape), copy});
  }
  void write(std::string const& path) const { headmix::write_safetensors(path, tensors_); }

 private:
  std::vector<std::vector<std::byte>> memory_;
  headmix::TensorMap tensors_;
};

/// A tensor [count, rows, cols] of the case with its gradient. If the case lacks it, `present` is false, the tensor is
/// zero, and its gradient is not written.
template <class T>
struct Tensor {
  std::string name;
  Shape shape;
  bool present = true;
  std::vector<T> value, gradient;

  Tensor(Case& c, std::string n, Shape s) : name(std::move(n)), shape(std::move(s)), value(c.take<T>(name, shape)) {}
  static Tensor optional(Case& c, std::string n, Shape s) { return c.has(n) ? Tensor(c, n, s) : absent(n, s); }
  static Tensor absent(std::string n, Shape s) { return {std::move(n), std::move(s)}; }

  void give_back(Result& result) const {
    if (present) result.add("d." + name, shape, gradient);
  }

 private:
  Tensor(std::string n, Shape s) : name(std::move(n)), shape(std::move(s)), present(false) {
    std::size_t size = 1;
    for (Index const e : shape) size *= static_cast<std::size_t>(e);
    value.resize(size);
  }
};

// The backends: On::backend<T>, over numbers of type T. Each is compiled in its own files.
struct on_cpu;
struct on_cuda;
struct on_emulated;

/// Replays one layer.
template <class T, class On>
void replay_moa(Case& c, Result& result);
template <class T, class On>
void replay_moh(Case& c, Result& result);
template <class T, class On>
void replay_mae(Case& c, Result& result);
template <class T, class On>
void replay_mh_moe(Case& c, Result& result);

}  // namespace replay
