#pragma once
// SPDX-License-Identifier: MIT
// A decoder-only transformer over bytes: modules called in order, backward in reverse order. Activations and parameters
// belong to the modules; the gradients of the residual stream belong to the model. Bytes and losses are the host's,
// everything else lies in the memory of the backend.

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/tape/module.hpp"
#include "layers.hpp"
#include "options.hpp"

namespace lm {

using headmix::Int;
using headmix::segments;
using headmix::view;

using Dense = headmix::MultiHead<dynamic, dynamic, dynamic, headmix::causal>;
using MixtureOfHeads = headmix::Moa<dynamic, dynamic, headmix::SoftmaxTopK<dynamic, dynamic>, headmix::causal>;

/// @tparam AttentionLayer Dense or MixtureOfHeads
/// @tparam Backend over float
template <class AttentionLayer, class Backend>
class LanguageModel {
 public:
  static constexpr bool mixture = std::is_same_v<AttentionLayer, MixtureOfHeads>;

  LanguageModel(Options const& options, Backend const& backend)
      : options_(options),
        backend_(backend),
        embedding_(options.seed, backend_, headmix::at<Embedding::D>(options.width),
                   headmix::at<Embedding::Context>(options.context)),
        head_(options.seed, backend_, headmix::at<Head::D>(options.width)),
        predict_(options.seed, backend_) {
    for (Index l = 0; l < options.layers; ++l) {
      blocks_.push_back(std::make_unique<Block>(options, backend_));
    }
    initialise();
    float const numbers[] = {1, mixture ? static_cast<float>(options.moa_scale) : 1.0f};
    headmix::upload(backend_, numbers_.template as<float>(), numbers, 2);
  }

  /// Mean loss in nats of the next byte; `ids` and `targets` hold the rows of the sequences `s`, one after another.
  double forward(Int const* ids, Int const* targets, segments s) {
    auto const h = residual(ids, s);
    head_.tape().bind(Head::x{}, h, gradient_.back().zeros(backend_, h));
    head_.tape().bind(Head::target{}, column(targets_, targets, s.rows));
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
      b.feed_forward.backward(gradient_[l + 1].as_const());
      if constexpr (mixture) {
        b.attention.backward(b.d_attention.as_const(), {options_.balance, options_.z});
      } else {
        b.attention.backward(b.d_attention.as_const());
      }
      b.norm.backward(b.attention.input_gradient());
    }
    embedding_.backward(gradient_.front().as_const());
  }

  void zero_gradients() {
    embedding_.zero_gradients();
    for (auto const& b : blocks_) {
      b->norm.zero_gradients();
      b->attention.zero_gradients();
      b->feed_forward.zero_gradients();
    }
    head_.zero_gradients();
  }

  /// Probabilities of the byte after the last of the `n` bytes.
  std::vector<float> next_byte(Int const* ids, Index n) {
    auto const h = residual(ids, headmix::uniform(1, n));
    predict_.tape().bind(Predict::x{}, h.middle_rows(n - 1, 1));
    predict_.tape().bind(Predict::W_e{}, embedding_.template get<Embedding::W_e>().value);
    predict_.tape().bind(Predict::gain{}, head_.template get<Head::gain>().value);
    predict_.tape().bind(Predict::bias{}, head_.template get<Head::bias>().value);
    auto const p = predict_.forward();
    std::vector<float> probabilities(static_cast<std::size_t>(p.size()));
    headmix::download(backend_, probabilities.data(), p.data, probabilities.size());
    return probabilities;
  }

  /// Adds how often each expert of each layer was chosen in the last forward pass.
  void add_loads(std::vector<std::vector<double>>& loads) {
    if constexpr (mixture) {
      loads.resize(blocks_.size(), std::vector<double>(static_cast<std::size_t>(options_.experts)));
      for (std::size_t l = 0; l < blocks_.size(); ++l) {
        auto const chosen = blocks_[l]->attention.template observed<0>();
        std::vector<Int> experts(static_cast<std::size_t>(chosen.size()));
        headmix::download(backend_, experts.data(), chosen.data, experts.size());
        for (Int const e : experts) loads[l][static_cast<std::size_t>(e)] += 1;
      }
    }
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
      add(b->feed_forward);
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
    [[nodiscard]] view<float const> as_const() const { return matrix_; }

   private:
    headmix::backend_memory<Backend> memory_;
    view<float> matrix_;
  };

