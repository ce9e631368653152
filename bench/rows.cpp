// SPDX-License-Identifier: MIT
#include "rows.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <stdexcept>
#include <utility>

namespace bench {
namespace {

std::vector<Family>& families() {
  static std::vector<Family> all;
  return all;
}

struct Size {
  std::string name;
  std::int64_t value;
};
/// The short name of a size in rows; users write the word.
std::string name_in_rows(std::string_view name) { return std::string(name == "head_dim" ? "H" : name); }

std::vector<Size> parse(std::string_view text) {
  std::vector<Size> all;
  while (!text.empty()) {
    std::string_view const one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    auto const equals = one.find('=');
    std::string_view const digits = equals == one.npos ? "" : one.substr(equals + 1);
    std::int64_t value = 0;
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || value < 1) {
      throw std::invalid_argument("--sizes: expected NAME=NUMBER, the number from 1 on, found '" + std::string(one) +
                                  "'");
    }
    all.push_back({name_in_rows(one.substr(0, equals)), value});
  }
  return all;
}

auto place_of(Family const& family, std::string const& size) {
  return std::find(family.sizes.begin(), family.sizes.end(), size);
}

void add_rows(Family const& family, std::vector<std::vector<std::int64_t>> const& shapes) {
  auto* const rows =
      benchmark::RegisterBenchmark(family.name.c_str(), family.run)->ArgNames(family.sizes)->UseManualTime();
  for (auto const& shape : shapes) rows->Args(shape);
}

}  // namespace

void add_family(Family family) { families().push_back(std::move(family)); }

void register_rows(std::string_view own_sizes) {
  if (own_sizes.empty()) {
    for (Family const& f : families()) add_rows(f, f.shapes);
    return;
  }
  std::vector<Size> const sizes = parse(own_sizes);
  std::set<std::string> known;
  for (Family const& f : families()) known.insert(f.sizes.begin(), f.sizes.end());
  for (Size const& s : sizes) {
    if (known.count(s.name) > 0) continue;
    std::string all;
    for (auto const& name : known) all += (all.empty() ? "" : ", ") + name;
    throw std::invalid_argument("--sizes: expected sizes of rows (" + all + "), found '" + s.name + "'");
  }
  bool any = false;
  for (Family const& f : families()) {
    auto shape = f.shapes.front();
    bool const has_all = std::all_of(sizes.begin(), sizes.end(), [&](Size const& s) {
      auto const at = place_of(f, s.name);
      if (at != f.sizes.end()) shape[static_cast<std::size_t>(at - f.sizes.begin())] = s.value;
      return at != f.sizes.end();
    });
    if (has_all) add_rows(f, {shape});
    any = any || has_all;
  }
  if (!any) throw std::invalid_argument("--sizes: no row has all of these sizes: " + std::string(own_sizes));
}

}  // namespace bench
