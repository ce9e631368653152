#pragma once
// SPDX-License-Identifier: MIT
// A layer over whole sequences, and over chunks of them: as queries of a context, and by a decoder. The results are
// equal if masks, score maps, biases and rotary embedding use one numbering of positions.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/program/module.hpp"

namespace headmix::test {

/// Number of rows and width of the text that is divided into chunks.
inline constexpr Index text_rows = 6, text_width = 8;

/// Scores that depend on the positions of query and key, not only on their distance.
struct by_places : score_map {
  static constexpr auto f(auto s) {
    return s + number<1, 8>{} * query_position{} * key_position{} - number<1, 4>{} * abs(query_position{});
  }
};
/// A mask without a range: the two latest keys, and the first one.
struct first_and_latest {
  static constexpr bool sees(Index t, Index s) { return s <= t && (t - s < 2 || s == 0); }
};

template <class T>
std::vector<T> text(Index first, Index n) {
  std::vector<T> v;
  for (Index i = first * text_width; i < (first + n) * text_width; ++i)
    v.push_back(static_cast<T>(std::sin(1.9 * static_cast<double>(i + 1))));
  return v;
}
/// Gives parameters of equal names equal numbers.
template <class M>
void fill(M& m) {
  for (auto const& p : m.parameters()) {
    double step = 0.7;
    for (char const c : std::string_view(p.name)) step = std::fmod(step * 1.7 + c, 3.1);
    for (Index i = 0; i < p.value.size(); ++i)
      p.value.data[i] = static_cast<std::remove_reference_t<decltype(p.value.data[0])>>(
          0.5 * std::sin(step * static_cast<double>(i + 1)));
  }
}

/// Chunks of the text: rows [begin, end), as queries of the keys [0, keys).
struct chunk {
  Index begin, end, keys;
};
/// All chunks with the keys up to their end: fewer queries than keys, as many, or none.
inline std::vector<chunk> chunks_at_the_end() {
  std::vector<chunk> all;
  for (Index end = 0; end <= text_rows; ++end)
    for (Index begin = 0; begin <= end; ++begin) all.push_back({begin, end, end});
  return all;
}
/// All chunks with the keys of the whole text.
inline std::vector<chunk> chunks_in_the_middle() {
  std::vector<chunk> all;
  for (Index end = 1; end <= text_rows; ++end)
    for (Index begin = 0; begin < end; ++begin) all.push_back({begin, end, text_rows});
  return all;
}

/// Concatenated rows with the offsets of the sequences; or padded at both ends to `width` rows each.
template <class T>
struct rows_of_chunks {
  std::vector<T> rows;
  std::vector<Int> offsets{0};
  std::vector<std::uint8_t> valid;

