#pragma once
// SPDX-License-Identifier: MIT
// Decoder: runs a layer or a network on tokens that arrive in order, with a cache of the state that later tokens need.
//
//   Decoder<Network, Cpu<float>> decoder({.sequences = 4, .tokens = 8192}, share_parameters{}, trained);
//   auto y = decoder.prefill(prompts, ragged(offsets, 4));  // any number of rows of each sequence, in any chunks
//   y = decoder.step(x);                                    // one row of each sequence
//   y = decoder.prefill(x, s, memory, m);                   // the first rows of a layer with a second input
//   decoder.reorder(beams);                                 // sequence i goes on as a copy of sequence beams[i]
//   decoder.rewind(0, 17);                                  // sequence 0 has 17 tokens again

#include <optional>

#include "headmix/decode/incremental.hpp"
#include "headmix/decode/page_table.hpp"
#include "headmix/program/module.hpp"

namespace headmix {

namespace detail {
struct is_cache_memory {
  template <class E>
  static constexpr bool value = CacheMemory<E>;
};
/// The second input of a layer that reads Leaves, or void.
template <class L, class Leaves>
struct second_input {
  using type = void;
};
template <class L, class Leaves>
requires(contains<Leaves, typename L::context>) struct second_input<L, Leaves> {
  using type = typename L::context;
};
}  // namespace detail

/// y of the new tokens of each pass equals their rows of the layer's y over the whole sequences, to rounding. On the
/// CPU the bits do not depend on the sizes of chunks or the number of threads, if those of the layer's products do not.
///
/// After the first pass of a shape nothing allocates. After an error the sequences, their pages and the cache are
/// unchanged. One thread at a time may call a decoder.
/// @tparam L a layer, or a network, whose tokens see only earlier ones; see incremental
/// @tparam Backend a backend that satisfies Decodes, such as Cpu and Cuda
template <LayerPolicy L, BackendPolicy Backend>
class Decoder {
  static_assert(Decodes<Backend>, "headmix: this backend has no kernels for decoding (contract/optional_kernels.hpp)");

 public:
  /// The layer over new tokens alone.
  using layer = incremental<L>;
  /// The module with the parameters, the workspace and the program.
  using module_type = Module<layer, Backend, inference>;
  using scalar = typename Backend::scalar;
  /// The scalar type of y.
  using result_scalar = typename module_type::result_scalar;
  /// The scalar type of x: the backend's, or Int.
  using input = storage_t<L::x::kind_of, scalar>;

  /// A decoder over the parameters of a module of the layer, which must outlive it. It has size.sequences empty
  /// sequences. The layer's dynamic sizes follow, as for a Module: `at<depth>(12)`.
  template <class Owner, Extent... X>
  requires std::is_same_v<std::remove_cvref_t<decltype(std::declval<Owner&>().backend())>, Backend> Decoder(
      cache_size const& size, share_parameters, Owner& owner, size_value<X>... sizes)
      : Decoder(private_tag{}, size, share_parameters{}, owner, sizes...) {}
  /// A decoder over a module's parameters with another backend of the same memory.
  template <class Owner, Extent... X>
  Decoder(cache_size const& size, share_parameters, Owner& owner, Backend backend, size_value<X>... sizes)
      : Decoder(private_tag{}, size, share_parameters{}, owner, std::move(backend), sizes...) {}
  /// A decoder with uninitialised weights, to be written through module().
  template <Extent... X>
  Decoder(cache_size const& size, uninitialized, Backend backend = {}, size_value<X>... sizes)
      : Decoder(private_tag{}, size, uninitialized{}, std::move(backend), sizes...) {}
  /// A decoder with the layer's initial weights.
  template <Extent... X>
  Decoder(cache_size const& size, std::uint64_t seed, Backend backend = {}, size_value<X>... sizes)
      : Decoder(private_tag{}, size, seed, std::move(backend), sizes...) {}

