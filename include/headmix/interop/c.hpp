#pragma once
// SPDX-License-Identifier: MIT
// The C++ side of interop/c.h: HEADMIX_C_LAYER(prefix, Layer, Backend) in one unit defines the functions that
// HEADMIX_C_DECLARE(prefix, scalar) declares.

#include <array>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/interop/c.h"
#include "headmix/interop/host_threads.hpp"
#include "headmix/program/module.hpp"

namespace headmix::detail {

/// The latest error of a thread, in preallocated memory.
struct c_error {
  char text[1024];
  void set(char const* t) noexcept { std::snprintf(text, sizeof text, "%s", t); }
  static c_error& of_thread() noexcept {
    thread_local c_error e{};
    return e;
  }
};
inline headmix_status c_failure(headmix_status status, char const* text) noexcept {
  c_error::of_thread().set(text);
  return status;
}
/// Calls f, which returns a status or nothing; an exception becomes a status, and its text is stored.
template <class F>
headmix_status c_status_of(F f) noexcept {
  auto const call = [&] {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      return HEADMIX_OK;
    } else {
      return f();
    }
  };
#ifdef HEADMIX_NO_EXCEPTIONS
  return call();
#else
  try {
    return call();
  } catch (Error const& e) {
    return c_failure(HEADMIX_BAD_INPUT, e.what());
  } catch (std::bad_alloc const&) {
    return c_failure(HEADMIX_NO_MEMORY, "headmix: out of memory");
  } catch (std::exception const& e) {
    return c_failure(HEADMIX_FAILED, e.what());
  } catch (...) {
    return c_failure(HEADMIX_FAILED, "headmix: an exception without a text");
  }
#endif
}
template <class T>
T& c_given(T* p, char const* name) {
  if (p == nullptr) fail(name, ": expected a pointer, found NULL");
  return *p;
}

/// Checks that numbers are not null and are aligned.
template <class T>
T* c_numbers(T* p, char const* name) {
  if (p == nullptr) c_given(p, name);
  check_alignment(name, p, alignof(T), 1);
  return p;
}

/// A backend and its threads.
template <class Backend>
struct backend_owner {
  static constexpr bool of_host = false;
  explicit backend_owner(Index threads) {
    if (threads != 1) fail("threads: this layer runs on the thread that calls it; expected 1, found ", threads);
  }
  Backend backend;
};
template <class Scalar, Executor Exec, class Products>
requires(!std::is_empty_v<Exec>) struct backend_owner<Cpu<Scalar, Exec, Products>> {
  static constexpr bool of_host = std::is_same_v<Exec, host_threads>;
  explicit backend_owner(Index n) : threads(n) {}
  Exec threads;
  Cpu<Scalar, Exec, Products> backend{threads};
};

/// The C++ object of a layer of the C interface; HEADMIX_C_LAYER derives from it. Fails as a Module does.
/// @tparam Sizes the dynamic sizes that the user passes, in this order
template <LayerPolicy L, BackendPolicy Backend, Extent... Sizes>
class c_layer {
  static_assert(Backend::host_memory, "headmix: the C interface is for memory of the host");

 public:
  using scalar = typename Backend::scalar;
  using module_type = Module<L, Backend>;
  using input = typename L::x;
  using output = std::remove_cvref_t<decltype(L::y)>;

  c_layer(std::uint64_t seed, Index threads, Index const* sizes, std::size_t n)
      : owner_(threads), module_(make(seed, sizes, n, std::index_sequence_for<Sizes...>{})) {
    for (auto const& p : module_->parameters()) names_.emplace_back(p.name);
  }

