#pragma once
// SPDX-License-Identifier: MIT
// A layer of the library against its definition: results, losses, choices and all gradients, over uniform, ragged and
// padded sequences, and over chunks in the middle of a context.

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <utility>

#include "backend.hpp"
#include "definition.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/gradcheck.hpp"
#include "own_options.hpp"

namespace headmix::definition {

/// The rows of an input by sequence.
struct RowsOfSequences {
  std::vector<std::vector<std::uint8_t>> valid;  ///< a number for each row of each sequence, 0 for padding
  bool padded = false, equal = false;            ///< with padding; of equal lengths
  std::vector<Int> past = {};

  std::vector<Int> offsets = {};
  std::vector<std::uint8_t> mask = {};
  std::unique_ptr<Padding> padding = {};

  [[nodiscard]] Count rows() const {
    Count n = 0;
    for (auto const& s : valid) n += static_cast<Count>(s.size());
    return n;
  }
  /// Numbers of valid rows.
  [[nodiscard]] std::vector<std::vector<Count>> numbers() const {
    std::vector<std::vector<Count>> all;
    Count row = 0;
    for (auto const& s : valid) {
      all.emplace_back();
      for (auto const is_valid : s) {
        if (is_valid) all.back().push_back(row);
        ++row;
      }
    }
    return all;
  }
  /// For a module; refers to this object.
  [[nodiscard]] batch as_batch() {
    auto const n = static_cast<Index>(valid.size());
    if (padded) {
      for (auto const& s : valid) mask.insert(mask.end(), s.begin(), s.end());
      padding = std::make_unique<Padding>(view<std::uint8_t const>(mask.data(), n, rows() / n));
      return *padding;
    }
    offsets.push_back(0);
    for (auto const& s : valid) offsets.push_back(offsets.back() + static_cast<Int>(s.size()));
    segments all = equal ? uniform(n, rows() / n) : ragged(offsets.data(), n);
    if (!past.empty()) all.past = past.data();
    return all;
  }
};
inline RowsOfSequences of_lengths(std::vector<std::size_t> const& lengths, bool equal) {
  RowsOfSequences r;
  r.equal = equal;
  for (std::size_t const n : lengths) r.valid.emplace_back(n, std::uint8_t{1});
  return r;
}
inline RowsOfSequences with_padding_at(std::vector<std::vector<std::uint8_t>> valid) {
  RowsOfSequences r;
  r.padded = true, r.valid = std::move(valid);
  return r;
}

/// What a module is run with.
struct Case {
  RowsOfSequences queries, keys;
  Arrays arrays;  ///< x, context and values
  Setting setting;
};

/// Numbers in [-scale, scale] that bfloat16 holds exactly, a function of a name.
inline std::vector<double> drawn(std::string const& name, Count n, double scale, unsigned seed) {
  std::uint64_t state = seed;
  for (char const c : name) state = state * 1099511628211u + static_cast<unsigned char>(c);
  std::vector<double> v;
  for (Count i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bfloat16 const number(static_cast<float>(scale * (static_cast<double>(state >> 40) * 0x1p-23 - 1)));
    v.push_back(static_cast<double>(static_cast<float>(number)));
  }
  return v;
}

/// Number of cases of a layer.
inline int cases(layer_options const& o) {
  bool const in_the_middle = o.context_width > 0 && !o.padded && (o.family != family::mae || o.pool == pool_kind::all);
  return in_the_middle ? 3 : 2;
}
/// Case 0: sequences of equal lengths, or with padding. 1: some are empty, some have more queries than keys. 2: chunks
/// in the middle of a context.
inline Case case_of(layer_options const& o, int which, unsigned seed) {
  bool const cross = o.context_width > 0;
  // A bias by relative position has no number for positions below 0.
  bool const few_keys = o.image_height == 0;
  Case c;
  if (o.padded) {
    c.queries = which == 0
                    ? with_padding_at({{1, 1, 0, 1, 1}, {0, 1, 1, 1, 0}})
                    : with_padding_at({{1, 0, 0, 1, 0, 1}, {0, 0, 0, 0, 0, 0}, {0, 0, 1, 0, 0, 0}, {1, 1, 1, 1, 1, 0}});
    c.keys = which == 0 ? with_padding_at({{1, 1, 1, 0, 1, 1, 1}, {0, 1, 1, 1, 1, 1, 0}})
             : few_keys
                 ? with_padding_at({{0, 1, 0, 1, 0, 0}, {1, 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}})
                 : with_padding_at({{1, 1, 0, 1, 1, 0}, {1, 1, 0, 0, 0, 0}, {0, 1, 1, 0, 0, 0}, {1, 1, 1, 1, 1, 1}});
  } else if (which == 0) {
    c.queries = of_lengths({4, 4}, true), c.keys = of_lengths({6, 6}, true);
  } else if (which == 1) {
    c.queries = of_lengths({3, 0, 1, 5}, false);
    c.keys = few_keys ? of_lengths({2, 2, 0, 6}, false) : of_lengths({4, 2, 2, 6}, false);
  } else {
    c.queries = of_lengths({2, 3}, false), c.keys = of_lengths({6, 5}, false);
    c.queries.past = {1, 2};
  }
  auto const rows = c.queries.numbers(), context_rows = c.keys.numbers();
  for (std::size_t b = 0; b < rows.size(); ++b) {
    Sequence s;
    s.queries = rows[b], s.keys = cross ? context_rows[b] : rows[b];
    s.given_expert = static_cast<Count>((b + seed) % 4);
    if (!c.queries.past.empty()) s.past = c.queries.past[b];
    c.setting.sequences.push_back(s);
  }
  bool reads_padding = false;
  for (loss_kind const l : o.losses) reads_padding = reads_padding || l == loss_kind::z_with_padding;
  // Nobody may read rows of padding.
  auto const hide = [](RowsOfSequences const& r, Count width, std::vector<double>& a) {
    std::size_t i = 0;
    for (auto const& s : r.valid) {
      for (auto const is_valid : s) {
        for (Count j = 0; j < width; ++j, ++i) {
          if (!is_valid) a[i] = std::numeric_limits<double>::quiet_NaN();
        }
      }
    }
  };
  Count const n = c.queries.rows();
  c.arrays["x"] = drawn("x", n * o.width, 1.5, seed);
  c.setting.dy = drawn("dy", n * o.width, 1, seed);
  if (!reads_padding) hide(c.queries, o.width, c.arrays["x"]);
  hide(c.queries, o.width, c.setting.dy);
  if (cross) {
    c.arrays["context"] = drawn("context", c.keys.rows() * o.context_width, 1.5, seed);
    hide(c.keys, o.context_width, c.arrays["context"]);
  }
  if (o.value_width > 0) {
    RowsOfSequences const& rows_of_keys = cross ? c.keys : c.queries;
    c.arrays["values"] = drawn("values", rows_of_keys.rows() * o.value_width, 1.5, seed);
    hide(rows_of_keys, o.value_width, c.arrays["values"]);
  }
  c.setting.draws = {true, 11 + seed, 3};
  c.setting.loss_weights = {0.75, -0.5, 0.25};
  return c;
}

template <class L>
auto module_of([[maybe_unused]] layer_options const& o, auto backend) {
  using M = Module<L, decltype(backend)>;
  if constexpr (requires { requires L::expert_capacity::value == dynamic; }) {
    return std::make_unique<M>(1, backend, at<typename L::expert_capacity>(o.capacity_rows));
  } else {
    return std::make_unique<M>(1, backend);
  }
}
template <class T>
std::vector<double> to_doubles(view<T> a) {
  std::vector<double> v;
  for (Index e = 0; e < a.count; ++e) {
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < a.cols; ++j) {
        if constexpr (std::is_arithmetic_v<std::remove_const_t<T>>) {
          v.push_back(static_cast<double>(a[e](i, j)));
        } else {
          v.push_back(static_cast<double>(static_cast<float>(a[e](i, j))));
        }
      }
    }
  }
  return v;
}