  /// y of further tokens, [x.rows, d]: sequence b has s.length(b) of them, possibly none. The view is valid until the
  /// next pass.
  view<result_scalar const> prefill(view<input const> x, segments s) {
    check_rows<tokens>("x", x.rows, s);
    if constexpr (has_context) {
      Index const width = module_.program().template extent<cols<context_of<L>>>();
      return pass(x, s, {nullptr, 0, width}, uniform(sequences(), 0));
    } else {
      return pass(x, s);
    }
  }
  /// y of further tokens of sequences with contexts. Sequence b gets the m.length(b) rows of `context` as its context;
  /// it has none yet, or keeps its context where there are no rows. Keys and values of the context are computed here,
  /// once. A sequence with tokens has a context.
  template <class Of = L>
  view<result_scalar const> prefill(view<input const> x, segments s, view<scalar const> context, segments m) {
    static_assert(!std::is_void_v<context_of<Of>>,
                  "headmix: the layer has no second input; see the option context_dim");
    check_rows<tokens>("x", x.rows, s);
    check_rows<context_tokens>("the context", context.rows, m);
    for (Index b = 0; b < sequences(); ++b) {
      if (m.length(b) > 0 && context_length(b) > 0) {
        fail("Decoder: sequence ", b, " has a context of ", context_length(b), " tokens, found ", m.length(b), " more");
      }
    }
    return pass(x, s, context, m);
  }
  /// y of further tokens, an equal number for each sequence.
  view<result_scalar const> prefill(view<input const> x) {
    Index const n = sequences();
    if (n == 0 || x.rows % n != 0) fail("Decoder: ", x.rows, " rows do not divide evenly into ", n, " sequences");
    return prefill(x, uniform(n, x.rows / n));
  }
  /// y of one further token of each sequence.
  view<result_scalar const> step(view<input const> x) {
    if (x.rows != sequences()) {
      fail("Decoder::step: expected a row for each of the ", sequences(), " sequences, found ", x.rows);
    }
    return prefill(x, uniform(x.rows, 1));
  }

  /// Reorders sequences: sequence i continues as a copy of sequence order[i], or empty for -1. Sequences that are not
  /// named are dropped; copies share pages until one of them writes, and contexts always.
  void reorder(std::span<Index const> order) {
    pages_.reorder(order);
    if (contexts_) contexts_->reorder(order);
  }
  /// Truncates sequence b to its first `length` tokens. Its context stays.
  void rewind(Index b, Index length) { pages_.rewind(b, length); }

  /// The number of sequences.
  [[nodiscard]] Index sequences() const { return pages_.sequences(); }
  /// The number of tokens of sequence b.
  [[nodiscard]] Index length(Index b) const { return pages_.length(b); }
  /// The number of tokens of the context of sequence b.
  template <class Of = L>
  [[nodiscard]] Index context_length(Index b) const {
    static_assert(!std::is_void_v<context_of<Of>>,
                  "headmix: the layer has no second input; see the option context_dim");
    return contexts_->length(b);
  }
  /// The pages of each sequence, and the free ones.
  [[nodiscard]] PageTable const& pages() const { return pages_; }
  /// The module that runs: for its parameters, for load() and prepare_weights(), and for binding further leaves of the
  /// network with program().bind().
  [[nodiscard]] module_type& module() { return module_; }

  /// Bytes of the cache of all sequences.
  [[nodiscard]] std::size_t cache_bytes() {
    std::size_t bytes = 0;
    each_cache([&]<class Leaf>(Index instance) { bytes = aligned(bytes + cache_bytes_of<Leaf>(instance)); });
    return bytes;
  }
  /// Places the cache in `memory` of the backend, aligned to `headmix::alignment`, which must outlive the decoder's
  /// use; for cache_size with own_memory = false. All sequences are empty afterwards.
  void bind_cache(std::span<std::byte> memory) {
    if (memory.size() < cache_bytes()) {
      fail("Decoder: the cache has ", memory.size(), " bytes of memory, expected ", cache_bytes());
    }
    if (reinterpret_cast<std::uintptr_t>(memory.data()) % alignment != 0) {
      fail("Decoder: the memory of the cache must be aligned to ", alignment, " bytes");
    }
    for (Index b = 0; b < sequences(); ++b) {
      rewind(b, 0);
      if (contexts_) contexts_->rewind(b, 0);
    }
    std::size_t offset = 0;
    each_cache([&]<class Leaf>(Index instance) {
      auto const shape = binding().leaf_shape(number_of<Leaf>(instance));
      module_.program().bind(Leaf{}, {reinterpret_cast<scalar*>(memory.data() + offset), shape.rows, shape.cols}, {},
                             instance);
      offset += cache_bytes_of<Leaf>(instance);
    });
    bound_ = true;
  }

