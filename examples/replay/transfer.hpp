#pragma once
// SPDX-License-Identifier: MIT
// Copies between the tensors of a case and a layer on a backend.

#include <deque>

#include "case.hpp"
#include "headmix/program/module.hpp"

namespace replay {

using namespace headmix;

/// A layer of type L on a backend.
template <class L, class Backend>
class LayerOnBackend {
 public:
  using T = typename Backend::scalar;

  template <Extent... X>
  explicit LayerOnBackend(size_value<X>... sizes) : module_(0, backend_, sizes...) {}
  [[nodiscard]] Module<L, Backend>& module() { return module_; }

  /// A copy on the backend, as a matrix of `cols` columns.
  template <class U = T>
  view<U const> put(std::vector<U> const& from, Index cols) {
    auto& memory = memory_.emplace_back();
    reserve(memory, from.size() * sizeof(U));
    upload(backend_, memory.template as<U>(), from.data(), from.size());
    return {memory.template as<U>(), static_cast<Index>(from.size()) / cols, cols};
  }
  template <class U>
  std::vector<U> get(view<U const> v) {
    std::vector<U> host(static_cast<std::size_t>(v.size()));
    download(backend_, host.data(), v.data, host.size());
    return host;
  }
  template <Parameter P>
  void set(P, Tensor<T> const& t) {
    upload(backend_, module_.template get<P>().value.data, t.value.data(), t.value.size());
  }
  template <Parameter P>
  void give_gradient(P, Tensor<T>& t, Result& result) {
    give_gradient(module_.template get<P>().gradient, t, result);
  }
  void give_gradient(view<T const> g, Tensor<T>& t, Result& result) {
    t.gradient = get(g);
    t.give_back(result);
  }

 private:
  Backend backend_;
  Module<L, Backend> module_;
  std::deque<backend_memory<Backend>> memory_;
};

}  // namespace replay
