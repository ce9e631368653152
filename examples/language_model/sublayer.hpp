#pragma once
// SPDX-License-Identifier: MIT
// Half a block of the language model: attention, or a feed-forward network. Its kind is an option of the command line,
// so the model calls it through this class, and each kind is compiled once for a backend. A network whose kind is known
// when it is compiled is one program instead: examples/network.

#include <memory>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/program/parameter.hpp"
#include "options.hpp"

namespace lm {

using headmix::Int;
using headmix::segments;
using headmix::view;
using Parameters = std::vector<headmix::parameter<float>>;

/// What a pass through mae computes; the other kinds of attention do not tell them apart.
enum class Pass {
  /// All experts; of a model without gates, with equal weights.
  mixture,
  /// One expert for each sequence and layer, drawn.
  drawn,
  /// One expert, the most probable one by the gate's mean over the sequence; without gates, a drawn one.
  most_probable,
};

/// Numbers of the host, row by row.
template <class T>
struct HostMatrix {
  std::vector<T> numbers;
  Index rows = 0, cols = 0;

  HostMatrix() = default;
  template <class Backend>
  HostMatrix(Backend const& backend, view<T const> from)
      : numbers(static_cast<std::size_t>(from.size())), rows(from.rows), cols(from.cols) {
    headmix::download(backend, numbers.data(), from.data, numbers.size());
  }
};

/// Views are of the backend's memory; h is the residual stream before the sublayer, [tokens, width].
class Sublayer {
 public:
  virtual ~Sublayer() = default;
  Sublayer(Sublayer const&) = delete;
  Sublayer& operator=(Sublayer const&) = delete;

  /// The stream after it. Keeps a reference to h, and is valid until the next pass.
  virtual view<float const> forward(view<float const> h, segments s) = 0;
  /// The gradient by h, of that by the result. Adds to the parameters' gradients, also those of the router's losses.
  virtual view<float const> backward(view<float const> dy) = 0;
  virtual void zero_gradients() = 0;
  [[nodiscard]] virtual Parameters const& parameters() const = 0;
  /// Those of them that belong to a router or a gate.
  [[nodiscard]] virtual Parameters const& routers() const = 0;

  /// What the following passes compute; `step` is the training's.
  virtual void set_pass(Pass, Index /*step*/) {}
  /// The experts or routed heads of every row, or of every sequence of mae, in the last pass. Empty without any.
  [[nodiscard]] virtual HostMatrix<Int> chosen() { return {}; }
  /// The weights of mae's experts for every row, if the last pass mixed them. Empty for others.
  [[nodiscard]] virtual HostMatrix<float> gate() { return {}; }

  /// What continue_text() reads next is the beginning of a text.
  virtual void begin_text() {}
  /// The stream after it, where h goes on after the rows since begin_text().
  virtual view<float const> continue_text(view<float const> h) { return forward(h, headmix::uniform(1, h.rows)); }
  /// Forgets the text, and what it took of memory.
  virtual void end_text() {}

 protected:
  Sublayer() = default;
};

/// Makes that of block `layer`.
template <class Backend>
using MakeSublayer = std::unique_ptr<Sublayer> (*)(Options const& options, Index layer, Backend const& backend);

/// Those are one file for each backend and kind (folders cpu, cuda, emulated).
template <class Backend>
std::unique_ptr<Sublayer> make_dense(Options const& options, Index layer, Backend const& backend);
template <class Backend>
std::unique_ptr<Sublayer> make_moa(Options const& options, Index layer, Backend const& backend);
template <class Backend>
std::unique_ptr<Sublayer> make_moh(Options const& options, Index layer, Backend const& backend);
template <class Backend>
std::unique_ptr<Sublayer> make_mae(Options const& options, Index layer, Backend const& backend);
template <Weights W, class Backend>
std::unique_ptr<Sublayer> make_feed_forward(Options const& options, Index layer, Backend const& backend);

}  // namespace lm