 private:
  struct private_tag {};
  template <class... A>
  Decoder(private_tag, cache_size const& size, A&&... module)
      : pages_(size, Backend::cache_rows),
        contexts_(contexts_of(size)),
        module_(make_module(std::forward<A>(module)...)) {
    if (size.own_memory) {
      memory_ = memory_type(cache_bytes());
      bind_cache(memory_.bytes());
    }
  }

  using leaves = typename module_type::program_type::leaves;
  template <class Of>
  using context_of = typename detail::second_input<Of, leaves>::type;
  static constexpr bool has_context = !std::is_void_v<context_of<L>>;

  [[nodiscard]] static std::optional<PageTable> contexts_of(cache_size const& size) {
    if constexpr (has_context) {
      return PageTable(size, Backend::cache_rows, true);
    } else {
      return {};
    }
  }
  template <class... A>
  module_type make_module(A&&... module) const {
    if constexpr (has_context) {
      return module_type(std::forward<A>(module)..., at<cache_page_count>(pages_.pages()),
                         at<cache_page_rows>(pages_.page_rows()),
                         at<cache_pages_per_sequence>(pages_.pages_per_sequence()),
                         at<context_page_count>(contexts_->pages()), at<context_page_rows>(contexts_->page_rows()),
                         at<context_pages_per_sequence>(contexts_->pages_per_sequence()));
    } else {
      return module_type(std::forward<A>(module)..., at<cache_page_count>(pages_.pages()),
                         at<cache_page_rows>(pages_.page_rows()),
                         at<cache_pages_per_sequence>(pages_.pages_per_sequence()));
    }
  }

  template <class Rows>
  void check_rows(char const* what, Index rows, segments const& s) const {
    if (s.count != sequences()) {
      fail("Decoder: there are rows for ", s.count, " sequences, the decoder has ", sequences());
    }
    if (s.past != nullptr) fail("Decoder: the decoder knows what came before; segments::past must be null");
    detail::check_segments(detail::name_source<Rows>(), s, true);
    if (s.rows != rows) fail("Decoder: ", what, " has ", rows, " rows, the sequences have ", s.rows);
  }
  /// Pages reserved for the rows of a pass: appended when the pass has completed, released otherwise.
  class reserved_pages {
   public:
    reserved_pages(PageTable& pages, segments const& s) : pages_(pages), s_(s), copies_(pages.reserve(rows())) {}
    reserved_pages(reserved_pages const&) = delete;
    reserved_pages& operator=(reserved_pages const&) = delete;
    ~reserved_pages() {
      if (!completed_) pages_.release_reserved();
    }
    [[nodiscard]] std::span<PageTable::copy const> copies() const { return copies_; }
    void complete() {
      pages_.append(rows());
      completed_ = true;
    }

   private:
    [[nodiscard]] auto rows() const {
      return [this](Index b) { return s_.length(b); };
    }
    PageTable& pages_;
    segments s_;
    std::span<PageTable::copy const> copies_;
    bool completed_ = false;
  };
  /// The numbers of a pass in memory of the backend.
  struct pass_numbers {
    HostInts<Backend> offsets, past, table;

