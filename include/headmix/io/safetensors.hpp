#pragma once
// SPDX-License-Identifier: MIT
// Named tensors in a safetensors file: 8 bytes of header length, a JSON header, raw data. The reader trusts nothing in
// a file. A tensor of an unknown dtype has bytes and a shape, and does not prevent reading others.

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/core/checked.hpp"
#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/io/file.hpp"
#include "headmix/io/json.hpp"
#include "headmix/io/utf8.hpp"

namespace headmix {

static_assert(std::endian::native == std::endian::little, "headmix: safetensors data is little-endian");

/// The element type of a tensor, in the order in which headmix writes them: larger types first, so that every tensor is
/// aligned to its elements. `other` is any dtype name not listed here: such a tensor can be ignored, and its bytes can
/// be read.
// clang-format off
enum class dtype {
  u64, i64, f64, f32, u32, i32, bf16, f16, u16, i16, f8_e4m3, f8_e5m2, i8, u8, boolean, other
};
// clang-format on

namespace detail {

struct dtype_info {
  std::string_view name;
  Index size;  // bytes
};
// clang-format off
inline constexpr dtype_info dtype_table[] = {
    {"U64", 8}, {"I64", 8}, {"F64", 8}, {"F32", 4}, {"U32", 4}, {"I32", 4}, {"BF16", 2}, {"F16", 2}, {"U16", 2}, {"I16", 2},
    {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I8", 1}, {"U8", 1}, {"BOOL", 1}, {"UNKNOWN", 1}};
// clang-format on
[[nodiscard]] constexpr dtype_info const& info_of(dtype type) {
  auto const i = static_cast<std::size_t>(type);
  if (i >= std::size(dtype_table)) fail("dtype: expected one of its enumerators, found ", static_cast<int>(type));
  return dtype_table[i];
}

template <class T>
consteval dtype arithmetic_dtype() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8,
                "headmix: no safetensors dtype has this type in memory (BOOL: read the bytes)");
  constexpr bool is_signed = std::is_signed_v<T>;
  if (std::is_floating_point_v<T>) return sizeof(T) == 8 ? dtype::f64 : dtype::f32;
  if (sizeof(T) == 8) return is_signed ? dtype::i64 : dtype::u64;
  if (sizeof(T) == 4) return is_signed ? dtype::i32 : dtype::u32;
  if (sizeof(T) == 2) return is_signed ? dtype::i16 : dtype::u16;
  return is_signed ? dtype::i8 : dtype::u8;
}

}  // namespace detail

/// The name in files: "F32" and so on.
[[nodiscard]] constexpr std::string_view name_of(dtype type) { return detail::info_of(type).name; }

/// The dtype of a C++ type. Specialise it for a storage type of your own.
template <class T>
inline constexpr dtype dtype_of = detail::arithmetic_dtype<T>();
/// BF16
template <>
inline constexpr dtype dtype_of<bfloat16> = dtype::bf16;

/// A tensor in memory that it does not own: row-major, without gaps, little-endian, at any alignment.
struct tensor_view {
  /// Element type.
  dtype type = dtype::f32;
  std::vector<Index> shape;          ///< empty for a single number
  std::span<std::byte const> bytes;  ///< size given by `type` and `shape`, if the type is known
};

/// "F32 [2, 3]"
[[nodiscard]] inline std::string type_text(dtype type, std::span<Index const> shape) {
  std::string text = message(name_of(type), " [");
  for (std::size_t i = 0; i < shape.size() && i < 8; ++i) text += message(i ? ", " : "", shape[i]);
  return text += shape.size() > 8 ? ", ...]" : "]";
}

/// Tensors by name.
using TensorMap = std::map<std::string, tensor_view, std::less<>>;
/// Strings by name.
using Metadata = std::map<std::string, std::string, std::less<>>;

namespace detail {

inline constexpr std::uint64_t max_header = 100'000'000;

/// Bytes of a tensor, or -1 if the product of its nonzero extents exceeds the range of Index.
[[nodiscard]] constexpr Index byte_count(dtype type, std::span<Index const> shape) {
  Index bytes = info_of(type).size;
  bool is_empty = false;
  for (Index const n : shape) {
    if (n < 0 || (n > 0 && bytes > (std::numeric_limits<Index>::max)() / n)) return -1;
    if (n == 0) is_empty = true;
    if (n > 0) bytes *= n;
  }
  return is_empty ? 0 : bytes;
}

/// Begin and end of a tensor's data, in bytes.
using byte_range = std::pair<Index, Index>;

[[nodiscard]] inline dtype read_dtype(JsonReader& json) {
  std::string const name = json.string();
  for (auto const& info : dtype_table) {
    if (info.name == name) return static_cast<dtype>(&info - dtype_table);
  }
  return dtype::other;
}

[[nodiscard]] inline byte_range read_entry(JsonReader& json, tensor_view& tensor) {
  byte_range range;
  bool has_dtype = false, has_shape = false, has_offsets = false;
  json.object([&](std::string const& field) {
    if (field == "dtype") {
      tensor.type = read_dtype(json);
      has_dtype = true;
    } else if (field == "shape") {
      json.array([&] { tensor.shape.push_back(json.count()); });
      has_shape = true;
    } else if (field == "data_offsets") {
      int n = 0;
      json.array([&] {
        if (n == 2) json.reject("two numbers", "more");
        (n++ == 0 ? range.first : range.second) = json.count();
      });
      if (n < 2) json.reject("two numbers", message(n));
      has_offsets = true;
    } else {
      json.reject("dtype, shape or data_offsets", "this field");
    }
  });
  if (!has_dtype || !has_shape || !has_offsets) {
    json.reject("dtype, shape and data_offsets", !has_dtype ? "no dtype" : !has_shape ? "no shape" : "no data_offsets");
  }
  if (tensor.type == dtype::other) {
    if (range.second < range.first) {
      json.reject("data_offsets that ascend", message("[", range.first, ", ", range.second, "]"));
    }
    return range;
  }
  Index const bytes = byte_count(tensor.type, tensor.shape);
  if (bytes < 0) json.reject("a size that fits into memory", type_text(tensor.type, tensor.shape));
  if (range.second - range.first != bytes) {
    json.reject(message("data_offsets ", bytes, " apart for ", type_text(tensor.type, tensor.shape)),
                message("[", range.first, ", ", range.second, "]"));
  }
  return range;
}

/// Tensors in the order of their data. An empty tensor precedes one with the same begin.
using Layout = std::multimap<byte_range, TensorMap::pointer>;

/// Checks that the tensors cover the data without gaps and overlaps. Returns the size of the data.
[[nodiscard]] inline std::size_t check_layout(Layout const& layout, std::string_view file) {
  Index end = 0;
  std::string const* last = nullptr;
  for (auto const& [range, item] : layout) {
    if (range.first != end) {
      fail(file, ": ", shown(item->first), ": data_offsets: expected to begin at ", end, ", where ",
           last ? shown(*last) + " ends" : "the data begins", ", found ", range.first);
    }
    end = range.second;
    last = &item->first;
  }
  return static_cast<std::size_t>(end);
}

}  // namespace detail

/// The tensors and the metadata of a file, with the memory that the tensors refer to: they are valid as long as this
/// object.
class Safetensors {
 public:
  /// Reads a file (or a pipe), up to the end that its header declares. Errors name the path.
  [[nodiscard]] static Safetensors read(std::string const& path) {
    InputFile file(path);
    return Safetensors(file, path);
  }
  /// Maps a file: the tensors are in the file's own pages, which are read when they are used; see MappedFile.
  [[nodiscard]] static Safetensors map(std::string const& path) { return Safetensors(MappedFile(path), path); }
  /// Reads a file from memory; `name` is its name in errors.
  [[nodiscard]] static Safetensors parse(std::span<std::byte const> bytes, std::string name = "safetensors") {
    bytes_in_memory source{bytes};
    return Safetensors(source, std::move(name));
  }
  // Not copyable: a copy's tensors would refer to the memory of the original.
  /// Moves the file.
  Safetensors(Safetensors&&) = default;
  /// Moves the file.
  Safetensors& operator=(Safetensors&&) = default;