  void add(Index first, Index n) {
    auto const some = text<T>(first, n);
    rows.insert(rows.end(), some.begin(), some.end());
    offsets.push_back(offsets.back() + static_cast<Int>(n));
  }
  void add_padded(Index first, Index n, Index width) {
    Index const before = (width - n) / 2;
    for (Index i = 0; i < width; ++i) {
      bool const real = i >= before && i < before + n;
      auto const row = real ? text<T>(first + i - before, 1) : std::vector<T>(text_width, T(9));
      rows.insert(rows.end(), row.begin(), row.end());
      valid.push_back(real ? 1 : 0);
    }
  }
  [[nodiscard]] view<T const> all() const {
    return {rows.data(), static_cast<Index>(rows.size()) / text_width, text_width};
  }
  [[nodiscard]] segments sequences() const { return ragged(offsets.data(), static_cast<Index>(offsets.size()) - 1); }
};

template <class Backend>
inline constexpr double tolerance_of = sizeof(typename Backend::scalar) == 8 ? 1e-12 : 2e-5;

/// The largest difference of the rows of a chunk in y, from row `first` on, to those of the whole text.
template <class Y, class T>
double difference_of_rows(Y const& y, Index first, chunk const& c, std::vector<T> const& whole) {
  double worst = 0;
  for (Index i = c.begin; i < c.end; ++i)
    for (Index j = 0; j < text_width; ++j) {
      double const d = std::abs(static_cast<double>(y(first + i - c.begin, j)) -
                                static_cast<double>(whole[static_cast<std::size_t>(i * text_width + j)]));
      worst = d <= worst ? worst : d;
    }
  return worst;
}
template <class Self, class Backend, bool Padded>
auto of_whole() {
  using T = typename Backend::scalar;
  Module<Self, Backend> m(1);
  fill(m);
  auto const x = text<T>(0, text_rows);
  view<T const> y;
  std::vector<std::uint8_t> const real(text_rows, 1);
  Padding const padding(view<std::uint8_t const>(real.data(), 1, text_rows));
  if constexpr (Padded) {
    y = m.forward({x.data(), text_rows, text_width}, padding);
  } else {
    y = m.forward({x.data(), text_rows, text_width});
  }
  return std::vector<T>(y.data, y.data + y.size());
}

/// Cross, with chunks as queries of a context, equals Self on the whole text.
/// @tparam Separate  the mask numbers queries and keys separately
template <class Cross, class Self, class Backend, bool Padded = false, bool Separate = false>
void check_context() {
  using T = typename Backend::scalar;
  CAPTURE(type_name<Cross>());
  auto const whole = of_whole<Self, Backend, Padded>();
  Module<Cross, Backend> m(1);
  fill(m);
  auto const at_end = chunks_at_the_end(), anywhere = chunks_in_the_middle();
  if constexpr (!Separate) {
    rows_of_chunks<T> queries, keys;
    for (chunk const& c : at_end) {
      if constexpr (Padded) {
        queries.add_padded(c.begin, c.end - c.begin, text_rows + 1);
        keys.add_padded(0, c.keys, text_rows + 2);
      } else {
        queries.add(c.begin, c.end - c.begin);
        keys.add(0, c.keys);
      }
    }
    auto const n = static_cast<Index>(at_end.size());
    if constexpr (Padded) {
      Padding const of_queries(view<std::uint8_t const>(queries.valid.data(), n, text_rows + 1));
      Padding const of_keys(view<std::uint8_t const>(keys.valid.data(), n, text_rows + 2));
      auto const y = m.forward(queries.all(), of_queries, keys.all(), of_keys);
      for (Index b = 0; b < n; ++b) {
        chunk const& c = at_end[static_cast<std::size_t>(b)];
        Index const first = b * (text_rows + 1) + (text_rows + 1 - (c.end - c.begin)) / 2;
        CHECK(difference_of_rows(y, first, c, whole) < tolerance_of<Backend>);
      }
    } else {
      auto const y = m.forward(queries.all(), queries.sequences(), keys.all(), keys.sequences());
      for (Index b = 0; b < n; ++b)
        CHECK(difference_of_rows(y, queries.offsets[static_cast<std::size_t>(b)], at_end[static_cast<std::size_t>(b)],
                                 whole) < tolerance_of<Backend>);
    }
  }
  if constexpr (!Padded) {
    // The sequences have the numbers of earlier positions.
    rows_of_chunks<T> queries, keys;
    std::vector<Int> past;
    for (chunk const& c : anywhere) {
      queries.add(c.begin, c.end - c.begin);
      keys.add(0, c.keys);
      past.push_back(static_cast<Int>(c.begin));
    }
    segments s = queries.sequences();
    s.past = past.data();
    auto const y = m.forward(queries.all(), s, keys.all(), keys.sequences());
    for (std::size_t b = 0; b < anywhere.size(); ++b)
      CHECK(difference_of_rows(y, queries.offsets[b], anywhere[b], whole) < tolerance_of<Backend>);
  }
}
/// A decoder of Self equals Self on the whole text.
template <class Self, class Backend>
void check_decoder() {
  using T = typename Backend::scalar;
  CAPTURE(type_name<Self>());
  auto const whole = of_whole<Self, Backend, false>();
  Module<Self, Backend, inference> m(1);
  fill(m);
  Decoder<Self, Backend> decoder({.tokens = text_rows}, share_parameters{}, m);
  for (Index size = 1; size <= text_rows; ++size) {
    decoder.rewind(0, 0);
    for (Index begin = 0; begin < text_rows; begin += size) {
      chunk const c{begin, (std::min)(begin + size, text_rows), 0};
      auto const x = text<T>(c.begin, c.end - c.begin);
      auto const y = decoder.prefill({x.data(), c.end - c.begin, text_width});
      CHECK(difference_of_rows(y, 0, c, whole) < tolerance_of<Backend>);
    }
  }
}
/// All checks for multi-head attention with these options.
template <class Backend, class... Options>
void check_positions() {
  using Self = MultiHead<text_width, 2, 4, Options...>;
  using Cross = MultiHead<text_width, 2, 4, Options..., context_dim<text_width>>;
  constexpr bool pads = Self::template has<padded>;
  constexpr bool separate = separate_positions<typename Self::template option_of<option::mask>>;
  check_context<Cross, Self, Backend, pads, separate>();
  if constexpr (!pads && !separate) check_decoder<Self, Backend>();
}
/// With and without a score map, a bias by relative position, and rotary embedding.
template <class Backend, class... Options>
void check_combinations() {
  using bias = relative_position_bias<2, 3, 4>;
  check_positions<Backend, Options...>();
  check_positions<Backend, Options..., by_places, alibi>();
  check_positions<Backend, Options..., bias>();
  check_positions<Backend, Options..., rope<>>();
  check_positions<Backend, Options..., by_places, bias>();
  check_positions<Backend, Options..., alibi, rope<>>();
  check_positions<Backend, Options..., bias, rope<>>();
  check_positions<Backend, Options..., by_places, alibi, bias, rope<>>();
}

}  // namespace headmix::test
