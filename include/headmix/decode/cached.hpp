#pragma once
// SPDX-License-Identifier: MIT
// Operations on earlier tokens, with a cache: attention, and means over the positions so far. Rows are the new tokens
// of each sequence; segments::past has the number of earlier ones.

#include "headmix/core/type_name.hpp"
#include "headmix/expr/attention_ops.hpp"
#include "headmix/expr/sequence.hpp"

namespace headmix {

/// Number of pages of a cache, and of rows per page.
struct cache_page_count : size<dynamic> {};
struct cache_page_rows : size<dynamic> {};
/// The largest number of pages of a sequence.
struct cache_pages_per_sequence : size<dynamic> {};

/// The table from positions to pages: see cache_pages.
struct cache_page_table : leaf<kind::integer, false, sequences, cache_pages_per_sequence> {};

/// The sizes of the cache of a context, and its table.
struct context_page_count : size<dynamic> {};
struct context_page_rows : size<dynamic> {};
struct context_pages_per_sequence : size<dynamic> {};
struct context_page_table : leaf<kind::integer, false, sequences, context_pages_per_sequence> {};
/// The number of tokens of each context in the cache: none of a context that the pass brings.
struct context_lengths : leaf<kind::integer, false, sequences, size<1>> {};

/// The positions of a cache: the tokens of a decoder.
struct token_positions {
  using page_count = cache_page_count;  ///< pages of the cache
  using page_rows = cache_page_rows;    ///< positions of a page
  using page_table = cache_page_table;  ///< pages of each sequence
};
/// The positions of a cache: the tokens of the contexts of a decoder.
struct context_positions {
  using page_count = context_page_count;  ///< pages of the cache
  using page_rows = context_page_rows;    ///< positions of a page
  using page_table = context_page_table;  ///< pages of each context
};

/// Cache memory of `Cols` numbers for each position, divided evenly among `Parts` key/value heads. `Number`
/// distinguishes the caches of a program.
template <int Number, Extent Cols, Extent Parts, class Positions = token_positions>
struct cache_of_positions : cache_memory<times<typename Positions::page_count, typename Positions::page_rows>, Cols> {
  using parts = Parts;
  /// token_positions or context_positions.
  using positions = Positions;
};

namespace ops {

/// The page table as a kernel operand.
template <class Positions = token_positions>
cache_pages pages_of(auto const& run, view<Int const> table) {
  return {table.data, table.cols, run.template extent<typename Positions::page_rows>()};
}

/// Attention over a cache.
template <class Spec, class Positions>
struct attention_over_cache : operation {
  static constexpr bool needs_scratch = true;
  static constexpr bool validates = true;
  static constexpr bool differentiable = false;
  template <class Q, class...>
  using shape_of = shape<rows<Q>, cols<Q>>;
  template <class...>
  static constexpr kind kind_of = kind::real;

 protected:
  /// Scratch bytes of the kernel, if the backend has it.
  static std::size_t scratch_bytes(auto const& run, auto const& problem, auto const& cache) {
    using backend = std::remove_cvref_t<decltype(run.backend)>;
    static_assert(Decodes<backend>,
                  "headmix: this backend has no kernels for decoding (contract/optional_kernels.hpp)");
    static_assert(Spec::map::identity || MapsScores<backend>,
                  "headmix: attention of this backend takes no score maps (contract/optional_kernels.hpp: MapsScores)");
    return run.backend.cached_attention_scratch(problem, cache);
  }
  /// The problem of the kernel; `further` are the operands behind the caches.
  template <class T>
  static auto problem(auto const& run, view<T> o, view<T const> q, view<T const> k, view<T const> v, auto... further) {
    attention_forward<T, typename Spec::map> p;
    Spec::describe(p, run, q.cols, k.cols, further...);
    p.q = q, p.k = k, p.v = v, p.o = o;
    return p;
  }
  /// The operands of the cache.
  template <class T>
  static attention_cache<T> cache(auto const& run, view<T> keys, view<T> values, view<Int const> table) {
    return {pages_of<Positions>(run, table), keys, values};
  }
};

/// o of attention (see ops::attention) with k and v of the new tokens, and the earlier ones in a cache. Operands: q, k,
/// v, the caches of keys and values, the page table, and the further operands of attention.
template <class Spec>
struct cached_attention : attention_over_cache<Spec, token_positions> {
  using base = attention_over_cache<Spec, token_positions>;
  template <class Q, class K, class V, class Keys, class Values, class Table, class... A>
  using checks = decltype(Spec::template checks<Q, K, V, A...>());