    [[nodiscard]] segments rows(Backend& on, segments s) {
      if (s.offsets != nullptr) s.offsets = offsets.assign(on, s.offsets, static_cast<std::size_t>(s.count) + 1);
      return s;
    }
    [[nodiscard]] view<Int const> lengths(Backend& on, PageTable const& pages) {
      auto const all = pages.lengths();
      return {past.assign(on, all.data(), all.size()), static_cast<Index>(all.size()), 1};
    }
    [[nodiscard]] view<Int const> pages(Backend& on, PageTable const& all) {
      auto const t = all.table();
      return {table.assign(on, t.data, static_cast<std::size_t>(t.size())), t.rows, t.cols};
    }
  };
  view<result_scalar const> pass(view<input const> x, segments s) {
    if (!bound_) fail("Decoder: give the cache its memory first: bind_cache()");
    reserved_pages reserved(pages_, s);
    for (auto const& c : reserved.copies()) copy_page(c);
    auto& program = module_.program();
    program.bind(typename L::x{}, x);
    segments at = numbers_.rows(backend_, s);
    at.past = numbers_.lengths(backend_, pages_).data;
    program.bind_tokens(at);
    if constexpr (detail::contains<leaves, cache_page_table>) {
      program.bind(cache_page_table{}, numbers_.pages(backend_, pages_));
    }
    auto const y = module_.forward();
    reserved.complete();
    return y;
  }
  view<result_scalar const> pass(view<input const> x, segments s, view<scalar const> context, segments m) {
    for (Index b = 0; b < sequences(); ++b) {
      if (s.length(b) > 0 && context_length(b) + m.length(b) == 0) {
        fail("Decoder: sequence ", b, " has ", s.length(b),
             " tokens and no context; give it one with its first tokens");
      }
    }
    reserved_pages reserved(*contexts_, m);
    auto& program = module_.program();
    program.bind(context_of<L>{}, context);
    program.bind_context(context_numbers_.rows(backend_, m));
    if constexpr (detail::contains<leaves, context_page_table>) {
      program.bind(context_lengths{}, context_numbers_.lengths(backend_, *contexts_));
      program.bind(context_page_table{}, context_numbers_.pages(backend_, *contexts_));
    }
    auto const y = pass(x, s);
    reserved.complete();
    return y;
  }

  using memory_type = backend_memory<Backend>;
  using cache_leaves = detail::filter<leaves, detail::is_cache_memory>;

  [[nodiscard]] detail::Binding& binding() { return detail::binding_of(module_.program()); }
  template <class Leaf>
  [[nodiscard]] std::size_t number_of(Index instance) {
    return detail::program_access::unrolled(module_.program())
        .value(detail::position_in<leaves, Leaf>::value, instance);
  }
  template <class Leaf>
  [[nodiscard]] std::size_t cache_bytes_of(Index instance) {
    return aligned(detail::elements_of(binding(), number_of<Leaf>(instance)) * sizeof(scalar)) + alignment;
  }
  /// Calls f<Leaf>(instance) for every memory of the cache.
  template <class F>
  void each_cache(F f) {
    for_each(cache_leaves{}, [&]<class Leaf>() {
      Index const times = detail::program_access::unrolled(module_.program())
                              .instances_of_leaf(detail::position_in<leaves, Leaf>::value);
      for (Index instance = 0; instance < times; ++instance) f.template operator()<Leaf>(instance);
    });
  }
  /// Copies the first rows of a page, which are the first rows of each of its parts.
  void copy_page(PageTable::copy const& c) {
    constexpr Index granule = Backend::cache_rows;
    Index const page_rows = pages_.page_rows(), rows = (c.rows + granule - 1) / granule * granule;
    each_cache([&]<class Leaf>(Index instance) {
      if constexpr (!std::is_same_v<typename Leaf::positions, token_positions>) return;
      auto const all = detail::typed<scalar>(binding().values()[number_of<Leaf>(instance)]);
      Index const parts = module_.program().template extent<typename Leaf::parts>(), cols = all.cols / parts;
      auto const page = [&](Int number) {
        view<scalar> v(all.data + number * page_rows * all.cols, parts, rows * cols);
        v.row_stride = page_rows * cols;
        return v;
      };
      backend_.map(page(c.to), tree_leaf<scalar, false, false>{page(c.from)}, false);
    });
  }

  PageTable pages_;
  std::optional<PageTable> contexts_;
  module_type module_;
  Backend backend_ = module_.backend();
  memory_type memory_;
  bool bound_ = false;
  pass_numbers numbers_, context_numbers_;
};

}  // namespace headmix