/// What soft_cap<dynamic> is bound to.
inline constexpr double dynamic_cap = 1.5;

/// A layer's pass.
template <class L, class M>
Pass pass_of_layer(M& m, layer_options const& o, Case& c) {
  using T = typename M::scalar;
  using program = typename M::program_type;
  using leaves = typename program::leaves;
  std::vector<typename M::memory_type> owned;
  auto const on_device = [&]<class U>(std::vector<U> const& v) {
    U* const p = owned.emplace_back((v.size() + 1) * sizeof(U)).template as<U>();
    upload(m.backend(), p, v.data(), v.size());
    return p;
  };
  auto const rows_of = [&](std::vector<double> const& numbers, Count rows, Count columns) {
    std::vector<T> v;
    for (double const number : numbers) v.push_back(static_cast<T>(static_cast<float>(number)));
    return view<T const>(on_device(v), rows, columns);
  };
  auto const on_host = [&]<class U>(view<U const> v) {
    std::vector<U> host(static_cast<std::size_t>(v.size()));
    download(m.backend(), host.data(), v.data, host.size());
    return to_doubles(view<U>(host.data(), v.count, v.rows, v.cols));
  };
  auto const bind_number = [&]<class Leaf>(Leaf leaf, double number) {
    if constexpr (headmix::detail::contains<leaves, Leaf>) {
      using U = typename program::template type<Leaf>;
      m.program().bind(leaf, {on_device(std::vector<U>{static_cast<U>(static_cast<float>(number))}), 1, 1});
    }
  };
  if (c.arrays["context"].empty()) c.arrays.erase("context");
  bind_number(rope<dynamic>::theta{}, o.rope_theta);
  bind_number(soft_cap<dynamic>::cap{}, dynamic_cap);
  if constexpr (requires { typename L::of::expert; }) {
    std::vector<Int> given;
    for (Sequence const& s : c.setting.sequences) given.push_back(static_cast<Int>(s.given_expert));
    m.program().bind(typename L::of::expert{}, {on_device(given), static_cast<Index>(given.size()), 1});
  }
  m.set_randomness(randomness(c.setting.draws.seed, c.setting.draws.step));
  batch const tokens = c.queries.as_batch();
  auto const x = rows_of(c.arrays["x"], c.queries.rows(), o.width);
  auto const dy = rows_of(c.setting.dy, c.queries.rows(), o.width);
  constexpr bool is_cross = [] {
    if constexpr (requires { typename L::context; }) {
      return headmix::detail::contains<leaves, typename L::context>;
    } else {
      return false;
    }
  }();
  constexpr bool has_values = [] {
    if constexpr (requires { typename L::values; }) {
      return headmix::detail::contains<leaves, typename L::values>;
    } else {
      return false;
    }
  }();
  view<T> by_values;
  if constexpr (has_values) {
    Count const rows = (is_cross ? c.keys : c.queries).rows();
    by_values = {on_device(std::vector<T>(static_cast<std::size_t>(rows * o.value_width))), rows, o.value_width};
    m.program().bind(typename L::values{}, rows_of(c.arrays["values"], rows, o.value_width), by_values);
  }
  Pass found;
  if constexpr (is_cross) {
    batch const keys = c.keys.as_batch();
    found.y = on_host(m.forward(x, tokens, rows_of(c.arrays["context"], c.keys.rows(), o.context_width), keys));
  } else {
    found.y = on_host(m.forward(x, tokens));
  }
  [&]<int... I>(std::integer_sequence<int, I...>) { (found.losses.push_back(m.template loss<I>()), ...); }
  (std::make_integer_sequence<int, static_cast<int>(L::losses::size)>{});
  if constexpr (L::observed::size > 0) {
    auto const chosen = m.observed();
    auto const numbers = on_host(chosen);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i % static_cast<std::size_t>(chosen.cols) == 0) found.chosen.emplace_back();
      found.chosen.back().push_back(static_cast<Count>(numbers[i]));
    }
    found.chosen.resize(static_cast<std::size_t>(chosen.rows));
  }
  m.zero_gradients();
  m.backward(dy, std::span<double const>(c.setting.loss_weights.data(), found.losses.size()));
  found.gradients["x"] = on_host(m.input_gradient());
  if constexpr (is_cross) found.gradients["context"] = on_host(m.context_gradient());
  if constexpr (has_values) found.gradients["values"] = on_host(view<T const>(by_values));
  for (auto const& p : m.parameters()) {
    found.gradients[std::string(p.name)] =
        on_host(view<std::remove_reference_t<decltype(*p.gradient.data)> const>(p.gradient));
  }
  return found;
}