  template <class...>
  static void validate(auto const& run) {
    static bool const checked_once = hides_later_positions();
    static_cast<void>(checked_once);
    Spec::validate(run);
  }
  static std::size_t scratch(auto const& run, auto o, auto q, auto k, auto v, auto keys, auto values, auto table,
                             auto... further) {
    return base::scratch_bytes(run, base::problem(run, o, q, k, v, further...), base::cache(run, keys, values, table));
  }
  static void eval(auto const& run, auto o, auto q, auto k, auto v, auto keys, auto values, auto table,
                   auto... further) {
    run.backend.template cached_attention<typename Spec::mask>(base::problem(run, o, q, k, v, further...),
                                                               base::cache(run, keys, values, table), run.scratch);
  }

 private:
  /// True, or an error: checks positions near the beginning, where a mask that shows later positions does so too.
  static bool hides_later_positions() {
    constexpr Index n = 64;
    for (Index t = 0; t < n; ++t) {
      for (Index s = t + 1; s < 2 * n && s < visible_keys<typename Spec::mask>(t, 2 * n).end; ++s) {
        if (Spec::mask::sees(t, s)) {
          fail("decoding: the mask ", type_name<typename Spec::mask>(), " lets position ", t,
               " see the later position ", s, "; expected one that hides them, as causal does");
        }
      }
    }
    return true;
  }
};

/// o of attention over a context, whose k and v are in a cache or arrive in this pass. Operands: those of
/// cached_attention, with context_lengths behind the page table.
template <class Spec>
struct cached_context_attention : attention_over_cache<Spec, context_positions> {
  using base = attention_over_cache<Spec, context_positions>;
  template <class Q, class K, class V, class Keys, class Values, class Table, class Lengths, class... A>
  using checks = decltype(Spec::template checks<Q, K, V, A...>());

  template <class...>
  static void validate(auto const& run) {
    Spec::validate(run);
  }
  static std::size_t scratch(auto const& run, auto o, auto q, auto k, auto v, auto keys, auto values, auto table,
                             view<Int const> lengths, auto... further) {
    return base::scratch_bytes(run, problem(run, lengths, o, q, k, v, further...),
                               base::cache(run, keys, values, table));
  }
  static void eval(auto const& run, auto o, auto q, auto k, auto v, auto keys, auto values, auto table,
                   view<Int const> lengths, auto... further) {
    run.backend.template cached_attention<typename Spec::mask>(problem(run, lengths, o, q, k, v, further...),
                                                               base::cache(run, keys, values, table), run.scratch);
  }

 private:
  static auto problem(auto const& run, view<Int const> lengths, auto... a) {
    auto p = base::problem(run, a...);
    p.extents.keys.past = lengths.data;
    return p;
  }
};

/// y of ops::window_mean with a of the new tokens, and the earlier ones in a cache.
template <class Window>
struct cached_window_mean : operation {
  static constexpr bool differentiable = false;
  template <class A, class...>
  using shape_of = shape<rows<A>, cols<A>>;
  template <class...>
  using checks = type_list<at_most<extent_value<size<1>>, extent_value<Window>>>;
  static void eval(auto const& run, auto y, auto a, auto cache, auto table) {
    run.backend.cached_window_mean(y, a, run.template segments_of<tokens>(), cache, pages_of(run, table),
                                   run.template extent<Window>());
  }
};

}  // namespace ops
}  // namespace headmix
