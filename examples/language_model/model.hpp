#pragma once
// SPDX-License-Identifier: MIT
// A decoder-only transformer over bytes: modules called in order, backward in reverse order. Activations and parameters
// belong to the modules. The gradient of the residual stream belongs to the model: one matrix, to which whatever reads
// the stream adds. Bytes and losses are the host's, everything else lies in the memory of the backend.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "headmix/decode/decoder.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"
#include "layers.hpp"
#include "mae.hpp"
#include "network.hpp"
#include "options.hpp"
#include "report.hpp"

namespace lm {

using Dense = headmix::MultiHead<dynamic, dynamic, dynamic, headmix::causal>;
using Moa = headmix::Moa<dynamic, dynamic, headmix::SoftmaxTopK<dynamic, dynamic>, headmix::causal>;
template <class Router>
using Moh = headmix::Moh<dynamic, dynamic, Router, headmix::causal>;

// The dynamic sizes of the attention layers.
inline auto sizes_of(std::type_identity<Dense>, Options const& o) {
  return std::tuple(headmix::at<Dense::model_dim>(o.width), headmix::at<Dense::head_dim>(o.head_dim),
                    headmix::at<Dense::heads>(o.heads), headmix::at<Dense::kv_heads>(o.heads));
}
inline auto sizes_of(std::type_identity<Moa>, Options const& o) {
  return std::tuple(headmix::at<Moa::model_dim>(o.width), headmix::at<Moa::head_dim>(o.head_dim),
                    headmix::at<Moa::experts>(o.experts), headmix::at<Moa::top_k>(o.top_k));
}
template <class R>
auto sizes_of(std::type_identity<Moh<R>>, Options const& o) {
  auto const all = std::tuple(
      headmix::at<typename Moh<R>::model_dim>(o.width), headmix::at<typename Moh<R>::head_dim>(o.head_dim),
      headmix::at<typename R::routed_heads>(o.heads - o.shared_heads), headmix::at<typename R::routed_top_k>(o.top_k));
  if constexpr (R::shared_heads::value == dynamic) {
    return std::tuple_cat(all, std::tuple(headmix::at<typename R::shared_heads>(o.shared_heads)));
  } else {
    return all;
  }
}

/// What reads a text byte by byte.
template <class AttentionLayer, class Backend>
struct attention_decoder {
  using type = headmix::Decoder<AttentionLayer, Backend>;
};
template <class Backend>
struct attention_decoder<Mae, Backend> {
  using type = MaeDecoder<Backend>;
};

/// @tparam AttentionLayer Dense, Moa, Moh<a router> or Mae
/// @tparam Backend over float
template <class AttentionLayer, class Backend>
class LanguageModel {
 public:
  static constexpr int router_losses = AttentionLayer::losses::size;  // 0: no router, or one without losses
  static constexpr bool is_mae = std::is_same_v<AttentionLayer, Mae>;

  LanguageModel(Options const& options, Backend const& backend)
      : options_(options),
        backend_(backend),
        embedding_(options.seed, backend_, headmix::at<Embedding::D>(options.width),
                   headmix::at<Embedding::Context>(options.context)),
        head_(options.seed, backend_, headmix::at<Head::D>(options.width)),
        predict_(options.seed, backend_) {
    for (Index l = 0; l < options.layers; ++l) {
      blocks_.push_back(std::make_unique<Block>(options_, l, backend_));
    }
    initialise();
    bool const scales = std::is_same_v<AttentionLayer, Moa>;
    float const numbers[] = {1, scales ? static_cast<float>(options.moa_scale) : 1.0f};
    headmix::upload(backend_, numbers_.template as<float>(), numbers, 2);
  }

  /// What the following passes compute. Experts are drawn anew for each step and layer.
  void set_pass([[maybe_unused]] Pass pass, [[maybe_unused]] Index step) {
    if constexpr (is_mae) {
      for (std::size_t l = 0; l < blocks_.size(); ++l) {
        blocks_[l]->attention.set_pass(
            pass, headmix::randomness(options_.seed, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(l)));
      }
    }
  }

  /// Mean loss in nats of the next byte; `ids` and `targets` hold the rows of the sequences `s`, one after another.
  double forward(Int const* ids, Int const* targets, segments s) {
    auto const h = residual(ids, s);
    head_.program().bind(Head::x{}, h, gradient_.get());
    head_.program().bind(Head::target{}, column(targets_, targets, s.rows));
    bind_tied_embedding();
    float loss;
    headmix::download(backend_, &loss, head_.forward().data, 1);
    return static_cast<double>(loss);
  }