/// By the definition at arrays whose numbers are off by at most `relative` each.
inline Pass pass_nearby(layer_options const& o, Arrays arrays, Setting const& s, double relative, unsigned seed) {
  for (auto& [name, values] : arrays) {
    auto const by = drawn(name, static_cast<Count>(values.size()), relative, 100 + seed);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + by[i];
  }
  double ignored = 0;
  return pass_of(o, arrays, s, ignored);
}

/// Draws arrays of a case, its numbers of tokens and parameters.
template <class M>
void draw_arrays(M& m, Case& c, Arrays& arrays, unsigned seed) {
  arrays = c.arrays;
  auto const fill = [&](auto const& all) {
    for (auto const& p : all) {
      using U = std::remove_reference_t<decltype(*p.value.data)>;
      std::string const name(p.name);
      arrays[name] = drawn(name, p.value.size(), 0.8, seed);
      std::vector<U> numbers;
      for (double const number : arrays[name]) numbers.push_back(static_cast<U>(static_cast<float>(number)));
      upload(m.backend(), p.value.data, numbers.data(), numbers.size());
    }
  };
  fill(m.parameters());
  fill(m.buffers());
}

/// The names in `code` of a cell of a page's table.
inline std::vector<std::string> names_in(std::string const& cell) {
  std::vector<std::string> names;
  for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at + 1)) {
    std::size_t const end = cell.find('`', at + 1);
    names.push_back(cell.substr(at + 1, end - at - 1));
    at = end;
  }
  return names;
}
template <class L>
constexpr std::string_view full_name() {
  return __PRETTY_FUNCTION__;
}
/// The values that a layer detaches without a row of the table on the page of layers: one whose option, the last name
/// in its second cell, the layer has, and which lists a value of the same operation.
template <class L>
std::string detached_beside_the_table() {
  auto const values = detached_values<L>();
  if (values.empty()) return "";
  std::string const layer(full_name<L>());
  std::ifstream page(HEADMIX_TEST_CASES "/../../include/headmix/layer/README.md");
  std::string line;
  while (std::getline(page, line) && line != "<!-- detached -->") {
  }
  std::vector<std::string> known;
  while (std::getline(page, line) && !line.starts_with("#")) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    auto const options = cells.size() < 5 ? std::vector<std::string>() : names_in(cells[2]);
    if (options.empty() || layer.find(options.back()) == std::string::npos) continue;
    for (std::string const& value : names_in(cells[3])) known.push_back(value.substr(0, value.find('(')));
  }
  std::string missing;
  for (std::string const& value : values) {
    if (std::find(known.begin(), known.end(), value.substr(0, value.find('('))) == known.end()) missing += value + " ";
  }
  return missing;
}

