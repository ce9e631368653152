#pragma once
// SPDX-License-Identifier: MIT
// A layer of the library against its definition: results, losses, choices and all gradients, over uniform, ragged and
// padded sequences, and over chunks in the middle of a context.

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "definition.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/program/module.hpp"
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
  Arrays arrays;  ///< x and context
  Setting setting;
};

/// Numbers in [-scale, scale] that float holds exactly, a function of a name.
inline std::vector<double> drawn(std::string const& name, Count n, double scale, unsigned seed) {
  std::uint64_t state = seed;
  for (char const c : name) state = state * 1099511628211u + static_cast<unsigned char>(c);
  std::vector<double> v;
  for (Count i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v.push_back(static_cast<double>(static_cast<float>(scale * (static_cast<double>(state >> 40) * 0x1p-23 - 1))));
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
      for (Index j = 0; j < a.cols; ++j) v.push_back(static_cast<double>(a[e](i, j)));
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
  using leaves = typename M::program_type::leaves;
  std::vector<T> x(c.arrays["x"].begin(), c.arrays["x"].end()), dy(c.setting.dy.begin(), c.setting.dy.end());
  std::vector<T> context(c.arrays["context"].begin(), c.arrays["context"].end());
  if (context.empty()) c.arrays.erase("context");
  [[maybe_unused]] T const theta = static_cast<T>(o.rope_theta), cap = static_cast<T>(dynamic_cap);
  if constexpr (detail::contains<leaves, rope<dynamic>::theta>) m.program().bind(rope<dynamic>::theta{}, {&theta, 1, 1});
  if constexpr (detail::contains<leaves, soft_cap<dynamic>::cap>) m.program().bind(soft_cap<dynamic>::cap{}, {&cap, 1, 1});
  [[maybe_unused]] std::vector<Int> given;
  for (Sequence const& s : c.setting.sequences) given.push_back(static_cast<Int>(s.given_expert));
  if constexpr (requires { typename L::of::expert; }) {
    m.program().bind(typename L::of::expert{}, {given.data(), static_cast<Index>(given.size()), 1});
  }
  m.set_randomness(randomness(c.setting.draws.seed, c.setting.draws.step));
  batch const tokens = c.queries.as_batch();
  view<T const> const x_rows(x.data(), c.queries.rows(), o.width), dy_rows(dy.data(), c.queries.rows(), o.width);
  constexpr bool is_cross = [] {
    if constexpr (requires { typename L::context; }) {
      return detail::contains<leaves, typename L::context>;
    } else {
      return false;
    }
  }();
  Pass found;
  if constexpr (is_cross) {
    batch const keys = c.keys.as_batch();
    found.y = to_doubles(m.forward(x_rows, tokens, {context.data(), c.keys.rows(), o.context_width}, keys));
  } else {
    found.y = to_doubles(m.forward(x_rows, tokens));
  }
  [&]<int... I>(std::integer_sequence<int, I...>) { (found.losses.push_back(m.template loss<I>()), ...); }
  (std::make_integer_sequence<int, static_cast<int>(L::losses::size)>{});
  if constexpr (L::observed::size > 0) {
    auto const chosen = m.observed();
    for (Index i = 0; i < chosen.rows; ++i) {
      found.chosen.emplace_back();
      for (Index j = 0; j < chosen.cols; ++j) found.chosen.back().push_back(chosen(i, j));
    }
  }
  m.zero_gradients();
  m.backward(dy_rows, std::span<double const>(c.setting.loss_weights.data(), found.losses.size()));
  found.gradients["x"] = to_doubles(m.input_gradient());
  if constexpr (is_cross) found.gradients["context"] = to_doubles(m.context_gradient());
  for (auto const& p : m.parameters()) found.gradients[std::string(p.name)] = to_doubles(p.gradient);
  return found;
}

/// A layer against its definition.
/// @tparam Configuration  `layer`, `options()` and `name`
template <class Configuration, class Backend = Reference<double>>
void check(double tolerance = 1e-10) {
  using L = typename Configuration::layer;
  using T = typename Backend::scalar;
  layer_options const o = Configuration::options();
  auto const m = module_of<L>(o, Backend());
  for (int which = 0; which < cases(o); ++which) {
    auto const seed = static_cast<unsigned>(which + 1);
    Case c = case_of(o, which, seed);
    Arrays arrays = c.arrays;
    auto const fill = [&](auto const& all) {
      for (auto const& p : all) {
        std::string const name(p.name);
        arrays[name] = drawn(name, p.value.size(), 0.8, seed);
        for (Index i = 0; i < p.value.size(); ++i)
          p.value.data[i] = static_cast<T>(arrays[name][static_cast<std::size_t>(i)]);
      }
    };
    fill(m->parameters());
    fill(m->buffers());
    std::string text;
    double slope_error = 0;
    try {
      Pass const found = pass_of_layer<L>(*m, o, c);
      text = differences(found, pass_of(o, arrays, c.setting, slope_error), tolerance);
    } catch (std::exception const& e) {
      text = e.what();
    }
    INFO(std::string(Configuration::name), ", case ", which);
    CHECK(text == "");
    CHECK(slope_error < 1e-6);
  }
}

}  // namespace headmix::definition
