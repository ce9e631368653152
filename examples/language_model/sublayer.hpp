#pragma once
// SPDX-License-Identifier: MIT
// Half a block of the language model: attention, or a feed-forward network. Its kind is an option of the command line,
// so the model calls it through this class, and each kind is compiled once for a backend. A network whose kind is known
// when it is compiled is one program instead: examples/network.

#include <memory>
#include <type_traits>
#include <vector>

#include "headmix/contract/memory.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/program/parameter.hpp"
#include "options.hpp"

namespace lm {

using headmix::Int;
using headmix::segments;
using headmix::view;
template <class T>
using Parameters = std::vector<headmix::parameter<T>>;

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
  template <class Backend, class S>
  HostMatrix(Backend const& backend, view<S> from)
      : numbers(static_cast<std::size_t>(from.size())), rows(from.rows), cols(from.cols) {
    if constexpr (std::is_same_v<std::remove_const_t<S>, T>) {
      headmix::download(backend, numbers.data(), from.data, numbers.size());
    } else {
      std::vector<std::remove_const_t<S>> narrow(numbers.size());
      headmix::download(backend, narrow.data(), from.data, narrow.size());
      for (std::size_t i = 0; i < narrow.size(); ++i) numbers[i] = static_cast<T>(narrow[i]);
    }
  }
};

/// Over numbers T. Views are of the backend's memory; h is the residual stream before the sublayer, [tokens, width].
template <class T>
class Sublayer {
 public:
  virtual ~Sublayer() = default;
  Sublayer(Sublayer const&) = delete;
  Sublayer& operator=(Sublayer const&) = delete;

  /// The stream after it. Keeps a reference to h, and is valid until the next pass.
  virtual view<T const> forward(view<T const> h, segments s) = 0;
  /// The gradient by h, of that by the result. Adds to the parameters' gradients, also those of the router's losses.
  virtual view<T const> backward(view<T const> dy) = 0;
  virtual void zero_gradients() = 0;
  [[nodiscard]] virtual Parameters<T> const& parameters() const = 0;
  /// Those of them that belong to a router or a gate.
  [[nodiscard]] virtual Parameters<T> const& routers() const = 0;

  /// What the following passes compute; `step` is the training's.
  virtual void set_pass(Pass, Index /*step*/) {}
  /// The experts or routed heads of every row, or of every sequence of mae, in the last pass. Empty without any.
  [[nodiscard]] virtual HostMatrix<Int> chosen() { return {}; }
  /// The weights of mae's experts for every row, if the last pass mixed them. Empty for others.
  [[nodiscard]] virtual HostMatrix<float> gate() { return {}; }

  /// What continue_text() reads next is the beginning of a text.
  virtual void begin_text() {}
  /// The stream after it, where h goes on after the rows since begin_text().
  virtual view<T const> continue_text(view<T const> h) { return forward(h, headmix::uniform(1, h.rows)); }
  /// Forgets the text, and what it took of memory.
  virtual void end_text() {}

 protected:
  Sublayer() = default;
};

/// Makes that of block `layer`.
template <class Backend>
using MakeSublayer = std::unique_ptr<Sublayer<typename Backend::scalar>> (*)(Options const& options, Index layer,
                                                                             Backend const& backend);

/// Those are one file for each backend and kind (folders cpu, cpu_bfloat16 and so on).
template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_dense(Options const& options, Index layer,
                                                               Backend const& backend);
template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_moa(Options const& options, Index layer,
                                                             Backend const& backend);
template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_moh(Options const& options, Index layer,
                                                             Backend const& backend);
template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_mae(Options const& options, Index layer,
                                                             Backend const& backend);
/// That of --ffn-variant, where it is built.
template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_feed_forward_variant(Options const& options, Index layer,
                                                                              Backend const& backend);
template <Weights W, class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_feed_forward(Options const& options, Index layer,
                                                                      Backend const& backend);

}  // namespace lm