  [[nodiscard]] Index input_width() const { return extent<cols<input>>(); }
  [[nodiscard]] Index output_width() const { return extent<cols<output>>(); }
  [[nodiscard]] std::size_t parameter_count() const { return names_.size(); }
  template <class Result>
  void get_parameter(std::size_t which, Result& result) const {
    check_which(which, names_.size(), "parameters");
    auto const& p = module_->parameters()[which];
    result = {names_[which].c_str(), p.value.data, p.gradient.data, p.value.count, p.value.rows, p.value.cols};
  }
  void forward(scalar const* x, Index tokens, Index sequences, Int const* offsets, scalar* y) {
    if (tokens < 0) fail("tokens: expected at least 0, found ", tokens);
    if (sequences < 1) fail("sequences: expected at least 1, found ", sequences);
    if (tokens > 0) c_numbers(x, "x"), c_numbers(y, "y");
    if (offsets == nullptr && tokens % sequences != 0) {
      fail("tokens: ", tokens, " do not divide evenly among ", sequences, " sequences; give their offsets");
    }
    segments const s = offsets != nullptr ? ragged(offsets, sequences) : uniform(sequences, tokens / sequences);
    copy(module_->forward({x, tokens, input_width()}, s), y);
    tokens_ = tokens;
  }
  void backward(scalar const* dy, double const* weights, std::size_t n, scalar* dx) {
    view<scalar const> const gradient(dy, tokens_, output_width());
    if (tokens_ > 0) c_numbers(dy, "dy");
    if (dx != nullptr) c_numbers(dx, "dx");
    constexpr std::size_t losses = L::losses::size;
    if (n != 0 && n != losses) fail("loss_weights: expected 0 or one per loss, ", losses, "; found ", n);
    if (n == 0) {
      module_->backward(gradient);
    } else {
      c_numbers(weights, "loss_weights");
      module_->backward(gradient, std::span<double const>(weights, n));
    }
    if (dx != nullptr) copy(module_->input_gradient(), dx);
  }
  void zero_gradients() { module_->zero_gradients(); }
  [[nodiscard]] static constexpr std::size_t loss_count() { return L::losses::size; }
  [[nodiscard]] double loss(std::size_t which) const {
    check_which(which, loss_count(), "losses");
    return loss(which, std::make_index_sequence<loss_count()>{});
  }
  headmix_status run(Index ith, Index nth, headmix_status (*pass)(void*), void* data) {
    if (pass == nullptr) fail("pass: expected a function, found NULL");
    if constexpr (backend_owner<Backend>::of_host) {
      struct outcome {
        headmix_status status;
        c_error error;
      };
      auto const all = owner_.threads.run(ith, nth, [&] {
        headmix_status const status = pass(data);
        return outcome{status, c_error::of_thread()};
      });
      if (all.status != HEADMIX_OK) c_error::of_thread() = all.error;
      return all.status;
    } else {
      static_cast<void>(ith), static_cast<void>(nth), static_cast<void>(data);
      fail("run: this layer is not on the threads of a host; its backend would have to be Cpu<Scalar, host_threads>");
    }
  }

 private:
  template <std::size_t... Which>
  std::unique_ptr<module_type> make(std::uint64_t seed, Index const* sizes, std::size_t n,
                                    std::index_sequence<Which...>) {
    if (n != sizeof...(Sizes)) {
      std::string names;
      ((names += names.empty() ? " (" : ", ", names += type_name<Sizes>()), ...);
      if (!names.empty()) names += ")";
      fail("sizes: expected ", sizeof...(Sizes), names, ", found ", n);
    }
    if (n > 0) c_given(sizes, "sizes");
    return std::make_unique<module_type>(seed, owner_.backend, at<Sizes>(sizes[Which])...);
  }
  template <Extent X>
  [[nodiscard]] Index extent() const {
    return module_->program().template extent<X>();
  }
  static void check_which(std::size_t which, std::size_t n, char const* what) {
    if (which >= n) fail("which: the layer has ", n, " ", what, ", found number ", which);
  }
  template <std::size_t... Which>
  double loss(std::size_t which, std::index_sequence<Which...>) const {
    double value = 0;
    ((which == Which ? void(value = module_->template loss<static_cast<int>(Which)>()) : void()), ...);
    return value;
  }
  static void copy(view<scalar const> from, scalar* to) {
    for (Index i = 0; i < from.rows; ++i) {
      for (Index j = 0; j < from.cols; ++j) *to++ = from(i, j);
    }
  }