  /// Adds the gradients of the last forward's loss and of the weighted router losses to the parameters' gradients.
  void backward() {
    head_.backward({numbers_.template as<float>(), 1, 1});
    for (std::size_t l = blocks_.size(); l-- > 0;) {
      Block& b = *blocks_[l];
      b.network->backward(gradient_.get());
      b.network_norm.backward(b.network->input_gradient());
      b.sum.backward(gradient_.get());
      if constexpr (router_losses == 2) {
        b.attention.backward(b.d_attention.get(), {options_.balance, options_.z});
      } else if constexpr (router_losses == 1) {
        b.attention.backward(b.d_attention.get(), {options_.balance});
      } else {
        b.attention.backward(b.d_attention.get());
      }
      b.norm.backward(b.attention.input_gradient());
    }
    embedding_.backward(gradient_.get());
  }

  void zero_gradients() {
    embedding_.zero_gradients();
    for (auto const& b : blocks_) {
      b->norm.zero_gradients();
      b->attention.zero_gradients();
      b->network_norm.zero_gradients();
      b->network->zero_gradients();
    }
    head_.zero_gradients();
  }

  /// What continue_text() reads next is the beginning of a text.
  void begin_text() {
    text_length_ = 0;
    for (auto const& b : blocks_) {
      if (!b->decoder) b->decoder.emplace(make_decoder(*b));
      b->decoder->rewind(0, 0);
    }
  }
  /// Forgets the text, and what generating took of memory.
  void end_text() {
    for (auto const& b : blocks_) b->decoder.reset();
  }
  /// Bytes read since begin_text(); there is room for as many as the model sees.
  [[nodiscard]] Index text_length() const { return text_length_; }
  /// Reads `n` bytes that follow those before, and returns the probabilities of the next one.
  std::vector<float> continue_text(Int const* ids, Index n) {
    auto const h = residual(ids, headmix::uniform(1, n), true);
    text_length_ += n;
    predict_.program().bind(Predict::x{}, h.middle_rows(n - 1, 1));
    predict_.program().bind(Predict::W_e{}, embedding_.template get<Embedding::W_e>().value);
    predict_.program().bind(Predict::gain{}, head_.template get<Head::gain>().value);
    predict_.program().bind(Predict::bias{}, head_.template get<Head::bias>().value);
    auto const p = predict_.forward();
    std::vector<float> probabilities(static_cast<std::size_t>(p.size()));
    headmix::download(backend_, probabilities.data(), p.data, probabilities.size());
    return probabilities;
  }

  /// Adds what the experts of each layer did in the last forward pass, over the bytes `ids`.
  void observe(Int const* ids, ExpertUse& use) {
    use.loads.resize(blocks_.size());
    use.ffn_loads.resize(blocks_.size());
    for (std::size_t l = 0; l < blocks_.size(); ++l) {
      auto& attention = blocks_[l]->attention;
      bool mixture = true;
      if constexpr (is_mae) mixture = attention.pass() == Pass::mixture;
      auto const& network = *blocks_[l]->network;
      // Of mae, the pass with single experts is a second one over the same bytes.
      if (mixture && network.experts() > 0) add_loads(network.chosen(), network.experts(), 0, use.ffn_loads[l]);
      if constexpr (is_mae) {
        if (!mixture) {
          add_loads(attention.chosen(), options_.experts, 0, use.loads[l]);
        } else if (attention.has_gate()) {
          add_gate(attention.gate(), ids, l, use);
        }
      } else if constexpr (router_losses > 0) {
        auto const chosen = attention.template observed<0>();
        if (options_.attention == Attention::moh) {
          add_loads(chosen, options_.heads, options_.shared_heads, use.loads[l]);
        } else {
          auto const experts = add_loads(chosen, options_.experts, 0, use.loads[l]);
          bytes_of(l, use).add({ids, chosen.rows, 1}, {experts.data(), chosen.rows, chosen.cols});
        }
      }
    }
  }