  /// Views of the file's tensors, valid as long as this object.
  [[nodiscard]] TensorMap const& tensors() const { return tensors_; }
  /// The file's name in errors: its path.
  [[nodiscard]] std::string const& name() const { return name_; }
  /// The strings of the header's `__metadata__`.
  [[nodiscard]] Metadata const& metadata() const { return metadata_; }

  /// The tensor of this name; an error if there is none.
  tensor_view const& tensor(std::string_view name) const {
    auto const found = tensors_.find(name);
    if (found == tensors_.end()) fail(name_, ": expected a tensor ", shown(name), ", found none");
    return found->second;
  }
  /// The elements of a tensor, whose dtype must be that of T.
  template <class T>
  [[nodiscard]] std::vector<T> values(std::string_view name) const {
    auto const& t = tensor(name);
    if (t.type != dtype_of<T>) {
      fail(name_, ": ", shown(name), ": expected ", name_of(dtype_of<T>), ", found ", name_of(t.type));
    }
    std::vector<T> elements(t.bytes.size() / sizeof(T));
    // memcpy, since data may be at any address; not for empty tensors, whose address may be null.
    if (!elements.empty()) std::memcpy(elements.data(), t.bytes.data(), t.bytes.size());
    return elements;
  }

 private:
  struct bytes_in_memory {
    std::span<std::byte const> rest;
    std::size_t read(std::span<std::byte> to) {
      std::size_t const n = to.size() < rest.size() ? to.size() : rest.size();
      if (n > 0) std::memcpy(to.data(), rest.data(), n);
      rest = rest.subspan(n);
      return n;
    }
  };
  template <class Source>
  Safetensors(Source& source, std::string name) : name_(std::move(name)) {
    detail::Layout const layout = read_header(source);
    std::size_t const size = detail::check_layout(layout, name_);
    data_ = read_bytes(source, size);
    if (data_.size() < size) fail(name_, ": expected ", size, " bytes of data, found ", data_.size());
    if (!read_bytes(source, 1).empty()) fail(name_, ": expected ", size, " bytes of data, found more");
    place(layout, data_);
  }
  Safetensors(MappedFile&& file, std::string name) : name_(std::move(name)) {
    bytes_in_memory source{file.bytes()};
    detail::Layout const layout = read_header(source);
    std::size_t const size = detail::check_layout(layout, name_);
    if (source.rest.size() != size) fail(name_, ": expected ", size, " bytes of data, found ", source.rest.size());
    place(layout, source.rest);
    file_.emplace(std::move(file));
  }

