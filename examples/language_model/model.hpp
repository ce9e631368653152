#pragma once
// SPDX-License-Identifier: MIT
// A decoder-only transformer over bytes: embedding, blocks of attention and a feed-forward network, the next byte.
// Bytes and losses are in host memory, everything else in the memory of the backend.

#include <algorithm>
#include <cmath>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "headmix/program/module.hpp"
#include "headmix/train/block_coordinate.hpp"
#include "layers.hpp"
#include "sublayer.hpp"

namespace lm {

/// @tparam Backend its scalar is the type of parameters and activations; the loss is a float
/// @tparam MeanLoss  Loss, or DataParallel<Loss> if processes have different sequences
template <class Backend, class MeanLoss = Loss>
class LanguageModel {
  using T = typename Backend::scalar;

 public:
  LanguageModel(Options const& o, Backend const& backend, MakeSublayer<Backend> make_attention,
                MakeSublayer<Backend> make_feed_forward)
      : backend_(backend),
        embedding_(o.seed, backend_, headmix::at<Stream::D>(o.width)),
        loss_(o.seed, backend_, headmix::at<Stream::D>(o.width)),
        logits_(headmix::share_parameters{}, loss_, headmix::at<Stream::D>(o.width)) {
    add_parameters("", embedding_.parameters(), {});
    for (Index l = 0; l < o.layers; ++l) {
      blocks_.push_back({make_attention(o, l, backend_), make_feed_forward(o, l, backend_)});
      auto const& [attention, network] = blocks_.back();
      add_parameters(headmix::message(l, ".attn."), attention->parameters(), attention->routers());
      add_parameters(headmix::message(l, ".ffn."), network->parameters(), {});
    }
    add_parameters("head.", loss_.parameters(), {});
    initialise(o);
    float const one = 1;
    headmix::upload(backend_, one_.template as<float>(), &one, 1);
  }

  /// Sets the kind of the following passes; `step` is that of the training.
  void set_pass(Pass pass, Index step) {
    for (auto& b : blocks_) b.attention->set_pass(pass, step);
  }
  /// Mean loss in nats of the next byte; `ids` and `targets` hold the concatenated rows of the sequences `s`.
  double forward(Int const* ids, Int const* targets, segments s) {
    auto h = embedded(ids, s);
    for (auto& b : blocks_) h = b.network->forward(b.attention->forward(h, s), s);
    auto const& w = embedding_.template get<Embedding::W_e>();
    loss_.program().bind(Loss::W_e{}, w.value, w.gradient);
    loss_.program().bind(Loss::target{}, column(targets_, targets, s.rows));
    float loss;
    headmix::download(backend_, &loss, loss_.forward(h, s).data, 1);
    return static_cast<double>(loss);
  }
  /// Adds the gradients of the last forward pass, of the loss and the weighted router losses, to those of the
  /// parameters.
  void backward() {
    loss_.backward({one_.template as<float>(), 1, 1});
    view<T const> d_h = loss_.input_gradient();
    for (std::size_t l = blocks_.size(); l-- > 0;) {
      d_h = blocks_[l].attention->backward(blocks_[l].network->backward(d_h));
    }
    embedding_.backward(d_h);
  }
  void zero_gradients() {
    embedding_.zero_gradients();
    for (auto& b : blocks_) {
      b.attention->zero_gradients();
      b.network->zero_gradients();
    }
    loss_.zero_gradients();
  }

  /// Begins a text for continue_text().
  void begin_text() {
    text_length_ = 0;
    for (auto& b : blocks_) b.attention->begin_text();
  }
  /// Ends the text and frees the memory of generation.
  void end_text() {
    for (auto& b : blocks_) b.attention->end_text();
  }
  /// Number of bytes read since begin_text(), at most --context.
  [[nodiscard]] Index text_length() const { return text_length_; }
  /// Reads the next `n` bytes and returns the logits of the byte after them.
  std::vector<float> continue_text(Int const* ids, Index n) {
    auto const s = headmix::uniform(1, n);
    auto h = embedded(ids, s);
    text_length_ += n;
    for (auto& b : blocks_) h = b.network->forward(b.attention->continue_text(h), s);
    logits_.program().bind(Logits::W_e{}, embedding_.template get<Embedding::W_e>().value);
    return HostMatrix<float>(backend_, logits_.forward(h.middle_rows(n - 1, 1))).numbers;
  }

