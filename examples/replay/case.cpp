// SPDX-License-Identifier: MIT
#include "case.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace replay {

using headmix::message;
using headmix::type_text;

void Case::reject(std::string_view name, std::string_view expected, std::string_view found) const {
  headmix::fail(path_, ": ", headmix::shown(name), ": expected ", expected, ", found ", found);
}

std::string const* Case::option(std::string_view name) {
  auto const found = file_.metadata().find(name);
  if (found == file_.metadata().end()) return nullptr;
  taken_options_.emplace(name);
  return &found->second;
}

std::string_view Case::choice(std::string_view name, std::vector<std::string_view> const& values) {
  return option(name) == nullptr ? values.front() : require(name, values);
}

std::string_view Case::require(std::string_view name, std::vector<std::string_view> const& values) {
  auto const* const found = option(name);
  auto const known = found == nullptr ? values.end() : std::find(values.begin(), values.end(), *found);
  if (known == values.end()) {
    std::string expected;
    for (auto const v : values) expected += message(expected.empty() ? "" : " | ", v);
    reject(name, expected, found == nullptr ? "no such option" : headmix::shown(*found));
  }
  return *known;
}

Index Case::count(std::string_view name, Index low, Index high, std::optional<Index> fallback) {
  auto const* const found = option(name);
  if (found == nullptr && fallback) return *fallback;
  std::string const expected = message("a whole number from ", low, " to ", high);
  if (found == nullptr) reject(name, expected, "no such option");
  Index value = 0;
  char const* const end = found->data() + found->size();
  auto const [rest, error] = std::from_chars(found->data(), end, value);
  if (error != std::errc() || rest != end || value < low || value > high) {
    reject(name, expected, headmix::shown(*found));
  }
  return value;
}

double Case::number(std::string_view name, double fallback) {
  auto const* const found = option(name);
  if (found == nullptr) return fallback;
  double value = 0;
  char const* const end = found->data() + found->size();
  auto const [rest, error] = std::from_chars(found->data(), end, value);
  // Too small a number is reported like too large a number.
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(*found).c_str(), nullptr);
  if (error == std::errc::invalid_argument || rest != end || !std::isfinite(value)) {
    reject(name, "a finite decimal number", headmix::shown(*found));
  }
  return value;
}

Index Case::pool(std::string_view name) {
  constexpr Index most = (std::numeric_limits<headmix::Int>::max)();
  constexpr std::string_view window = "window:";
  auto const* const found = option(name);
  if (found == nullptr || *found == "all") return 0;
  if (*found == "prefix") return most;
  Index value = 0;
  if (found->starts_with(window)) {
    char const* const end = found->data() + found->size();
    auto const [rest, error] = std::from_chars(found->data() + window.size(), end, value);
    if (error == std::errc() && rest == end && 1 <= value && value <= most) return value;
  }
  reject(name, message("all | prefix | window:N, N a whole number from 1 to ", most), headmix::shown(*found));
}

headmix::dtype Case::float_type(std::string_view tensor) const {
  auto const type = file_.tensor(tensor).type;
  if (type != headmix::dtype::f64 && type != headmix::dtype::f32) reject(tensor, "F64 or F32", headmix::name_of(type));
  return type;
}

Shape Case::extents(std::string_view tensor, std::size_t rank, char const* names) const {
  auto const& t = file_.tensor(tensor);
  bool const empty = std::any_of(t.shape.begin(), t.shape.end(), [](Index n) { return n < 1; });
  if (t.shape.size() != rank || empty) {
    reject(tensor, message("[", names, "], extents from 1"), type_text(t.type, t.shape));
  }
  return t.shape;
}

void Case::check(std::string_view tensor, headmix::dtype type, Shape const& shape) {
  auto const& t = file_.tensor(tensor);
  if (t.type != type || t.shape != shape) reject(tensor, type_text(type, shape), type_text(t.type, t.shape));
  taken_tensors_.emplace(tensor);
}

std::vector<std::uint8_t> Case::take_mask(std::string_view tensor, Shape const& shape) {
  std::size_t size = 1;
  for (Index const n : shape) size *= static_cast<std::size_t>(n);
  if (!has(tensor)) return std::vector<std::uint8_t>(size, 1);
  auto mask = take<std::uint8_t>(tensor, shape);
  for (auto const m : mask) {
    if (m > 1) reject(tensor, "zeros and ones", message(static_cast<int>(m)));
  }
  return mask;
}

std::vector<headmix::Int> Case::take_choices(std::string_view tensor, Index rows, Index choices) {
  std::vector<headmix::Int> all;
  for (std::int64_t const c : take<std::int64_t>(tensor, {rows})) {
    if (0 > c || c >= choices) reject(tensor, message("numbers from 0 to ", choices - 1), message(c));
    all.push_back(static_cast<headmix::Int>(c));
  }
  return all;
}

void Case::finish() const {
  for (auto const& [name, value] : file_.metadata()) {
    if (!taken_options_.contains(name)) {
      reject(name, "no such option", headmix::shown(value));
    }
  }
  for (auto const& [name, tensor] : file_.tensors()) {
    if (!taken_tensors_.contains(name)) reject(name, "no such tensor", type_text(tensor.type, tensor.shape));
  }
}

}  // namespace replay
