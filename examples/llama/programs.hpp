#pragma once
// SPDX-License-Identifier: MIT
// The programs that read and train a model, without their types: each is compiled in a unit of its own (folder cpu).

#include <memory>
#include <span>

#include "weights.hpp"

namespace llama {

/// Reads tokens in order, with a cache of keys and values.
class Reader {
 public:
  virtual ~Reader() = default;
  Reader(Reader const&) = delete;
  Reader& operator=(Reader const&) = delete;
  /// The logits behind each of the next tokens, [ids, vocabulary], valid until the next call.
  virtual headmix::view<float const> read(std::span<Int const> ids) = 0;
  /// Begins another text.
  virtual void restart() = 0;

 protected:
  Reader() = default;
};

/// Computes losses with gradients, which are added to those of the weights.
class Trainer {
 public:
  virtual ~Trainer() = default;
  Trainer(Trainer const&) = delete;
  Trainer& operator=(Trainer const&) = delete;
  /// The mean loss in nats per token of `sequences` texts of equal length, one after another.
  virtual double forward(std::span<Int const> ids, std::span<Int const> targets, Index sequences) = 0;
  /// Sets the gradients to those of the latest loss plus `balance` times the mean of the layers' balance losses.
  virtual void backward(double balance) = 0;

 protected:
  Trainer() = default;
};

/// @tparam A  Dense, QueryNorm or TwoStage of network.hpp
/// @param tokens  the most tokens of a text
template <class A, class Backend>
[[nodiscard]] std::unique_ptr<Reader> make_reader(Config const& config, Weights<Backend>& weights, Index tokens);
template <class A, class Backend>
[[nodiscard]] std::unique_ptr<Trainer> make_trainer(Config const& config, Weights<Backend>& weights);

}  // namespace llama