  /// All parameters, with names by their places: 0.attn.layer.W_q.
  [[nodiscard]] Parameters<T> const& parameters() const { return parameters_; }
  /// The parameters in groups: routers and gates of attention, its output matrices, and all others.
  [[nodiscard]] headmix::ParameterGroups<T> const& groups() const { return groups_; }

  struct Block {
    std::unique_ptr<Sublayer<T>> attention, network;
  };
  [[nodiscard]] std::vector<Block> const& blocks() const { return blocks_; }

 private:
  void add_parameters(std::string const& place, Parameters<T> const& all, Parameters<T> const& routers) {
    for (auto p : all) {
      p.name = names_.emplace_back(place + std::string(p.name));
      parameters_.push_back(p);
      bool const output = place.ends_with(".attn.") && p.name.ends_with("W_o");
      (is_among(routers, p) ? groups_.gates : output ? groups_.outputs : groups_.rest).push_back(p);
    }
  }
  /// Matrices are normal(0.02), those that write to the residual stream divided by sqrt(2 layers). Routers of experts
  /// and feed-forward mixtures keep the initial values of their modules: they learn faster with them, since their gates
  /// are small.
  void initialise(Options const& o) {
    std::uint64_t stream = 0x696e6974;
    auto const draw = [&](Parameters<T> const& all, Parameters<T> const& kept) {
      for (auto const& p : all) {
        if (p.whole()[1] == 1 || is_among(kept, p)) continue;
        bool const writes_residual = p.name.ends_with("W_o") || p.name.ends_with("W_2") ||
                                     p.name.ends_with("W_merge") || (p.name.ends_with("W_down") && o.ffn == Ffn::smoe);
        double const sigma = 0.02 / (writes_residual ? std::sqrt(2.0 * static_cast<double>(o.layers)) : 1.0);
        headmix::Random const random(o.seed, stream++);
        std::vector<T> start;
        each_element(
            p, [&](std::uint64_t i) { start.push_back(static_cast<T>(static_cast<float>(sigma * random.normal(i)))); });
        headmix::upload(backend_, p.value.data, start.data(), start.size());
      }
    };
    draw(embedding_.parameters(), {});
    for (Index l = 0; l < o.layers; ++l) {
      auto const& [attention, network] = blocks_[static_cast<std::size_t>(l)];
      draw(attention->parameters(), o.attention == Attention::moh ? Parameters<T>() : attention->routers());
      if (!has_mixture(o, l) || o.ffn_init == FfnInit::normal) draw(network->parameters(), network->routers());
    }
  }
  /// f(number in the whole parameter) for the elements on this rank.
  template <class F>
  static void each_element(headmix::parameter<T> const& p, F f) {
    headmix::tensor_part part = p.part;
    part.whole = p.whole();
    for (Index c = 0; c < p.value.count; ++c) {
      for (Index r = 0; r < p.value.rows; ++r) {
        for (Index k = 0; k < p.value.cols; ++k) f(static_cast<std::uint64_t>(part.number(c, r, k)));
      }
    }
  }
  static bool is_among(Parameters<T> const& all, headmix::parameter<T> const& p) {
    return std::any_of(all.begin(), all.end(), [&p](auto const& q) { return q.value.data == p.value.data; });
  }

  /// The residual stream before the first block.
  view<T const> embedded(Int const* ids, segments s) {
    embedding_.program().bind_tokens(s);
    embedding_.program().bind(Embedding::x{}, column(ids_, ids, s.rows));
    return embedding_.forward();
  }
  /// Host integers as a selection [n, 1] in the backend's memory.
  view<Int const> column(headmix::HostInts<Backend>& memory, Int const* from, Index n) {
    return {memory.assign(backend_, from, static_cast<std::size_t>(n)), n, 1};
  }

  Backend backend_;
  headmix::Module<Embedding, Backend> embedding_;
  std::vector<Block> blocks_;
  headmix::Module<MeanLoss, Backend> loss_;
  headmix::Module<Logits, Backend, headmix::inference> logits_;
  std::list<std::string> names_;
  Parameters<T> parameters_;
  headmix::ParameterGroups<T> groups_;
  Index text_length_ = 0;
  headmix::HostInts<Backend> ids_, targets_;
  headmix::backend_memory<Backend> one_{sizeof(float)};
};

}  // namespace lm
