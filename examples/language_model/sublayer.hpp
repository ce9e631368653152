#pragma once
// SPDX-License-Identifier: MIT
// Half a block of the language model: attention, or a feed-forward network. The command line selects its kind, so the
// model calls it through this class, and each kind is compiled once for a backend. A network of kinds known at compile
// time is one program instead: examples/network.

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

/// The kind of a pass through mae; other kinds of attention ignore it.
enum class Pass {
  /// All experts; without gates, with equal weights.
  mixture,
  /// One drawn expert for each sequence and layer.
  drawn,
  /// The most probable expert by the gate's mean over the sequence; without gates, a drawn one.
  most_probable,
};

/// A matrix in host memory, by rows.
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

/// A sublayer over numbers T. Views are in the backend's memory; h is the residual stream before the sublayer, [tokens,
/// width].
template <class T>
class Sublayer {
 public:
  virtual ~Sublayer() = default;
  Sublayer(Sublayer const&) = delete;
  Sublayer& operator=(Sublayer const&) = delete;

  /// The stream after the sublayer, valid until the next pass. Keeps a reference to h.
  virtual view<T const> forward(view<T const> h, segments s) = 0;
  /// The gradient of h from that of the result. Adds to the gradients of parameters, including those of the router's
  /// losses.
  virtual view<T const> backward(view<T const> dy) = 0;
  virtual void zero_gradients() = 0;
  [[nodiscard]] virtual Parameters<T> const& parameters() const = 0;
  /// The parameters of routers and gates.
  [[nodiscard]] virtual Parameters<T> const& routers() const = 0;

  /// Sets the kind of the following passes; `step` is that of the training.
  virtual void set_pass(Pass, Index /*step*/) {}
  /// The experts or routed heads of every row (for mae of every sequence) in the last pass; otherwise empty.
  [[nodiscard]] virtual HostMatrix<Int> chosen() { return {}; }
  /// The weights of mae's experts for every row, if the last pass was a mixture; otherwise empty.
  [[nodiscard]] virtual HostMatrix<float> gate() { return {}; }

  /// Begins a text for continue_text().
  virtual void begin_text() {}
  /// The stream after the sublayer for the next rows of the text.
  virtual view<T const> continue_text(view<T const> h) { return forward(h, headmix::uniform(1, h.rows)); }
  /// Ends the text and frees its memory.
  virtual void end_text() {}

 protected:
  Sublayer() = default;
};

/// Makes the sublayer of block `layer`.
template <class Backend>
using MakeSublayer = std::unique_ptr<Sublayer<typename Backend::scalar>> (*)(Options const& options, Index layer,
                                                                             Backend const& backend);

/// Each function is in one file per backend and kind (folders cpu, cpu_bfloat16 and so on).
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
/// Makes the network of --ffn-variant, if it is built.
template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_feed_forward_variant(Options const& options, Index layer,
                                                                              Backend const& backend);
template <Weights W, class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_feed_forward(Options const& options, Index layer,
                                                                      Backend const& backend);

}  // namespace lm
