#pragma once
// SPDX-License-Identifier: MIT
// The launches of a layer, recorded and not run.

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

#include "../../tests/cuda/gates/cubin.hpp"
#include "headmix/program/module.hpp"
#include "work.hpp"

namespace headmix::gpu {
/// By this name compiled kernels know the map of a matrix that TMA copies tiles of.
struct tensor_map {};
}  // namespace headmix::gpu

namespace gpu_model {

struct recorded_launch {
  std::string kernel;  ///< as the demangler writes it; "cuBLAS"
  int threads, shared_bytes;
  work todo;
};

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
    std::shared_ptr<std::vector<recorded_launch>> launches = std::make_shared<std::vector<recorded_launch>>();

    template <headmix::gpu::Kernel K>
    void launch(K const& kernel, Index blocks) const {
      if (blocks > 0)
        launches->push_back({readable(typeid(K).name()), K::threads, K::shared_bytes, work_of(kernel, blocks)});
    }
    template <class T, class A, class B>
    [[nodiscard]] bool gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) const {
      if (!std::is_same_v<A, B> || !(std::is_same_v<T, A> || (std::is_same_v<T, float> && headmix::Half<A>)))
        return false;
      launches->push_back({"cuBLAS", 0, 0, work_of_library(y, a, b, accumulate)});
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
    using tensor_map = headmix::gpu::tensor_map;
    [[nodiscard]] static bool warpgroups() { return with_warpgroups; }
    [[nodiscard]] static tensor_map map_tensor(view<headmix::bfloat16 const>, int) { return {}; }

    std::shared_ptr<memory> scratch = std::make_shared<memory>(std::size_t{32} << 20);
  };
};

struct passes {
  std::vector<recorded_launch> forward, backward;
  std::size_t workspace = 0;  ///< bytes
};
/// Of a layer over bfloat16, from its second pass on.
template <class Layer>
passes record(Index width, headmix::segments sizes) {
  using headmix::bfloat16;
  Recorder::queue const queue;
  headmix::Module<Layer, headmix::Cuda<bfloat16, Recorder>> m(headmix::uninitialized{},
                                                              headmix::Cuda<bfloat16, Recorder>(queue));
  Recorder::memory const memory(static_cast<std::size_t>(sizes.rows * width) * sizeof(bfloat16));
  view<bfloat16 const> const x(memory.as<bfloat16>(), sizes.rows, width);
  std::vector<double> const weights(static_cast<std::size_t>(Layer::losses::size), 0.01);
  passes found;
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

}  // namespace gpu_model
