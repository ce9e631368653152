#pragma once
// SPDX-License-Identifier: MIT
// The launches of a layer, recorded instead of run.

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cuda/gates/cubin.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/program/module.hpp"

namespace headmix::testing {

/// A device whose kernels are recorded; cuBLAS does the products that it would.
struct Recorder {
  static constexpr bool host_memory = false;
  /// Whether layers that are recorded take kernels for warpgroups where there are some.
  static inline bool with_warpgroups = false;

  /// Zeros of which nobody touches most, so that a layer's workspace costs nothing.
  class memory {
   public:
    memory() = default;
    explicit memory(std::size_t bytes) : block_(std::calloc(1, bytes + alignment)), bytes_(bytes) {
      if (block_ == nullptr) throw std::bad_alloc();
    }
    template <class T>
    [[nodiscard]] T* as(std::size_t offset = 0) const {
      return reinterpret_cast<T*>(bytes().data() + offset);
    }
    [[nodiscard]] std::span<std::byte> bytes() const {
      auto* const p = static_cast<std::byte*>(block_.get());
      if (p == nullptr) return {};
      return {p + (alignment - reinterpret_cast<std::uintptr_t>(p) % alignment), bytes_};
    }

   private:
    static constexpr std::size_t alignment = 256;
    struct release {
      void operator()(void* p) const { std::free(p); }
    };
    std::unique_ptr<void, release> block_;
    std::size_t bytes_ = 0;
  };

  struct queue {
    /// Names of kernels, as the demangler writes them, and "cuBLAS".
    std::shared_ptr<std::vector<std::string>> launches = std::make_shared<std::vector<std::string>>();

    template <cuda_kernels::Kernel K>
    void launch(K const&, Index blocks) const {
      if (blocks > 0) launches->push_back(readable(typeid(K).name()));
    }
    template <class T, class A, class B>
    [[nodiscard]] bool gemm(view<T>, view<A const>, view<B const>, bool /*accumulate*/) const {
      if (!std::is_same_v<A, B> || !(std::is_same_v<T, A> || (std::is_same_v<T, float> && Half<A>))) return false;
      launches->emplace_back("cuBLAS");
      return true;
    }
    [[nodiscard]] std::span<std::byte> workspace() const { return scratch->bytes(); }
    [[nodiscard]] static int processors() { return 132; }
    [[nodiscard]] static int shared_bytes() { return 227 << 10; }
    static void upload(void* device, void const* host, std::size_t bytes) {
      if (bytes > 0) std::memcpy(device, host, bytes);
    }
    static void download(void* host, void const* device, std::size_t bytes) { upload(host, device, bytes); }
    static void synchronize() {}
    struct tensor_map {};
    [[nodiscard]] static bool warpgroups() { return with_warpgroups; }
    [[nodiscard]] static tensor_map map_tensor(view<bfloat16 const>, int) { return {}; }

    std::shared_ptr<memory> scratch = std::make_shared<memory>(std::size_t{32} << 20);
  };
};

struct recorded_passes {
  std::vector<std::string> forward, backward;
  std::size_t workspace = 0;  ///< bytes
};
/// Launches of a layer over bfloat16, from its second pass on.
template <class Layer>
recorded_passes record(Index width, segments sizes) {
  using Backend = Cuda<bfloat16, Recorder>;
  Recorder::queue const queue;
  Module<Layer, Backend> m(uninitialized{}, Backend(queue));
  Recorder::memory const memory(static_cast<std::size_t>(sizes.rows * width) * sizeof(bfloat16));
  view<bfloat16 const> const x(memory.as<bfloat16>(), sizes.rows, width);
  std::vector<double> const weights(static_cast<std::size_t>(Layer::losses::size), 0.01);
  recorded_passes found;
  for (int pass = 0; pass < 2; ++pass) {
    queue.launches->clear();
    m.forward(x, sizes);
    found.forward = std::exchange(*queue.launches, {});
    m.backward(x, std::span<double const>(weights));
    found.backward = std::exchange(*queue.launches, {});
  }
  found.workspace = m.program().workspace_bytes();
  return found;
}

}  // namespace headmix::testing
