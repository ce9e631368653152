#pragma once
// SPDX-License-Identifier: MIT
// The kernels of a decoder against the reference: prefill in chunks, then steps, over pages in arbitrary order.

#include "headmix/testing/conformance/attention.hpp"

namespace headmix::detail::conformance {

struct decoding_case {
  std::vector<std::vector<Int>> chunks;  ///< offsets of the rows of each pass
  Index rows_per_token, heads, kv_heads, head_dim;
  bool chosen = false;   ///< tokens choose heads
  Index page_units = 1;  ///< rows of a page, in units of the backend's cache_rows
  bool odd = false;      ///< some numbers are not finite
  /// Offsets of the rows of keys of each pass, of a context; empty: those of `chunks`.
  std::vector<std::vector<Int>> key_chunks = {};
  Index group = 1;  ///< a token may choose a head so many times
};

/// Pages of sequences in permuted order, on both sides.
template <class B>
class pages_of {
 public:
  pages_of(bench<B>& b, Index sequences, Index per_sequence, Index rows)
      : table_(b, shuffled(sequences * per_sequence), 1, sequences * per_sequence),
        per_sequence_(per_sequence),
        rows_(rows) {}
  [[nodiscard]] cache_pages host() { return {table_.host().data, per_sequence_, rows_}; }
  [[nodiscard]] cache_pages device() { return {table_.device().data, per_sequence_, rows_}; }
  [[nodiscard]] Index all_rows() const { return table_.host().cols * rows_; }

 private:
  static std::vector<Int> shuffled(Index n) {
    std::vector<Int> order;
    for (Index i = 0; i < n; ++i) order.push_back(static_cast<Int>(i % 2 == 0 ? n - 1 - i / 2 : i / 2));
    return order;
  }
  int_operand<B> table_;
  Index per_sequence_, rows_;
};

/// The rows of a pass, with the number of earlier ones.
template <class B>
class pass_of {
 public:
  pass_of(bench<B>& b, std::vector<Int> const& offsets, std::vector<Int> const& past)
      : rows_(b, offsets), past_(b, past, 1, static_cast<Index>(past.size())) {}
  [[nodiscard]] segments host() { return with(rows_.host(), past_.host().data); }
  [[nodiscard]] segments device() { return with(rows_.device(), past_.device().data); }