  backend_owner<Backend> owner_;
  std::unique_ptr<module_type> module_;
  std::vector<std::string> names_;
  Index tokens_ = 0;
};

}  // namespace headmix::detail

/// Defines the functions of HEADMIX_C_DECLARE(prefix, scalar) for a layer and a backend, whose names must have no comma
/// (use `using`), followed by the dynamic sizes that prefix_create takes. Once in a program, outside of namespaces.
#define HEADMIX_C_LAYER(prefix, ...)                                                                                 \
  struct prefix : headmix::detail::c_layer<__VA_ARGS__> {                                                            \
    using headmix::detail::c_layer<__VA_ARGS__>::c_layer;                                                            \
  };                                                                                                                 \
  headmix_status prefix##_create(prefix** layer, uint64_t seed, ptrdiff_t threads, ptrdiff_t const* sizes,           \
                                 size_t number_of_sizes) {                                                           \
    return headmix::detail::c_status_of([&] {                                                                        \
      headmix::detail::c_given(layer, "layer") = nullptr;                                                            \
      *layer = new prefix(seed, threads, sizes, number_of_sizes);                                                    \
    });                                                                                                              \
  }                                                                                                                  \
  void prefix##_destroy(prefix* layer) { delete layer; }                                                             \
  char const* prefix##_last_error(void) { return headmix::detail::c_error::of_thread().text; }                       \
  ptrdiff_t prefix##_input_width(prefix const* layer) { return layer == nullptr ? 0 : layer->input_width(); }        \
  ptrdiff_t prefix##_output_width(prefix const* layer) { return layer == nullptr ? 0 : layer->output_width(); }      \
  size_t prefix##_parameter_count(prefix const* layer) { return layer == nullptr ? 0 : layer->parameter_count(); }   \
  headmix_status prefix##_get_parameter(prefix const* layer, size_t which, prefix##_parameter* result) {             \
    return headmix::detail::c_status_of([&] {                                                                        \
      headmix::detail::c_given(layer, "layer").get_parameter(which, headmix::detail::c_given(result, "result"));     \
    });                                                                                                              \
  }                                                                                                                  \
  headmix_status prefix##_forward(prefix* layer, prefix::scalar const* x, ptrdiff_t tokens, ptrdiff_t sequences,     \
                                  int32_t const* offsets, prefix::scalar* y) {                                       \
    return headmix::detail::c_status_of(                                                                             \
        [&] { headmix::detail::c_given(layer, "layer").forward(x, tokens, sequences, offsets, y); });                \
  }                                                                                                                  \
  headmix_status prefix##_backward(prefix* layer, prefix::scalar const* dy, double const* loss_weights,              \
                                   size_t number_of_weights, prefix::scalar* dx) {                                   \
    return headmix::detail::c_status_of(                                                                             \
        [&] { headmix::detail::c_given(layer, "layer").backward(dy, loss_weights, number_of_weights, dx); });        \
  }                                                                                                                  \
  headmix_status prefix##_zero_gradients(prefix* layer) {                                                            \
    return headmix::detail::c_status_of([&] { headmix::detail::c_given(layer, "layer").zero_gradients(); });         \
  }                                                                                                                  \
  size_t prefix##_loss_count(prefix const*) { return prefix::loss_count(); }                                         \
  headmix_status prefix##_loss(prefix const* layer, size_t which, double* result) {                                  \
    return headmix::detail::c_status_of(                                                                             \
        [&] { headmix::detail::c_given(result, "result") = headmix::detail::c_given(layer, "layer").loss(which); }); \
  }                                                                                                                  \
  headmix_status prefix##_run(prefix* layer, ptrdiff_t ith, ptrdiff_t nth, headmix_status (*pass)(void*),            \
                              void* data) {                                                                          \
    return headmix::detail::c_status_of(                                                                             \
        [&] { return headmix::detail::c_given(layer, "layer").run(ith, nth, pass, data); });                         \
  }
