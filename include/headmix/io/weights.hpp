#pragma once
// SPDX-License-Identifier: MIT
// Weights with foreign names and layouts, from safetensors files, by a table from tensors to parameters.
//
//   load(m, "model.safetensors", {{"W_q W_k W_v", "qkv.weight"},     // one matrix for three, as torch.nn.Linear has it
//                                 {"W_o", "proj.weight"},
//                                 {"b_o", "proj.bias"}});
//
// Tables of published models: io/published.hpp.

#include <algorithm>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headmix/io/stored_tensor.hpp"
#include "headmix/io/tensor_files.hpp"

namespace headmix {

/// A row of TensorNames: a parameter and the tensor that holds it.
struct tensor_name {
  /// Order of the extents of the file's matrices: output first, as in torch.nn.Linear, or input first, as here and in
  /// JAX. Irrelevant for vectors.
  enum order : int { out_in, in_out };
  /// Content of a tensor: the parameter, or one matrix of its stack, or one of its rows.
  enum piece : int { whole, matrix, row };

  /// A name; or several separated by spaces, whose columns are side by side in the tensor.
  std::string parameters;
  /// A name. A * is the number of the matrix or row; without it, all of them are in one tensor.
  std::string tensor;
  order extents = out_in;
  /// `whole` with a * in the name means `matrix`.
  piece holds = whole;
  /// Number of groups in the tensor, each with an equal share of each parameter: queries, keys and values of a group.
  Index groups = 1;
};

namespace detail {
class NamedTensors;
}

/// A table from tensors of a file to parameters of a module. A row whose tensor the file lacks, or whose parameters the
/// module lacks, is ignored: a table may have rows for all variants of a model. A network's table is the sum of those
/// of its layers, and in below() and into() a star is the number of a block: below("model.layers.*.self_attn.") and
/// into("blocks.*.attn").
class TensorNames {
 public:
  /// A table of rows; every tensor and every parameter must be in one of them.
  TensorNames(std::initializer_list<tensor_name> rows) : TensorNames(std::vector<tensor_name>(rows)) {}
  /// A table that is made when the program runs.
  explicit TensorNames(std::vector<tensor_name> rows) : parts_(1) { parts_[0].rows = std::move(rows); }

  /// The table for tensors with names that begin with `prefix`. A star in it is the number of a block.
  [[nodiscard]] TensorNames below(std::string const& prefix) const {
    TensorNames changed = *this;
    for (auto& p : changed.parts_) p.below.insert(0, prefix);
    return changed;
  }
  /// The table for the parameters of a layer in a network: the names of parameters begin with `name`, and a dot. A star
  /// in it is the number of a repeated block; block i of the module is block i + `first` of the file.
  [[nodiscard]] TensorNames into(std::string name, Index first = 0) const {
    TensorNames changed = *this;
    if (!name.empty() && name.back() != '.') name += '.';
    for (auto& p : changed.parts_) p.into.insert(0, name), p.first += first;
    return changed;
  }
  /// Tensors without a parameter: names separated by spaces; * matches anything.
  [[nodiscard]] TensorNames ignoring(std::string_view tensors) const {
    TensorNames changed = *this;
    for (auto& p : changed.parts_) p.ignored += message(tensors, " ");
    return changed;
  }
  /// Parameters that keep their values, since the file lacks them: names separated by spaces; * matches anything.
  [[nodiscard]] TensorNames keeping(std::string_view parameters) const {
    TensorNames changed = *this;
    for (auto& p : changed.parts_) p.kept += message(parameters, " ");
    return changed;
  }
  /// The rows of both tables.
  [[nodiscard]] friend TensorNames operator+(TensorNames a, TensorNames const& b) {
    a.parts_.insert(a.parts_.end(), b.parts_.begin(), b.parts_.end());
    return a;
  }