  /// Those of the gates of mae.
  [[nodiscard]] std::vector<headmix::parameter<float>> gates() const {
    std::vector<headmix::parameter<float>> all;
    if constexpr (is_mae) {
      for (auto const& b : blocks_) {
        auto const some = b->attention.gates();
        all.insert(all.end(), some.begin(), some.end());
      }
    }
    return all;
  }
  [[nodiscard]] std::vector<headmix::parameter<float>> parameters_without_gates() const {
    auto const all_gates = gates();
    std::vector<headmix::parameter<float>> some;
    for (auto const& p : parameters()) {
      if (!among(all_gates, p)) some.push_back(p);
    }
    return some;
  }
  [[nodiscard]] std::vector<headmix::parameter<float>> parameters() const {
    std::vector<headmix::parameter<float>> all;
    auto const add = [&](auto const& module) {
      all.insert(all.end(), module.parameters().begin(), module.parameters().end());
    };
    add(embedding_);
    for (auto const& b : blocks_) {
      add(b->norm);
      add(b->attention);
      add(b->network_norm);
      add(*b->network);
    }
    add(head_);
    return all;
  }

 private:
  /// A matrix that grows with the batch and is zeroed before gradients are added to it.
  class GradientBuffer {
   public:
    view<float> zeros(Backend& backend, view<float const> like) {
      headmix::reserve(memory_, static_cast<std::size_t>(like.size()) * sizeof(float));
      matrix_ = {memory_.template as<float>(), like.rows, like.cols};
      backend.map(matrix_, headmix::tree_number<float>{0}, false);
      return matrix_;
    }
    [[nodiscard]] view<float> get() const { return matrix_; }

   private:
    headmix::backend_memory<Backend> memory_;
    view<float> matrix_;
  };

  using Decoder = typename attention_decoder<AttentionLayer, Backend>::type;
  struct Block {
    Block(Options const& o, Index layer, Backend const& backend)
        : norm(o.seed, backend, headmix::at<PreNorm::D>(o.width)),
          attention(make_attention(o, backend)),
          sum(o.seed, backend, headmix::at<Sum::D>(o.width)),
          network_norm(o.seed, backend, headmix::at<PreNorm::D>(o.width)),
          network(o.weights == Weights::real ? make_network<Weights::real>(o, layer, backend)
                                             : make_network<Weights::ternary>(o, layer, backend)) {}
    static auto make_attention(Options const& o, Backend const& backend) {
      if constexpr (is_mae) {
        return MaeAttention<Backend>(o, backend);
      } else {
        return std::apply(
            [&](auto... sizes) { return headmix::Module<AttentionLayer, Backend>(o.seed, backend, sizes...); },
            sizes_of(std::type_identity<AttentionLayer>{}, o));
      }
    }
    headmix::Module<PreNorm, Backend> norm;
    std::conditional_t<is_mae, MaeAttention<Backend>, headmix::Module<AttentionLayer, Backend>> attention;
    headmix::Module<Sum, Backend> sum;
    headmix::Module<PreNorm, Backend> network_norm;
    std::unique_ptr<Network> network;
    GradientBuffer d_attention;
    std::optional<Decoder> decoder;
  };
  Decoder make_decoder(Block& b) {
    headmix::cache_size const size{.tokens = options_.context};
    if constexpr (is_mae) {
      return Decoder(options_, size, b.attention);
    } else {
      return std::apply(
          [&](auto... sizes) { return Decoder(size, headmix::share_parameters{}, b.attention, sizes...); },
          sizes_of(std::type_identity<AttentionLayer>{}, options_));
    }
  }

  /// How many rows chose each of the `count` experts or heads, of which all use the first `shared`. Returns the
  /// choices.
  std::vector<Int> add_loads(view<Int const> chosen, Index count, Index shared, std::vector<double>& loads) {
    loads.resize(static_cast<std::size_t>(count));
    std::vector<Int> choices(static_cast<std::size_t>(chosen.size()));
    headmix::download(backend_, choices.data(), chosen.data, choices.size());
    for (Int const e : choices) loads[static_cast<std::size_t>(shared + e)] += 1;
    for (Index e = 0; e < shared; ++e) loads[static_cast<std::size_t>(e)] += static_cast<double>(chosen.rows);
    return choices;
  }
  /// A gate of mae, [rows, experts].
  template <class T>
  void add_gate(std::vector<T> const& gate, Int const* ids, std::size_t layer, ExpertUse& use) {
    auto const rows = static_cast<Index>(gate.size()) / options_.experts;
    view<T const> const g(gate.data(), rows, options_.experts);
    use.gate_entropy.resize(blocks_.size());
    use.gate_entropy[layer] += headmix::gate_entropy(g) * static_cast<double>(rows);
    auto& bytes = bytes_of(layer, use);
    for (Index i = 0; i < rows; ++i) {
      for (Index e = 0; e < options_.experts; ++e) bytes.add(ids[i], e, static_cast<double>(g(i, e)));
    }
  }
  headmix::ExpertCounts& bytes_of(std::size_t layer, ExpertUse& use) {
    use.bytes.resize(blocks_.size(), headmix::ExpertCounts(Embedding::V::value, options_.experts));
    return use.bytes[layer];
  }