  template <class Source>
  detail::Layout read_header(Source& source) {
    std::uint64_t length = 0;
    auto const prefix = read_bytes(source, sizeof length);
    if (prefix.size() < sizeof length) fail(name_, ": expected 8 bytes of header length, found ", prefix.size());
    std::memcpy(&length, prefix.data(), sizeof length);
    if (length > detail::max_header) {
      std::string_view const begin(reinterpret_cast<char const*>(prefix.data()), prefix.size());
      fail(name_, ": no safetensors file: expected a header of at most ", detail::max_header,
           " bytes, found a length of ", length, " in the first 8 bytes, ", shown(begin),
           begin.starts_with("PK") ? " (a zip archive, as torch.save() writes)" : "");
    }
    auto const header = read_bytes(source, static_cast<std::size_t>(length));
    if (header.size() < length) fail(name_, ": expected ", length, " bytes of header, found ", header.size());

    detail::Layout layout;
    JsonReader json({reinterpret_cast<char const*>(header.data()), header.size()}, name_);
    json.object([&](std::string const& key) {
      if (key == "__metadata__") {
        json.object([&](std::string const& option) { metadata_.emplace(option, json.string()); });
      } else {
        auto const place = tensors_.try_emplace(key).first;
        layout.emplace(detail::read_entry(json, place->second), &*place);
      }
    });
    json.end();
    return layout;
  }
  /// The bytes of the tensors in the data.
  static void place(detail::Layout const& layout, std::span<std::byte const> data) {
    for (auto const& [range, item] : layout) {
      auto const [begin, end] = range;
      item->second.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    }
  }

  std::string name_;
  std::vector<std::byte> data_;
  std::optional<MappedFile> file_;
  TensorMap tensors_;
  Metadata metadata_;
};

/// Writes a file with the layout of the format's reference implementation: by dtype, then by name, the data aligned to
/// 8 bytes. The file is created or replaced atomically when it is complete and on disk (OutputFile). Names and metadata
/// must be UTF-8; the bytes must match type and shape.
inline void write_safetensors(std::string const& path, TensorMap const& tensors, Metadata const& metadata = {}) {
  std::string header = "{";
  auto const add = [&](std::string_view key, std::string const& value) {
    if (!detail::is_utf8(key)) fail(path, ": expected a name in UTF-8, found ", shown(key));
    if (header.back() != '{') header += ',';
    header += quote(key) + ':' + value;
  };
  if (!metadata.empty()) {
    add("__metadata__", "{");
    for (auto const& [key, value] : metadata) {
      if (!detail::is_utf8(value)) fail(path, ": ", shown(key), ": expected text in UTF-8, found ", shown(value));
      add(key, quote(value));
    }
    header += '}';
  }

  std::multimap<dtype, TensorMap::const_pointer> order;
  for (auto const& item : tensors) order.emplace(item.second.type, &item);
  std::size_t end = 0;
  for (auto const& [type, item] : order) {
    auto const& [name, t] = *item;
    if (name == "__metadata__") fail(path, ": \"__metadata__\": expected another name for a tensor");
    if (t.type == dtype::other) fail(path, ": ", shown(name), ": expected a dtype that has a name, found UNKNOWN");
    Index const bytes = detail::byte_count(t.type, t.shape);
    if (bytes < 0 || t.bytes.size() != static_cast<std::size_t>(bytes)) {
      fail(path, ": ", shown(name), ": expected ",
           bytes < 0 ? "a size that fits into memory" : message(bytes, " bytes"), " for ", type_text(t.type, t.shape),
           ", found ", t.bytes.size(), " bytes");
    }
    std::size_t const begin =
        std::exchange(end, static_cast<std::size_t>((checked(static_cast<Index>(end)) + bytes).value));
    std::string shape;
    for (Index const n : t.shape) shape += message(shape.empty() ? "" : ",", n);
    add(name, message("{\"dtype\":\"", name_of(t.type), "\",\"shape\":[", shape, "],\"data_offsets\":[", begin, ",",
                      end, "]}"));
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::uint64_t const length = header.size();
  if (length > detail::max_header) {
    fail(path, ": expected a header of at most ", detail::max_header, " bytes, found ", length);
  }

  OutputFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (auto const& [type, item] : order) file.write(item->second.bytes);
  file.commit();
}

}  // namespace headmix