 private:
  friend class detail::NamedTensors;
  struct part {
    std::vector<tensor_name> rows;
    std::string below, into, ignored, kept;
    Index first = 0;
  };
  std::vector<part> parts_;
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
/// True if the pattern matches `text`, each * matching any text. Text between two * is matched at its first occurrence,
/// which leaves most for the rest: the cost is bounded by the product of the lengths.
[[nodiscard]] inline bool matches(std::string_view pattern, std::string_view text) {
  auto star = pattern.find('*');
  if (star == pattern.npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (star = pattern.find('*'); star != pattern.npos; star = pattern.find('*')) {
    auto const at = text.find(pattern.substr(0, star));
    if (at == text.npos) return false;
    text.remove_prefix(at + star);
    pattern.remove_prefix(star + 1);
  }
  return text.ends_with(pattern);
}
/// `shape` without extents of 1, which do not affect the order of elements.
[[nodiscard]] inline std::vector<Index> squeezed(std::vector<Index> shape) {
  shape.erase(std::remove(shape.begin(), shape.end(), Index{1}), shape.end());
  return shape;
}

/// True if a tensor of this shape has the elements of one of the shape `written`, in order: extents of 1 do not matter,
/// and the kernel of a convolution, [out, in, height, width], is a matrix [out, in height width] of patches.
[[nodiscard]] inline bool holds_elements_of(std::vector<Index> const& shape, std::vector<Index> const& written) {
  if (squeezed(shape) == squeezed(written)) return true;
  if (shape.size() != 4) return false;
  auto const values = checked(shape[1]) * shape[2] * shape[3];
  return squeezed({shape[0], values.value}) == squeezed(written);
}

/// The parameters of a module as tensors with the names of a table. Compiled once for all modules.
class NamedTensors {
 public:
  NamedTensors(std::vector<stored_tensor> const& parameters, TensorNames const& names, std::string_view file)
      : names_(names), file_(file), parameters_(by_name(parameters)) {
    for (auto const& part : names.parts_) add_rows(part);
  }

  /// Matches parameters and tensors; unmatched ones are an error.
  void find(TensorMap const& tensors) {
    for (auto const& r : rows_) {
      if (tensors.count(tensor_of(r, 0)) > 0) add(r);
    }
    for (auto const& [name, p] : parameters_) check_source(*p, &tensors);
    std::set<std::string> used;
    for (auto const& s : sources_) {
      for (Index i = 0; i < pieces_of(s); ++i) used.insert(tensor_of(*s.from, i));
    }
    for (auto const& [name, t] : tensors) {
      if (used.count(name) == 0) check_ignored(name, t);
    }
  }
  /// Matches each parameter with its first row, for writing.
  void find() {
    std::set<std::string_view> named;
    for (auto const& r : rows_) {
      auto const parts = words(r.parameters);
      auto const is_named = [&](std::string_view p) { return named.count(p) > 0; };
      if (std::any_of(parts.begin(), parts.end(), is_named)) continue;
      add(r);
      named.insert(parts.begin(), parts.end());
    }
    for (auto const& [name, p] : parameters_) check_source(*p);
  }
  /// Checks the tensors of all parameters; store() of the result copies them.
  [[nodiscard]] TensorReads reads(TensorMap const& tensors, load_options const& options) const {
    TensorReads all(options);
    for (auto const& s : sources_) {
      bool begun = false;
      for_each_piece(s, [&](piece const& p) {
        if (!std::exchange(begun, true)) all.begin(*s.parameter, p.columns);
        auto const found = tensors.find(p.tensor);
        std::string const at = where(p.tensor) + " for " + s.from->parameters;
        if (found == tensors.end()) {
          fail(at, ": expected ", type_text(s.parameter->type, p.written), ", found no such tensor");
        }
        tensor_view const& t = found->second;
        if (!is_floating_point(t.type)) {
          fail(at, ": expected F64, F32, BF16 or F16, found ", type_text(t.type, t.shape));
        }
        if (!holds_elements_of(t.shape, p.written)) {
          fail(at, ": expected ", type_text(t.type, p.written), ", found ", type_text(t.type, t.shape));
        }
        for (Index e = 0; e < p.count; ++e) {
          auto const m = p.matrix(e);
          all.add(static_cast<std::size_t>(p.offset + e * p.matrix_bytes), t, m.first, m.rows, m.row_stride, at);
        }
      });
    }
    return all;
  }
  /// Writes the tensors to a file, in the module's type.
  void write(std::string const& path) const {
    std::map<std::string, std::vector<std::byte>> numbers;
    TensorMap tensors;
    std::vector<std::byte> from;
    for (auto const& s : sources_) {
      auto const type = s.parameter->type;
      auto const size = static_cast<std::size_t>(info_of(type).size);
      from.resize(s.parameter->bytes());
      s.parameter->download(from.data());
      std::set<std::string> written;
      for_each_piece(s, [&](piece const& p) {
        auto const at = numbers.try_emplace(p.tensor, static_cast<std::size_t>(p.size) * size).first;
        std::byte const* next = from.data() + p.offset;
        bool const again = !written.insert(p.tensor).second;  // one tensor for several pieces
        for (Index e = 0; e < p.count; ++e) {
          auto const m = p.matrix(e);
          for (Index i = 0; i < m.rows; ++i) {
            for (Index const j : m.column) {
              auto* const to = at->second.data() + static_cast<std::size_t>(m.first + i * m.row_stride + j) * size;
              if (again && std::memcmp(to, next, size) != 0) {
                fail(where(p.tensor), ": expected pieces of ", s.parameter->name, " that are equal, found others");
              }
              std::memcpy(to, next, size);
              next += size;
            }
          }
        }
        tensors[p.tensor] = {type, p.written, at->second};
      });
    }
    write_safetensors(path, tensors, {{"format", "pt"}});
  }

 private:
  /// A row with the whole names of its parameters.
  struct row : tensor_name {
    std::string prefix;  ///< of the tensor's name
  };
  /// The columns of a parameter: from `first` on in the `total` columns that a tensor has in each group.
  struct source {
    stored_tensor const* parameter;
    row const* from;
    Index first, total;
  };
  /// A tensor that holds a parameter, or a matrix or row of it.
  struct piece {
    std::string tensor;
    Index number, count, rows, size, row_stride;  // `count` matrices; `size` elements of the tensor
    std::vector<Index> written;                   // shape of the tensor
    std::vector<Index> columns;                   // columns in the tensor
    Index offset, matrix_bytes;                   // in the parameter

    [[nodiscard]] element_order matrix(Index e) const { return {e * (size / count), rows, row_stride, columns}; }
  };

  [[nodiscard]] static tensor_name::piece held(tensor_name const& r) {
    bool const numbered = r.tensor.find('*') != r.tensor.npos;
    return numbered && r.holds == tensor_name::whole ? tensor_name::matrix : r.holds;
  }
  [[nodiscard]] static Index pieces_of(source const& s) {
    auto const& p = *s.parameter;
    auto const holds = held(*s.from);
    return holds == tensor_name::whole ? 1 : holds == tensor_name::matrix ? p.count : p.count * p.rows;
  }
  [[nodiscard]] static std::string numbered(std::string name, Index number, std::size_t from = 0) {
    auto const star = name.find('*', from);
    if (star != name.npos) name.replace(star, 1, std::to_string(number));
    return name;
  }
  [[nodiscard]] static std::string tensor_of(row const& r, Index number) {
    return numbered(r.prefix + r.tensor, number, r.prefix.size());
  }
  /// The rows of a part of the table, for every block that the module has.
  void add_rows(TensorNames::part const& part) {
    auto const star = part.into.find('*');
    if ((star != part.into.npos) != (part.below.find('*') != part.below.npos)) {
      fail("TensorNames: expected a * for the number of a block in both of below(", shown(part.below), ") and into(",
           shown(part.into), "), found one");
    }
    std::set<Index> blocks = {0};
    if (star != part.into.npos) {
      blocks.clear();
      std::string_view const before = std::string_view(part.into).substr(0, star),
                             behind = std::string_view(part.into).substr(star + 1);
      for (auto const& [name, p] : parameters_) {
        if (!name.starts_with(before)) continue;
        auto const digits = name.substr(before.size());
        auto const n = (std::min)(digits.find_first_not_of("0123456789"), digits.size());
        if (n > 0 && n < 10 && digits.substr(n).starts_with(behind))
          blocks.insert(std::stol(std::string(digits, 0, n)));
      }
    }
    for (Index const block : blocks) {
      for (auto const& r : part.rows) {
        row& added = rows_.emplace_back(row{r, numbered(part.below, block + part.first)});
        added.parameters.clear();
        for (auto const name : words(r.parameters)) {
          added.parameters += message(added.parameters.empty() ? "" : " ", numbered(part.into, block), name);
        }
      }
    }
  }
  [[nodiscard]] std::string where(std::string_view tensor) const { return message(file_, ": ", shown(tensor)); }

  /// Matches the row's parameters, if the module has any of them, with its tensor.
  void add(row const& r) {
    if (r.groups < 1) fail(r.tensor, ": expected one group or more, found ", r.groups);
    if (r.extents != tensor_name::out_in && r.extents != tensor_name::in_out) {
      fail(r.tensor, ": expected the order out_in or in_out, found ", static_cast<int>(r.extents));
    }
    if (r.holds != tensor_name::whole && r.holds != tensor_name::matrix && r.holds != tensor_name::row) {
      fail(r.tensor, ": expected a piece whole, matrix or row, found ", static_cast<int>(r.holds));
    }
    std::vector<stored_tensor const*> parts;
    std::string missing;
    for (auto const name : words(r.parameters)) {
      auto const p = parameters_.find(name);
      if (p == parameters_.end()) missing += message(missing.empty() ? "" : ", ", name);
      if (p != parameters_.end()) parts.push_back(p->second);
    }
    if (parts.empty()) return;
    std::string const at = where(tensor_of(r, 0));
    if (!missing.empty()) fail(at, ": expected parameters ", r.parameters, ", found no ", missing, " in the module");
    auto const& a = *parts[0];
    Index total = 0;
    for (auto const* p : parts) {
      if (p->count != a.count || p->rows != a.rows) {
        fail(at, ": expected parameters that differ in their columns, found ", a.name, " ",
             type_text(a.type, a.shape()), " and ", p->name, " ", type_text(p->type, p->shape()));
      }
      if (p->cols % r.groups != 0) {
        fail(at, ": expected columns of ", p->name, " in ", r.groups, " equal groups, found ", p->cols);
      }
      sources_.push_back({p, &r, total, 0});
      total += p->cols / r.groups;
    }
    for (std::size_t i = sources_.size() - parts.size(); i < sources_.size(); ++i) sources_[i].total = total;
  }
  /// The first three texts, and how many follow.
  [[nodiscard]] static std::string some_of(std::vector<std::string> const& texts) {
    constexpr std::size_t most = 3;
    std::string all;
    for (std::size_t i = 0; i < (std::min)(texts.size(), most); ++i) all += message(i == 0 ? "" : ", ", texts[i]);
    return texts.size() > most ? message(all, " and ", texts.size() - most, " more") : all;
  }
  /// For a parameter that no row names: names of the table that are no parameters, one of which may be misspelt.
  [[nodiscard]] std::string no_parameters() const {
    std::vector<std::string> unknown;
    for (auto const& r : rows_) {
      for (auto const name : words(r.parameters)) {
        if (parameters_.find(name) == parameters_.end()) unknown.emplace_back(name);
      }
    }
    return unknown.empty() ? "" : message("; the table names ", some_of(unknown), ", which the module lacks");
  }
  /// For a parameter without its tensor: tensors of the file with that name below another prefix, or any.
  [[nodiscard]] std::string other_tensors(stored_tensor const& p, TensorMap const& tensors) const {
    std::vector<std::string> alike, all;
    for (auto const& [name, t] : tensors) {
      all.push_back(shown(name));
      for (auto const& r : rows_) {
        auto const parts = words(r.parameters);
        if (std::find(parts.begin(), parts.end(), p.name) == parts.end() || r.tensor.empty()) continue;
        if (matches(message("*", r.tensor), name)) alike.push_back(all.back());
      }
    }
    if (!alike.empty()) return message("; the file has ", some_of(alike));
    return all.empty() ? "; the file has no tensors" : message("; the file has ", some_of(all));
  }
  /// @param tensors  of a file that is read
  void check_source(stored_tensor const& p, TensorMap const* tensors = nullptr) const {
    row const* found = nullptr;
    for (auto const& s : sources_) {
      if (s.parameter != &p) continue;
      if (found != nullptr) {
        fail(file_, ": parameter ", p.name, ": expected one tensor, found ", shown(tensor_of(*found, 0)), " and ",
             shown(tensor_of(*s.from, 0)));
      }
      found = s.from;
    }
    bool const kept = is_listed(p.name, &TensorNames::part::kept, &TensorNames::part::into);
    if (found != nullptr && kept) {
      fail(file_, ": parameter ", p.name, ": expected no tensor, since it is kept, found ",
           shown(tensor_of(*found, 0)));
    }
    if (found != nullptr || kept) return;
    std::string expected;
    for (auto const& r : rows_) {
      auto const names = words(r.parameters);
      if (std::find(names.begin(), names.end(), p.name) == names.end()) continue;
      expected += message(expected.empty() ? " " : " or ", shown(tensor_of(r, 0)));
    }
    bool const in_table = !expected.empty();
    fail(file_, ": parameter ", p.name, " ", type_text(p.type, p.shape()), ": expected tensor",
         in_table ? expected : " in the table of names", ", found none",
         !in_table            ? no_parameters()
         : tensors != nullptr ? other_tensors(p, *tensors)
                              : "");
  }
  /// True if a part of the table lists the name, in one of its patterns behind its prefix.
  [[nodiscard]] bool is_listed(std::string_view name, std::string TensorNames::part::*patterns,
                               std::string TensorNames::part::*prefix) const {
    for (auto const& part : names_.parts_) {
      for (auto const pattern : words(part.*patterns)) {
        if (matches(message(part.*prefix, pattern), name)) return true;
      }
    }
    return false;
  }
  void check_ignored(std::string const& name, tensor_view const& t) const {
    auto const is_below = [&](TensorNames::part const& part) { return matches(message(part.below, "*"), name); };
    if (std::none_of(names_.parts_.begin(), names_.parts_.end(), is_below)) return;
    if (is_listed(name, &TensorNames::part::ignored, &TensorNames::part::below)) return;
    std::string belongs;
    for (auto const& part : names_.parts_) {
      for (auto const& r : part.rows) {
        if (matches(message(part.below, r.tensor), name)) {
          belongs = message(", which is for ", part.into, r.parameters);
        }
      }
    }
    fail(where(name), belongs, ": expected a tensor that the module needs, or one that is ignored, found ",
         type_text(t.type, t.shape));
  }

  /// Calls f(piece) for each piece of the parameter, in the order of the parameter's numbers.
  template <class F>
  void for_each_piece(source const& s, F f) const {
    auto const& p = *s.parameter;
    auto const& r = *s.from;
    auto const holds = held(r);
    bool const transposed = r.extents == tensor_name::out_in;
    Index const count = holds == tensor_name::whole ? p.count : 1, rows = holds == tensor_name::row ? 1 : p.rows;
    Index const width = s.total * r.groups, share = p.cols / r.groups;
    piece one{{}, 0, count, rows, count * rows * width, transposed ? 1 : width, {}, counted_from_zero(p.cols), 0, 0};
    one.matrix_bytes = rows * p.cols * info_of(p.type).size;
    for (Index& j : one.columns) {
      j = j / share * s.total + s.first + j % share;
      if (transposed) j *= rows;
    }
    if (count > 1) one.written.push_back(count);
    if (rows > 1 || count > 1) one.written.push_back(transposed ? width : rows);
    one.written.push_back(transposed && (rows > 1 || count > 1) ? rows : width);
    for (; one.number < pieces_of(s); ++one.number) {
      one.tensor = tensor_of(r, one.number);
      f(one);
      one.offset += count * one.matrix_bytes;
    }
  }

  TensorNames const& names_;
  std::string file_;
  std::deque<row> rows_;
  stored_by_name parameters_;
  std::vector<source> sources_;
};

}  // namespace detail

/// Fills the parameters of a module from tensors with other names, orders of extents, and floating-point types, which
/// are rounded to the module's type (from F64 to BF16 by way of F32). Every parameter comes from one tensor, unless
/// `names` keeps it; every tensor below the names' prefix is used or ignored. Everything is checked first: after an
/// error, which names the tensor, the expected and the found value, nothing has changed, also when memory runs out
/// (std::bad_alloc); only a device that fails during a write leaves some parameters changed. NaN, infinities, and
/// numbers out of the range of the module's type are errors unless the options allow them.
/// @param tensors of a file; or of several, merged into one map
/// @param file the file's name in errors
template <HasParameters M>
void load(M& m, TensorMap const& tensors, std::string_view file, TensorNames const& names,
          load_options const& options = {}) {
  auto const parameters = detail::stored_parameters(m);
  detail::NamedTensors named(parameters, names, file);
  named.find(tensors);
  named.reads(tensors, options).store();
  if constexpr (requires { m.parameters_changed(); }) m.parameters_changed();
}
/// load() from an open file.
template <HasParameters M>
void load(M& m, Safetensors const& file, TensorNames const& names, load_options const& options = {}) {
  load(m, file.tensors(), file.name(), names, options);
}
/// load() from several files.
template <HasParameters M>
void load(M& m, TensorFiles const& files, TensorNames const& names, load_options const& options = {}) {
  load(m, files.tensors(), files.name(), names, options);
}
/// load() from a path: a file, an index of several files, or a folder with one of them; see TensorFiles. The files are
/// mapped and may be larger than memory.
template <HasParameters M>
void load(M& m, std::string const& path, TensorNames const& names, load_options const& options = {}) {
  load(m, TensorFiles::open(path), names, options);
}

/// Writes the parameters, in the module's type, with the names and the layout of a table: the first row of each
/// parameter. Parameters that share one tensor row by row must be equal. The file is written atomically.
template <HasParameters M>
void save(std::string const& path, M const& m, TensorNames const& names) {
  auto const parameters = detail::stored_parameters(m);
  detail::NamedTensors named(parameters, names, path);
  named.find();
  named.write(path);
}

}  // namespace headmix