  /// The residual stream after the last block. With `continues`, the bytes are those after the text so far.
  view<float const> residual(Int const* ids, segments s, bool continues = false) {
    set_positions(s, continues ? text_length_ : 0);
    embedding_.program().bind_tokens(s);
    embedding_.program().bind(Embedding::x{}, column(ids_, ids, s.rows));
    embedding_.program().bind(Embedding::position{}, column(position_ints_, positions_.data(), s.rows));
    view<float const> h = embedding_.forward();
    view<float> const d_h = gradient_.zeros(backend_, h);
    for (auto const& b : blocks_) {
      b->norm.program().bind(PreNorm::x{}, h, d_h);
      auto const n = b->norm.forward();
      auto const a = continues ? b->decoder->prefill(n) : b->attention.forward(n, s);
      b->sum.program().bind(Sum::x{}, h);
      b->sum.program().bind(Sum::a{}, a, b->d_attention.zeros(backend_, a));
      b->sum.program().bind(Sum::scale{}, {numbers_.template as<float>() + 1, 1, 1});
      h = b->sum.forward();
      b->network_norm.program().bind(PreNorm::x{}, h, d_h);
      h = b->network->forward(b->network_norm.forward(), h, s);
    }
    return h;
  }

  /// Integers of the host as a selection [n, 1] in the backend's memory.
  view<Int const> column(headmix::HostInts<Backend>& memory, Int const* from, Index n) {
    return {memory.assign(backend_, from, static_cast<std::size_t>(n)), n, 1};
  }
  void set_positions(segments s, Index first) {
    positions_.resize(static_cast<std::size_t>(s.rows));
    for (Index b = 0; b < s.count; ++b) {
      for (Index i = s.begin(b); i < s.end(b); ++i) {
        positions_[static_cast<std::size_t>(i)] = static_cast<Int>(first + i - s.begin(b));
      }
    }
  }
  void bind_tied_embedding() {
    auto const& w = embedding_.template get<Embedding::W_e>();
    head_.program().bind(Head::W_e{}, w.value, w.gradient);
  }

  /// Whether `p` is one of `all`.
  static bool among(std::vector<headmix::parameter<float>> const& all, headmix::parameter<float> const& p) {
    return std::any_of(all.begin(), all.end(), [&p](auto const& q) { return q.value.data == p.value.data; });
  }
  /// Matrices are normal(0.02), those that write to the residual stream divided by sqrt(2 layers). Routers and
  /// feed-forward mixtures keep the start of their modules: they learn faster with it, since their gates are small.
  /// Gates of mae are drawn for each layer.
  void initialise() {
    std::uint64_t stream = 0x696e6974;
    std::vector<headmix::parameter<float>> mixtures;
    for (auto const& b : blocks_) {
      auto const& some = b->network->parameters();
      if (b->network->experts() > 0) mixtures.insert(mixtures.end(), some.begin(), some.end());
    }
    auto const all_gates = gates();
    for (auto const& p : parameters()) {
      if (p.value.rows == 1 || p.name == "W_g" || among(mixtures, p)) continue;
      bool const writes_residual = p.name == "W_o" || p.name == "W_2";
      double const sigma = 0.02 / (writes_residual ? std::sqrt(2.0 * static_cast<double>(options_.layers)) : 1.0);
      headmix::Random const random(options_.seed, stream++);
      std::vector<float> start(static_cast<std::size_t>(p.value.size()));
      bool const gate = among(all_gates, p);
      for (std::size_t i = 0; i < start.size(); ++i) {
        start[i] = static_cast<float>(gate ? headmix::xavier_uniform<>::value(random, i, p.value.rows, p.value.cols)
                                           : sigma * random.normal(i));
      }
      headmix::upload(backend_, p.value.data, start.data(), start.size());
    }
  }

  Options options_;
  Backend backend_;
  headmix::Module<Embedding, Backend> embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  headmix::Module<Head, Backend> head_;
  headmix::Module<Predict, Backend, headmix::inference> predict_;
  GradientBuffer gradient_;  // by the residual stream
  std::vector<Int> positions_;
  Index text_length_ = 0;
  headmix::HostInts<Backend> ids_, position_ints_, targets_;
  headmix::backend_memory<Backend> numbers_{2 * sizeof(float)};  // 1, and the scale of the attention
};

}  // namespace lm
