#pragma once
// SPDX-License-Identifier: MIT
// The parameters of a model, which programs of all attentions share.

#include <deque>
#include <string>
#include <vector>

#include "config.hpp"
#include "headmix/contract/memory.hpp"
#include "headmix/core/random.hpp"
#include "headmix/io/published.hpp"
#include "headmix/program/parameter.hpp"

namespace llama {

/// The tensors of a model of this attention.
[[nodiscard]] inline headmix::TensorNames tensor_names(Config const& c) {
  auto names = headmix::published::llama();
  if (c.attention == Attention::two_stage) {
    names = names + headmix::TensorNames{{"W_r", "wg.weight"}, {"W_h", "wg_0.weight"}, {"W_s", "wg_1.weight"}}
                        .below("model.layers.*.self_attn.")
                        .into("blocks.*.attn");
  }
  return c.tied ? names.ignoring("lm_head.weight") : names;
}

/// Parameters by the names of a Network's, and their gradients if asked for.
template <class Backend>
class Weights {
 public:
  using T = typename Backend::scalar;
  using memory_type = headmix::backend_memory<Backend>;

  Weights(Config const& c, Backend backend, bool gradients) : backend_(std::move(backend)) {
    Index const heads = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
    add("W_e", c.vocabulary, c.width);
    add("gain", 1, c.width);
    if (!c.tied) add("W_lm", c.vocabulary, c.width);
    for (Index b = 0; b < c.depth; ++b) {
      std::string const block = headmix::message("blocks.", b, ".");
      add(block + "attn_gain", 1, c.width);
      add(block + "ffn_gain", 1, c.width);
      if (c.attention == Attention::two_stage) {
        add(block + "attn.W_h", c.width, 2);
        add(block + "attn.W_s", c.width, c.shared_heads);
        add(block + "attn.W_r", c.width, c.heads - c.shared_heads);
      }
      add(block + "attn.W_q", c.width, heads);
      add(block + "attn.W_k", c.width, keys);
      add(block + "attn.W_v", c.width, keys);
      add(block + "attn.W_o", heads, c.width);
      add(block + "ffn.W_gate", c.width, c.hidden);
      add(block + "ffn.W_up", c.width, c.hidden);
      add(block + "ffn.W_down", c.hidden, c.width);
    }
    allocate(
        values_, [](auto& p) -> auto& { return p.value; });
    if (gradients)
      allocate(
          gradients_, [](auto& p) -> auto& { return p.gradient; });
    shared_.list = list_;
    if (c.tied) {
      shared_.list.push_back(list_[0]);
      shared_.list.back().name = "W_lm";
    }
    shared_.on = &backend_;
  }
  Weights(Weights const&) = delete;
  Weights& operator=(Weights const&) = delete;

  /// All parameters, once each: for files and optimisers.
  [[nodiscard]] std::vector<headmix::parameter<T>> const& parameters() const { return list_; }
  [[nodiscard]] Backend const& backend() const { return backend_; }

  /// What modules share: a tied W_lm is the memory of W_e.
  struct Shared {
    using memory_type = Weights::memory_type;
    std::vector<headmix::parameter<T>> list;
    Backend const* on = nullptr;
    [[nodiscard]] std::vector<headmix::parameter<T>> const& parameters() const { return list; }
    [[nodiscard]] Backend const& backend() const { return *on; }
    [[nodiscard]] static std::uint64_t seed() { return 0; }
  };
  [[nodiscard]] Shared& shared() { return shared_; }

  /// Draws the routers of TwoStage, N(0, 0.02^2).
  void draw_routers(std::uint64_t seed) {
    std::uint64_t number = 0;
    for (auto const& p : list_) {
      if (!p.name.ends_with(".W_h") && !p.name.ends_with(".W_s") && !p.name.ends_with(".W_r")) continue;
      headmix::Random const random(seed, number++, headmix::random_stream::parameters);
      for (Index i = 0; i < p.value.size(); ++i) {
        p.value.data[i] = static_cast<T>(static_cast<float>(0.02 * random.normal(static_cast<std::uint64_t>(i))));
      }
    }
  }

 private:
  void add(std::string name, Index rows, Index cols) {
    headmix::parameter<T> p;
    p.name = names_.emplace_back(std::move(name));
    p.value = {nullptr, rows, cols};
    list_.push_back(p);
  }
  /// One block of memory for all values, or all gradients.
  template <class Part>
  void allocate(memory_type& memory, Part part) {
    std::size_t bytes = 0;
    for (auto const& p : list_) bytes += headmix::aligned(static_cast<std::size_t>(p.value.size()) * sizeof(T));
    memory = memory_type(bytes);
    std::size_t offset = 0;
    for (auto& p : list_) {
      part(p) = {memory.template as<T>(offset), p.value.rows, p.value.cols};
      offset += headmix::aligned(static_cast<std::size_t>(p.value.size()) * sizeof(T));
    }
  }

  Backend backend_;
  std::deque<std::string> names_;
  std::vector<headmix::parameter<T>> list_;
  memory_type values_, gradients_;
  Shared shared_;
};

/// Fills the weights from FOLDER, a model of the attention `from`.
template <class Backend>
void load_weights(std::string const& folder, Attention from, Weights<Backend>& weights, Config const& c,
                  std::uint64_t seed) {
  auto names = tensor_names(c);
  if (c.attention == Attention::two_stage && from != Attention::two_stage) {
    names = names.keeping("blocks.*.attn.W_h blocks.*.attn.W_s blocks.*.attn.W_r");
    weights.draw_routers(seed);
  }
  headmix::load(weights, folder, names);
}

}  // namespace llama