 private:
  static segments with(segments s, Int const* past) {
    s.past = past;
    return s;
  }
  sequences_of<B> rows_;
  int_operand<B> past_;
};

/// Calls f(offsets, past) for each pass.
template <class F>
void each_pass(std::vector<std::vector<Int>> const& chunks, F f) {
  std::vector<Int> past(chunks[0].size() - 1, 0);
  for (auto const& offsets : chunks) {
    f(offsets, past);
    for (std::size_t b = 0; b < past.size(); ++b) past[b] += offsets[b + 1] - offsets[b];
  }
}
/// Calls f(offsets, past, offsets of keys, past of keys) for each pass.
template <class F>
void each_pass(std::vector<std::vector<Int>> const& chunks, std::vector<std::vector<Int>> const& keys, F f) {
  std::vector<std::vector<Int>> past_keys;
  each_pass(keys, [&](auto const&, auto const& past) { past_keys.push_back(past); });
  std::size_t pass = 0;
  each_pass(chunks, [&](auto const& offsets, auto const& past) {
    f(offsets, past, keys[pass], past_keys[pass]);
    ++pass;
  });
}
inline Index pages_needed(std::vector<std::vector<Int>> const& chunks, Index page_rows) {
  Index most = 1;
  each_pass(chunks, [&](auto const& offsets, auto const& past) {
    for (std::size_t b = 0; b < past.size(); ++b)
      most = (std::max)(most, (past[b] + offsets[b + 1] - offsets[b] + page_rows - 1) / page_rows);
  });
  return most;
}

template <class Mask, class Map, class B>
void check_cached_attention(bench<B>& b, decoding_case const& c) {
  using T = typename B::scalar;
  Index const rows = c.page_units * B::cache_rows, cols = c.kv_heads * c.head_dim;
  auto const sequences = static_cast<Index>(c.chunks[0].size()) - 1;
  bool const of_context = !c.key_chunks.empty();
  auto const& key_chunks = of_context ? c.key_chunks : c.chunks;
  pages_of<B> pages(b, sequences, pages_needed(key_chunks, rows), rows);
  constexpr Index slack = alignment / sizeof(double);
  operand<B, T> keys(b, pages.all_rows() + slack, cols), values(b, pages.all_rows() + slack, cols);
  operand<B, T> of_heads(b, 1, c.heads);
  int pass = 0;
  each_pass(c.chunks, key_chunks,
            [&](std::vector<Int> const& offsets, std::vector<Int> const& past, std::vector<Int> const& key_offsets,
                std::vector<Int> const& key_past) {
              b.begin("cached_attention", type_name<Mask>(), Map::identity ? "" : ", mapped", ", pass ", pass++, " of ",
                      offsets.back(), " tokens", of_context ? " over a context" : "", " of ", c.rows_per_token,
                      " rows, ", sequences, " sequences, ", c.heads, " heads on ", c.kv_heads, " of ", c.head_dim,
                      c.chosen ? ", chosen" : "", ", pages of ", rows, c.odd ? ", some not finite" : "");
              pass_of<B> tokens(b, offsets, past), of_keys(b, key_offsets, key_past);
              Index const n = offsets.back(), new_keys = key_offsets.back(), q_rows = n * c.rows_per_token,
                          q_cols = (c.chosen ? 1 : c.heads) * c.head_dim;
              int_operand<B> index(
                  b, c.chosen ? choices_of_groups(n, c.rows_per_token, c.heads, c.group) : std::vector<Int>{},
                  c.chosen ? n : 0, c.rows_per_token);
              int_operand<B> slots(b, 1, q_rows), lists(b, 1, sequences * c.heads + 1);
              if (c.chosen)
                b.reference.sort_by_expert(slots.host(), lists.host(), view<Int const>(index.host()), tokens.host());
              slots.send();
              lists.send();
              operand<B, T> q(b, q_rows, q_cols, layout::gaps), k(b, new_keys, cols, layout::gaps),
                  v(b, new_keys, cols, layout::gaps);
              if (c.odd && n > 2) {
                k.set(n / 2, 0, std::numeric_limits<double>::quiet_NaN());
                v.set(n - 1, 1, std::numeric_limits<double>::infinity());
              }
              operand<B, T> o(b, q_rows, q_cols);
              attention_forward<T, Map> f{};
              attention_forward<double, Map> expected{};
              f.extents = {tokens.device(), of_keys.device(), c.rows_per_token, c.heads, c.kv_heads, c.head_dim, {}};
              expected.extents = {tokens.host(), of_keys.host(), c.rows_per_token, c.heads, c.kv_heads, c.head_dim, {}};
              if (c.chosen) {
                f.extents.chosen = {slots.device().data, lists.device().data, c.group};
                expected.extents.chosen = {slots.host().data, lists.host().data, c.group};
              }
              f.extents.separate_positions = expected.extents.separate_positions = of_context;
              f.q = q.in(), f.k = k.in(), f.v = v.in(), f.o = o.device();
              expected.q = q.host(), expected.k = k.host(), expected.v = v.host(), expected.o = o.host();
              f.scores.scale = expected.scores.scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
              if constexpr (Map::operands == 1) {
                f.scores.operands = score_operands<T>(of_heads.in());
                expected.scores.operands = score_operands<double>(view<double const>(of_heads.host()));
              }
              b.reference.template cached_attention<Mask>(expected, {pages.host(), keys.host(), values.host()}, {});
              attention_cache<T> const cache{pages.device(), keys.device().middle_rows(0, pages.all_rows()),
                                             values.device().middle_rows(0, pages.all_rows())};
              auto const scratch = b.scratch(b.backend.cached_attention_scratch(before_memory(f), cache));
              b.run([&] { b.backend.template cached_attention<Mask>(f, cache, scratch); });
              o.check_stretches("o", c.odd ? c.head_dim : 1);
            });
}

template <class B>
void check_cached_means(bench<B>& b, std::vector<std::vector<Int>> const& chunks, Index cols, Index window) {
  using T = typename B::scalar;
  bool const prefix = window == (std::numeric_limits<Int>::max)();
  auto const sequences = static_cast<Index>(chunks[0].size()) - 1;
  pages_of<B> pages(b, sequences, pages_needed(chunks, B::cache_rows), B::cache_rows);
  operand<B, T> cache(b, pages.all_rows(), prefix ? 2 * cols : cols);
  std::vector<double> memory(static_cast<std::size_t>(pages.all_rows() * 2 * cols));
  view<double> const on_host(memory.data(), pages.all_rows(), prefix ? 2 * cols : cols);
  each_pass(chunks, [&](std::vector<Int> const& offsets, std::vector<Int> const& past) {
    b.begin("cached_window_mean", offsets.back(), " tokens of ", cols, " columns, ", sequences, " sequences, window ",
            window);
    pass_of<B> tokens(b, offsets, past);
    operand<B, T> y(b, offsets.back(), cols), a(b, offsets.back(), cols, layout::gaps);
    if (!prefix && offsets.back() > 2)
      a.set(1, 0, std::numeric_limits<double>::quiet_NaN());  // leaves the window with its row
    b.reference.cached_window_mean(y.host(), view<double const>(a.host()), tokens.host(), on_host, pages.host(),
                                   window);
    b.run([&] {
      b.backend.cached_window_mean(y.device(), a.in(), tokens.device(), cache.device(), pages.device(), window);
    });
    y.check("y");
  });
}

/// The kernels of a decoder, if the backend has them.
/// @tparam First  also checks that do not depend on the mask, and score maps, if the backend has them
template <class B, class Mask, bool First>
void check_decoding(bench<B>& b) {
  if constexpr (Decodes<B>) {
    constexpr Index page = B::cache_rows;
    auto const at = [](Index n) { return static_cast<Int>(n); };
    auto const run = [&](decoding_case const& c) { check_cached_attention<Mask, no_score_map>(b, c); };
    std::vector<std::vector<Int>> const one = {{0, 1}, {0, 1}, {0, 3}}, none = {{0, 0}, {0, 0}},
                                        some = {{0, 5, 5, 12}, {0, 1, 2, 3}, {0, 0, 7, 9}, {0, 1, 2, 3}},
                                        pages = {{0, at(page - 1)}, {0, 1}, {0, 1}, {0, at(page + 2)}, {0, 1}};
    run({one, 1, 1, 1, 4});
    run({none, 1, 2, 2, 4});
    run({some, 3, 4, 2, 5});        // MoA
    run({some, 2, 4, 2, 6, true});  // MoH
    run({.chunks = some, .rows_per_token = 3, .heads = 2, .kv_heads = 2, .head_dim = 6, .chosen = true, .group = 3});
    run({pages, 1, 2, 1, 20});          // rows cross pages
    run({pages, 1, 4, 4, 8, true, 2});  // all heads are chosen
    run({some, 2, 2, 1, 5, false, 1, true});
    run({{{0, 300}, {0, 1}}, 1, 16, 16, 4, true});  // many heads, of which a token has one
    // A context: its keys come in the first passes, one of which has no tokens.
    std::vector<std::vector<Int>> const behind = {{0, 0, 0, 0}, {0, 2, 2, 5}, {0, 1, 2, 3}},
                                        context = {{0, 9, 9, 30}, {0, 0, 4, 4}, {0, 0, 0, 0}};
    run({behind, 3, 4, 2, 5, false, 1, false, context});
    run({behind, 2, 4, 2, 6, true, 1, false, context});
    if constexpr (First && MapsScores<B>) check_cached_attention<Mask, scaled_scores>(b, {some, 2, 4, 2, 6});
    if constexpr (First) {
      check_cached_means(b, some, 7, 1);
      check_cached_means(b, some, 7, 3);
      check_cached_means(b, pages, 3, (std::numeric_limits<Int>::max)());
      check_cached_means(b, some, 70, (std::numeric_limits<Int>::max)());
    }
    if (!b.options().large) return;
    run({{{0, 700}, {0, 300}, {0, 1}}, 1, 2, 1, 8, false, 8});  // several tiles, several blocks of rows
  }
}

}  // namespace headmix::detail::conformance
