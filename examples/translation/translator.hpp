#pragma once
// SPDX-License-Identifier: MIT
// A translator of one kind of attention: a module for the encoder and one for the decoder, which share the table of
// subwords; the gradient by the context goes from the decoder to the encoder.

#include <algorithm>
#include <limits>
#include <list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "headmix/backend/cpu.hpp"
#include "headmix/decode/decoder.hpp"
#include "headmix/program/module.hpp"
#include "model.hpp"
#include "translation.hpp"

namespace translation {

using headmix::segments, headmix::view;
using Cpu = headmix::Cpu<float>;

inline view<Int const> column(Ids const& ids) { return {ids.data(), static_cast<Index>(ids.size()), 1}; }
inline segments segments_of(Rows const& r) { return headmix::ragged(r.offsets.data(), r.sentences()); }

/// -log p of a column of a row of logits.
inline double negative_log_probability(view<float const> logits, Index row, Int column) {
  float const* const z = logits.data + row * logits.cols;
  return headmix::detail::log_sum_exp(z, logits.cols) - static_cast<double>(z[column]);
}

/// The encoder and the decoder of the kind's passes, in training.
template <class Kind>
struct Passes {
  headmix::Module<Encoder<Kind>, Cpu> encoder;
  headmix::Module<Loss<Kind>, Cpu> decoder;

  /// The mean loss of a batch, and its gradients.
  double gradients(Batch const& batch, headmix::loss_weights const& weights, Index step, std::uint64_t seed) {
    randomise(seed, step);
    auto const source = segments_of(batch.source);
    auto const context = encoder.forward(column(batch.source.ids), source);
    decoder.program().bind(typename Loss<Kind>::target{}, column(batch.predicted));
    double const loss =
        static_cast<double>(decoder.forward(column(batch.read.ids), segments_of(batch.read), context, source)(0, 0));
    float const one = 1;
    decoder.backward({&one, 1, 1}, weights);
    encoder.backward(decoder.context_gradient(), weights);
    return loss;
  }
  void randomise(std::uint64_t seed, Index step) {
    encoder.set_randomness(headmix::randomness(seed, static_cast<std::uint32_t>(step), 0));
    decoder.set_randomness(headmix::randomness(seed, static_cast<std::uint32_t>(step), 1));
  }
};
template <>
struct Passes<void> {};

template <class Kind>
class TranslatorOf final : public Translator {
 public:
  TranslatorOf(Sizes const& s, std::uint64_t seed)
      : sizes_(s),
        seed_(seed),
        whole_{with_sizes<typename Kind::Encoder>([&](auto... n) {
                 return headmix::Module<Encoder<Kind>, Cpu>(headmix::named_seed(seed, "encoder"), {}, n...);
               }),
               with_sizes<typename Kind::Self, typename Kind::Cross>([&](auto... n) {
                 return headmix::Module<Loss<Kind>, Cpu>(headmix::named_seed(seed, "decoder"), {}, n...);
               })},
        logits_(with_sizes<typename Kind::Self, typename Kind::Cross>([&](auto... n) {
          return headmix::Module<Logits<Kind>, Cpu, headmix::inference>(headmix::share_parameters{}, whole_.decoder,
                                                                        n...);
        })),
        drawn_(drawn_passes()) {
    bind_table(whole_.encoder, typename Encoder<Kind>::table{});
    if constexpr (draws) bind_table(drawn_.encoder, typename Encoder<typename Kind::Drawn>::table{});
    parameters_ = whole_.decoder.parameters();
    parameters_.insert(parameters_.end(), whole_.encoder.parameters().begin(), whole_.encoder.parameters().end());
  }

