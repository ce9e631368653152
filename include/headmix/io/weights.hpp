#pragma once
// SPDX-License-Identifier: MIT
// Weights with the names and the layout of others, from safetensors files: a table says which tensor is which
// parameter.
//
//   load(m, "model.safetensors", {{"W_q W_k W_v", "qkv.weight"},     // one matrix for three, as torch.nn.Linear has it
//                                 {"W_o", "proj.weight"},
//                                 {"b_o", "proj.bias"}});
//
// Tables of published models: io/published.hpp.

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headmix/io/stored_tensor.hpp"

namespace headmix {

/// One row of TensorNames: a parameter and the tensor that holds it.
struct tensor_name {
  /// Which extent of the file's matrices comes first: that of the result, as in torch.nn.Linear, or that of the input,
  /// as here and in JAX. Makes no difference to a vector.
  enum order { out_in, in_out };
  /// What a tensor holds: the parameter, or one matrix of its stack, or one of its rows.
  enum piece { whole, matrix, row };

  /// A name; or several with spaces between them, whose columns the tensor holds side by side.
  std::string parameters;
  /// A name. A * in it stands for the number of the matrix or row; without it, all of these are the same tensor.
  std::string tensor;
  order extents = out_in;
  /// `whole` with a * in the name is `matrix`.
  piece holds = whole;
  /// The tensor holds so many groups, with an equal share of each parameter: queries, keys and values of a group.
  Index groups = 1;
};

/// Which tensor of a file is which parameter of a module. A row whose tensor the file lacks, or whose parameters the
/// module lacks, counts for nothing: a table may have rows for all variants of a model.
class TensorNames {
 public:
  TensorNames(std::initializer_list<tensor_name> rows) : rows_(rows) {}

  /// For tensors whose names begin with `prefix`; others are none of this module's.
  [[nodiscard]] TensorNames below(std::string prefix) const {
    TensorNames changed = *this;
    changed.prefix_ = std::move(prefix);
    return changed;
  }
  /// Tensors that are left alone: names, with spaces between them; * stands for anything.
  [[nodiscard]] TensorNames ignoring(std::string_view tensors) const {
    TensorNames changed = *this;
    changed.ignored_ += message(tensors, " ");
    return changed;
  }
  /// Parameters that stay what they are, since the file has none: names, with spaces between them.
  [[nodiscard]] TensorNames keeping(std::string_view parameters) const {
    TensorNames changed = *this;
    changed.kept_ += message(parameters, " ");
    return changed;
  }

  [[nodiscard]] std::vector<tensor_name> const& rows() const { return rows_; }
  [[nodiscard]] std::string const& prefix() const { return prefix_; }
  [[nodiscard]] std::string const& ignored() const { return ignored_; }
  [[nodiscard]] std::string const& kept() const { return kept_; }