/// Definitions at arrays that are off by a rounding, by which the allowed difference is found.
constexpr unsigned nearby_passes = 6;

/// A layer against its definition. Where rounding is by u = 2^-53 (double), 2^-24 (float) or 2^-8 (bfloat16), the
/// allowed difference of a result, a loss or a gradient is 128 u of its largest number, at least of 1/4 (bfloat16,
/// whose sums are floats: 8 u; double: 1e-10), and 4 times the largest change of the definition by errors of u in all
/// arrays. Of a gradient whose terms cancel to less than 1/32 of the sum of their absolute values, 1/8 of that sum
/// counts as the largest number. Draws are taken again until no such error changes a choice.
/// @tparam Configuration  `layer`, `options()` and `name`
template <class Configuration, class Backend = tested_backend>
void check() {
  using L = typename Configuration::layer;
  using T = typename Backend::scalar;
  constexpr bool is_double = std::is_same_v<T, double>;
  constexpr double unit = is_double ? 0x1p-53 : std::is_same_v<T, float> ? 0x1p-24 : 0x1p-8;
  constexpr double relative = is_double ? 1e-10 : std::is_same_v<T, float> ? 128 * unit : 8 * unit;
  if constexpr (is_double) {
    INFO(std::string(Configuration::name));
    CHECK(detached_beside_the_table<L>() == "");
  }
  layer_options const o = Configuration::options();
  auto const m = module_of<L>(o, Backend());
  for (int which = 0; which < cases(o); ++which) {
    INFO(std::string(Configuration::name), ", case ", which);
    Case c;
    Arrays arrays;
    Pass expected;
    Allowed allowed;
    double slope_error = 0;
    bool is_stable = false;
    for (unsigned draw = 0; draw < 200 && !is_stable; ++draw) {
      auto const seed = static_cast<unsigned>(which + 1) + 10 * draw;
      c = case_of(o, which, seed);
      draw_arrays(*m, c, arrays, seed);
      expected = pass_of(o, arrays, c.setting, slope_error);
      allowed = Allowed(expected, relative);
      is_stable = true;
      for (unsigned n = 0; n < nearby_passes && is_stable; ++n) {
        Pass const nearby = pass_nearby(o, arrays, c.setting, unit, n);
        is_stable = nearby.chosen == expected.chosen;
        allowed.widen(nearby, expected, 4);
      }
    }
    CHECK(slope_error < 1e-6);
    REQUIRE(is_stable);
    std::string text;
    try {
      text = differences(pass_of_layer<L>(*m, o, c), expected, allowed);
    } catch (std::exception const& e) {
      text = e.what();
    }
    CHECK(text == "");
  }
}

}  // namespace headmix::definition