  [[nodiscard]] bool draws_experts() const override { return draws; }
  [[nodiscard]] std::vector<headmix::parameter<float>> const& parameters() const override { return parameters_; }
  [[nodiscard]] headmix::ParameterGroups<float> groups() const override {
    headmix::ParameterGroups<float> groups;
    groups.add(whole_.decoder), groups.add(whole_.encoder);
    return groups;
  }
  void zero_gradients() override { whole_.encoder.zero_gradients(), whole_.decoder.zero_gradients(); }
  double gradients(Batch const& batch, Pass pass, Index step) override {
    if constexpr (draws) {
      if (pass == Pass::drawn) return drawn_.gradients(batch, {}, step, seed_);
    }
    if constexpr (Loss<Kind>::losses::size == 0) {
      return whole_.gradients(batch, {}, step, seed_);
    } else {
      return whole_.gradients(batch, {{"load_balance", 0.01}, {"z", 0.001}}, step, seed_);
    }
  }
  double negative_log_likelihood(Batch const& batch) override {
    auto const context = encode(batch.source);
    auto const logits =
        logits_.forward(column(batch.read.ids), segments_of(batch.read), context, segments_of(batch.source));
    double sum = 0;
    for (Index i = 0; i < logits.rows; ++i) {
      sum += negative_log_probability(logits, i, batch.predicted[static_cast<std::size_t>(i)]);
    }
    return sum;
  }
  Found translate(Rows const& source, Search const& search) override {
    Index const n = source.sentences();
    Index longest = 1;
    for (Index b = 0; b < n; ++b) longest = std::max(longest, segments_of(source).length(b));
    headmix::cache_size const size{
        .sequences = n * search.beams, .tokens = search.most_tokens, .page = Cpu::cache_rows, .context = longest};
    auto decoder = with_sizes<typename Kind::Self, typename Kind::Cross>([&](auto... sizes) {
      return headmix::Decoder<Logits<Kind>, Cpu>(size, headmix::share_parameters{}, whole_.decoder, sizes...);
    });
    std::vector<Index> const empty(static_cast<std::size_t>(n), -1);
    decoder.reorder(empty);
    Ids const first(static_cast<std::size_t>(n), end_id);
    Ids const no_tokens(static_cast<std::size_t>(n) + 1, 0);
    decoder.prefill({first.data(), 0, 1}, headmix::ragged(no_tokens.data(), n), encode(source), segments_of(source));
    return search_with(decoder, search, n, [&](std::span<Int const> next) { return decoder.step(column_of(next)); });
  }
  Found translate_without_caches(Rows const& source, Search const& search) override {
    WholeSequences all;
    Index const n = source.sentences();
    for (Index b = 0; b < n; ++b) all.sentences.push_back({b, {}});
    auto const context = encode(source);
    std::vector<float> memory(context.data, context.data + context.size()), last;
    return search_with(all, search, n, [&](std::span<Int const> next) {
      Rows read, of;
      std::vector<float> contexts;
      for (std::size_t i = 0; i < next.size(); ++i) {
        auto& [sentence, ids] = all.sentences[i];
        ids.push_back(next[i]);
        read.add(ids);
        auto const begin = source.offsets[static_cast<std::size_t>(sentence)],
                   end = source.offsets[static_cast<std::size_t>(sentence) + 1];
        contexts.insert(contexts.end(), memory.begin() + begin * sizes_.width, memory.begin() + end * sizes_.width);
        of.offsets.push_back(of.offsets.back() + end - begin);
      }
      auto const rows = static_cast<Index>(of.offsets.back());
      auto const logits =
          logits_.forward(column(read.ids), segments_of(read), {contexts.data(), rows, sizes_.width}, segments_of(of));
      last.clear();
      for (std::size_t i = 0; i < next.size(); ++i) {
        float const* const row = logits.data + (read.offsets[i + 1] - 1) * logits.cols;
        last.insert(last.end(), row, row + logits.cols);
      }
      return view<float const>(last.data(), static_cast<Index>(next.size()), logits.cols);
    });
  }

 private:
  static constexpr bool draws = !std::is_void_v<typename Kind::Drawn>;