 private:
  std::vector<tensor_name> rows_;
  std::string prefix_, ignored_, kept_;
};

namespace detail {

[[nodiscard]] inline std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    auto const end = (std::min)(text.find(' '), text.size());
    if (end > 0) all.push_back(text.substr(0, end));
    text.remove_prefix((std::min)(end + 1, text.size()));
  }
  return all;
}
/// Whether * in the pattern can stand for something that makes it `text`.
[[nodiscard]] inline bool matches(std::string_view pattern, std::string_view text) {
  auto const star = pattern.find('*');
  if (star == pattern.npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  for (std::size_t i = star; i <= text.size(); ++i) {
    if (matches(pattern.substr(star + 1), text.substr(i))) return true;
  }
  return false;
}
/// `shape` without extents of 1, which say nothing about where elements lie.
[[nodiscard]] inline std::vector<Index> squeezed(std::vector<Index> shape) {
  shape.erase(std::remove(shape.begin(), shape.end(), Index{1}), shape.end());
  return shape;
}

/// One load() by names. Made once for all modules.
class NamedLoading {
 public:
  NamedLoading(TensorMap const& tensors, std::string_view file, std::vector<stored_tensor> const& parameters,
               TensorNames const& names, load_options const& options)
      : tensors_(tensors), file_(file), names_(names), options_(options), parameters_(by_name(parameters)) {
    for (auto const& r : names_.rows()) add(r);
    for (auto const name : words(names_.kept())) kept_.insert(name);
    for (auto const& [name, p] : parameters_) check_source(*p);
    for (auto const& [name, t] : tensors_) check_used(name, t);
  }
  /// Reads every parameter; with `store`, also replaces it.
  void read(bool store) {
    std::vector<std::byte> numbers;
    for (auto const& s : sources_) {
      numbers.resize(s.parameter->bytes());
      read(s, numbers.data());
      if (store) s.parameter->replace(numbers.data());
    }
  }

 private:
  /// Where a parameter comes from: columns `first` .. of the `total` that a tensor has.
  struct source {
    stored_tensor const* parameter;
    tensor_name const* row;
    Index first, total;  // per group
  };

  [[nodiscard]] static tensor_name::piece piece_of(tensor_name const& r) {
    bool const numbered = r.tensor.find('*') != r.tensor.npos;
    return numbered && r.holds == tensor_name::whole ? tensor_name::matrix : r.holds;
  }
  [[nodiscard]] std::string tensor_of(tensor_name const& r, Index number) const {
    std::string name = names_.prefix() + r.tensor;
    auto const star = name.find('*', names_.prefix().size());
    if (star != name.npos) name.replace(star, 1, std::to_string(number));
    return name;
  }
  [[nodiscard]] std::string where(std::string_view tensor) const { return message(file_, ": ", shown(tensor)); }

  void add(tensor_name const& r) {
    if (r.groups < 1) fail(r.tensor, ": expected one group or more, found ", r.groups);
    if (tensors_.count(tensor_of(r, 0)) == 0) return;
    std::vector<stored_tensor const*> parts;
    std::string missing;
    for (auto const name : words(r.parameters)) {
      auto const p = parameters_.find(name);
      if (p == parameters_.end()) missing += message(missing.empty() ? "" : ", ", name);
      if (p != parameters_.end()) parts.push_back(p->second);
    }
    if (parts.empty()) return;
    auto const& a = *parts[0];
    Index total = 0;
    for (auto const* p : parts) {
      if (!missing.empty()) {
        fail(where(tensor_of(r, 0)), ": expected parameters ", r.parameters, ", found no ", missing, " in the module");
      }
      if (p->count != a.count || p->rows != a.rows) {
        fail(where(tensor_of(r, 0)), ": expected parameters that differ in their columns, found ", a.name, " ",
             type_text(a.type, a.shape()), " and ", p->name, " ", type_text(p->type, p->shape()));
      }
      if (p->cols % r.groups != 0) {
        fail(where(tensor_of(r, 0)), ": expected columns of ", p->name, " in ", r.groups, " equal groups, found ",
             p->cols);
      }
      sources_.push_back({p, &r, total, 0});
      total += p->cols / r.groups;
    }
    for (std::size_t i = sources_.size() - parts.size(); i < sources_.size(); ++i) sources_[i].total = total;
  }
  void check_source(stored_tensor const& p) const {
    tensor_name const* found = nullptr;
    for (auto const& s : sources_) {
      if (s.parameter != &p) continue;
      if (found != nullptr) {
        fail(file_, ": parameter ", p.name, ": expected one tensor, found ", shown(tensor_of(*found, 0)), " and ",
             shown(tensor_of(*s.row, 0)));
      }
      found = s.row;
    }
    bool const kept = kept_.count(p.name) > 0;
    if (found != nullptr && kept) {
      fail(file_, ": parameter ", p.name, ": expected no tensor, since it is kept, found ",
           shown(tensor_of(*found, 0)));
    }
    if (found != nullptr || kept) return;
    std::string expected;
    for (auto const& r : names_.rows()) {
      auto const names = words(r.parameters);
      if (std::find(names.begin(), names.end(), p.name) == names.end()) continue;
      expected += message(expected.empty() ? " " : " or ", shown(tensor_of(r, 0)));
    }
    if (expected.empty()) expected = " in the table of names";
    fail(file_, ": parameter ", p.name, " ", type_text(p.type, p.shape()), ": expected tensor", expected,
         ", found none");
  }
  /// Every tensor of a piece that a source reads is used.
  void check_used(std::string const& name, tensor_view const& t) const {
    if (!name.starts_with(names_.prefix())) return;
    for (auto const& s : sources_) {
      auto const piece = piece_of(*s.row);
      Index const n = pieces(*s.parameter, piece);
      for (Index i = 0; i < n; ++i) {
        if (tensor_of(*s.row, i) == name) return;
      }
    }
    std::string_view const own = std::string_view(name).substr(names_.prefix().size());
    for (auto const pattern : words(names_.ignored())) {
      if (matches(pattern, own)) return;
    }
    std::string belongs;
    for (auto const& r : names_.rows()) {
      if (matches(r.tensor, own)) belongs = message(", which is for ", r.parameters);
    }
    fail(where(name), belongs, ": expected a tensor that the module needs, or one that is ignored, found ",
         type_text(t.type, t.shape));
  }

  [[nodiscard]] static Index pieces(stored_tensor const& p, tensor_name::piece piece) {
    return piece == tensor_name::whole ? 1 : piece == tensor_name::matrix ? p.count : p.count * p.rows;
  }
  void read(source const& s, std::byte* numbers) const {
    auto const& p = *s.parameter;
    auto const& r = *s.row;
    auto const piece = piece_of(r);
    // A piece is `count` matrices [rows, cols], of which the tensor has `width` columns.
    Index const count = piece == tensor_name::whole ? p.count : 1, rows = piece == tensor_name::row ? 1 : p.rows;
    Index const width = s.total * r.groups, share = p.cols / r.groups;
    bool const transposed = r.extents == tensor_name::out_in;
    std::vector<Index> const expected = {count, transposed ? width : rows, transposed ? rows : width};
    std::vector<Index> columns = counted_from_zero(p.cols);
    for (Index& j : columns) {
      j = j / share * s.total + s.first + j % share;
      if (transposed) j *= rows;
    }
    for (Index i = 0; i < pieces(p, piece); ++i) {
      std::string const name = tensor_of(r, i);
      auto const found = tensors_.find(name);
      std::string const at = where(name) + " for " + r.parameters;
      std::size_t const leading = count > 1 ? 0 : rows > 1 ? 1 : 2;
      // A vector has no order of extents.
      std::span<Index const> const shape = leading == 2 ? std::span(&width, 1) : std::span(expected).subspan(leading);
      if (found == tensors_.end()) fail(at, ": expected ", type_text(p.type, shape), ", found no such tensor");
      tensor_view const& t = found->second;
      if (!is_floating_point(t.type)) {
        fail(at, ": expected F64, F32, BF16 or F16, found ", type_text(t.type, t.shape));
      }
      if (squeezed(t.shape) != squeezed(expected)) {
        fail(at, ": expected ", type_text(t.type, shape), ", found ", type_text(t.type, t.shape));
      }
      for (Index e = 0; e < count; ++e) {
        element_order const order{e * rows * width, rows, transposed ? 1 : width, columns};
        read_elements(numbers, p.type, t, order, at, options_);
        numbers += rows * p.cols * info_of(p.type).size;
      }
    }
  }

  TensorMap const& tensors_;
  std::string file_;
  TensorNames const& names_;
  load_options options_;
  stored_by_name parameters_;
  std::vector<source> sources_;
  std::set<std::string_view> kept_;
};

}  // namespace detail

/// Fills the parameters of a module from tensors with other names, orders of extents, and floating-point types, which
/// are rounded to that of the module (from F64 to BF16 by way of F32). Every parameter comes from one tensor, unless
/// `names` keeps it; every tensor below the names' prefix is used or ignored. Everything is checked first: after an
/// error, which names the tensor, what was expected and what was found, nothing has changed. NaN, infinities, and
/// numbers beyond the module's type are errors unless the options allow them.
/// @param file what errors call the tensors' file
template <HasParameters M>
void load(M& module, TensorMap const& tensors, std::string_view file, TensorNames const& names,
          load_options const& options = {}) {
  auto const parameters = detail::stored_parameters(module);
  detail::NamedLoading loading(tensors, file, parameters, names, options);
  loading.read(false);
  loading.read(true);
  if constexpr (requires { module.parameters_changed(); }) module.parameters_changed();
}
template <HasParameters M>
void load(M& module, Safetensors const& file, TensorNames const& names, load_options const& options = {}) {
  load(module, file.tensors(), file.name(), names, options);
}
template <HasParameters M>
void load(M& module, std::string const& path, TensorNames const& names, load_options const& options = {}) {
  load(module, Safetensors::read(path), names, options);
}

}  // namespace headmix