  struct Block {
    Block(Options const& o, Backend const& backend)
        : norm(o.seed, backend, headmix::at<PreNorm::D>(o.width)),
          attention(make_attention(o, backend)),
          feed_forward(o.seed, backend, headmix::at<FeedForward::D>(o.width),
                       headmix::at<FeedForward::F>(4 * o.width)) {}
    static headmix::Module<AttentionLayer, Backend> make_attention(Options const& o, Backend const& backend) {
      using L = AttentionLayer;
      if constexpr (mixture) {
        return headmix::Module<L, Backend>(o.seed, backend, headmix::at<typename L::D>(o.width),
                                           headmix::at<typename L::H>(o.head_dim),
                                           headmix::at<typename L::E>(o.experts), headmix::at<typename L::K>(o.top_k));
      } else {
        return headmix::Module<L, Backend>(o.seed, backend, headmix::at<typename L::D>(o.width),
                                           headmix::at<typename L::H>(o.head_dim), headmix::at<typename L::Q>(o.heads),
                                           headmix::at<typename L::P>(o.heads));
      }
    }
    headmix::Module<PreNorm, Backend> norm;
    headmix::Module<AttentionLayer, Backend> attention;
    headmix::Module<FeedForward, Backend> feed_forward;
    GradientBuffer d_attention;
  };

  /// The residual stream after the last block.
  view<float const> residual(Int const* ids, segments s) {
    set_positions(s);
    gradient_.resize(blocks_.size() + 1);
    embedding_.tape().bind_tokens(s);
    embedding_.tape().bind(Embedding::x{}, column(ids_, ids, s.rows));
    embedding_.tape().bind(Embedding::position{}, column(position_ints_, positions_.data(), s.rows));
    view<float const> h = embedding_.forward();
    for (std::size_t l = 0; l < blocks_.size(); ++l) {
      Block& b = *blocks_[l];
      view<float> const d_h = gradient_[l].zeros(backend_, h);
      b.norm.tape().bind(PreNorm::x{}, h, d_h);
      auto const a = b.attention.forward(b.norm.forward(), s);
      b.feed_forward.tape().bind(FeedForward::x{}, h, d_h);
      b.feed_forward.tape().bind(FeedForward::a{}, a, b.d_attention.zeros(backend_, a));
      b.feed_forward.tape().bind(FeedForward::scale{}, {numbers_.template as<float>() + 1, 1, 1});
      h = b.feed_forward.forward();
    }
    return h;
  }

  /// Integers of the host as a selection [n, 1] in the backend's memory.
  view<Int const> column(headmix::HostInts<Backend>& memory, Int const* from, Index n) {
    return {memory.assign(backend_, from, static_cast<std::size_t>(n)), n, 1};
  }
  void set_positions(segments s) {
    positions_.resize(static_cast<std::size_t>(s.rows));
    for (Index b = 0; b < s.count; ++b) {
      for (Index i = s.begin(b); i < s.end(b); ++i) {
        positions_[static_cast<std::size_t>(i)] = static_cast<Int>(i - s.begin(b));
      }
    }
  }
  void bind_tied_embedding() {
    auto const& w = embedding_.template get<Embedding::W_e>();
    head_.tape().bind(Head::W_e{}, w.value, w.gradient);
  }

  /// Matrices are normal(0.02), those that write to the residual stream divided by sqrt(2 layers); routers keep zero.
  void initialise() {
    std::uint64_t stream = 0x696e6974;
    for (auto const& p : parameters()) {
      if (p.value.rows == 1 || p.name == "W_g") continue;
      bool const writes_residual = p.name == "W_o" || p.name == "W_2";
      double const sigma = 0.02 / (writes_residual ? std::sqrt(2.0 * static_cast<double>(options_.layers)) : 1.0);
      headmix::Random const random(options_.seed, stream++);
      std::vector<float> start(static_cast<std::size_t>(p.value.size()));
      for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(sigma * random.normal(i));
      headmix::upload(backend_, p.value.data, start.data(), start.size());
    }
  }

  Options options_;
  Backend backend_;
  headmix::Module<Embedding, Backend> embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  headmix::Module<Head, Backend> head_;
  headmix::Module<Predict, Backend, headmix::inference> predict_;
  std::vector<GradientBuffer> gradient_;  // by the residual stream before each block and after the last
  std::vector<Int> positions_;
  headmix::HostInts<Backend> ids_, position_ints_, targets_;
  headmix::backend_memory<Backend> numbers_{2 * sizeof(float)};  // 1, and the scale of the attention
};

}  // namespace lm