  /// The sequences of a search without a decoder.
  struct WholeSequences {
    std::vector<std::pair<Index, Ids>> sentences;  ///< the number of the source, and the subwords so far
    [[nodiscard]] Index sequences() const { return static_cast<Index>(sentences.size()); }
    void reorder(std::span<Index const> order) {
      std::vector<std::pair<Index, Ids>> all;
      for (Index const i : order) all.push_back(sentences[static_cast<std::size_t>(i)]);
      sentences = std::move(all);
    }
  };
  static view<Int const> column_of(std::span<Int const> ids) { return {ids.data(), static_cast<Index>(ids.size()), 1}; }

  template <class Sequences, class Next>
  Found search_with(Sequences& sequences, Search const& search, Index n, Next next) {
    Ids const first(static_cast<std::size_t>(n), end_id);
    headmix::beam_options<> const options{.beams = search.beams,
                                          .end = end_id,
                                          .most_tokens = search.most_tokens,
                                          .penalty = {.alpha = search.length_power}};
    std::vector<float> copy;
    return headmix::beam_search(sequences, first, options, [&](std::span<Int const> tokens) {
      view<float const> logits = next(tokens);
      if (search.ends) return logits;
      copy.assign(logits.data, logits.data + logits.size());
      for (Index i = 0; i < logits.rows; ++i) {
        copy[static_cast<std::size_t>(i * logits.cols + end_id)] = -std::numeric_limits<float>::infinity();
      }
      return view<float const>(copy.data(), logits.rows, logits.cols);
    });
  }
  /// The context of sentences, without dropout; valid until the next call.
  view<float const> encode(Rows const& source) {
    whole_.encoder.set_randomness(headmix::randomness::off());
    return whole_.encoder.forward(column(source.ids), segments_of(source));
  }

  /// f(sizes of the model, and of the attention L of a module).
  template <class... L, class F>
  auto with_sizes(F f) const {
    using headmix::at;
    return std::apply(f, std::tuple_cat(std::tuple(at<Width>(sizes_.width), at<Hidden>(sizes_.hidden),
                                                   at<Vocabulary>(sizes_.vocabulary), at<Layers>(sizes_.layers)),
                                        Kind::shared_sizes(sizes_), sizes_of<L>()...));
  }
  template <class L>
  auto sizes_of() const {
    auto const all =
        std::tuple_cat(std::tuple(headmix::at<typename L::model_dim>(sizes_.width)), Kind::template sizes<L>(sizes_));
    if constexpr (L::cross) {
      return std::tuple_cat(all, std::tuple(headmix::at<typename L::context_dim>(sizes_.width)));
    } else {
      return all;
    }
  }
  auto drawn_passes() {
    if constexpr (draws) {
      using Drawn = typename Kind::Drawn;
      return Passes<Drawn>{
          with_sizes<typename Kind::Encoder>([&](auto... n) {
            return headmix::Module<Encoder<Drawn>, Cpu>(headmix::share_parameters{}, whole_.encoder, n...);
          }),
          with_sizes<typename Kind::Self, typename Kind::Cross>([&](auto... n) {
            return headmix::Module<Loss<Drawn>, Cpu>(headmix::share_parameters{}, whole_.decoder, n...);
          })};
    } else {
      return Passes<void>{};
    }
  }
  template <class M, class Table>
  void bind_table(M& encoder, Table table) {
    auto const& W_e = whole_.decoder.template get<typename Logits<Kind>::W_e>();
    encoder.program().bind(table, W_e.value, W_e.gradient);
  }

  Sizes sizes_;
  std::uint64_t seed_;
  Passes<Kind> whole_;
  headmix::Module<Logits<Kind>, Cpu, headmix::inference> logits_;
  Passes<typename Kind::Drawn> drawn_;
  std::vector<headmix::parameter<float>> parameters_;
};

}  // namespace translation
