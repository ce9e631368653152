// SPDX-License-Identifier: MIT
// What a pass asks of a GPU, counted without running it: kernels and products that are launched, and workspace.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/emulated.hpp"
#include "headmix/layer/feed_forward.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"

using namespace headmix;

namespace {

/// A device whose kernels are counted and not run; the vendor's library does the products that cuBLAS would.
struct Counting {
  static constexpr bool host_memory = false;
  using memory = Emulated::memory;

  struct queue {
    std::shared_ptr<std::vector<std::string>> launched = std::make_shared<std::vector<std::string>>();

    template <gpu::Kernel K>
    void launch(K const&, Index blocks) const {
      if (blocks > 0) launched->push_back(std::string(type_name<K>()));
    }
    template <class T, class A, class B>
    [[nodiscard]] bool gemm(view<T>, view<A const>, view<B const>, bool) const {
      bool const known = std::is_same_v<A, B> && (std::is_same_v<T, A> || (std::is_same_v<T, float> && Half<A>));
      if (known) launched->push_back("gemm");
      return known;
    }
    [[nodiscard]] std::span<std::byte> workspace() const { return scratch->bytes(); }
    [[nodiscard]] static int processors() { return 132; }
    static void upload(void* device, void const* host, std::size_t bytes) {
      if (bytes > 0) std::memcpy(device, host, bytes);
    }
    static void download(void* host, void const* device, std::size_t bytes) { upload(host, device, bytes); }
    static void synchronize() {}

    std::shared_ptr<memory> scratch = std::make_shared<memory>(std::size_t{1} << 20);
  };
};

struct counts {
  std::size_t forward, backward, workspace;
  std::string all;  ///< a line for each launch
};
/// Of a layer of width 1024 with 8 sequences of 2048 tokens, from the second pass on.
template <class Layer>
counts of(std::initializer_list<double> weights) {
  constexpr Index tokens = 16384, width = 1024;
  Counting::queue const queue;
  Module<Layer, Cuda<bfloat16, Counting>> m(1, Cuda<bfloat16, Counting>(queue));
  std::vector<bfloat16> const x(static_cast<std::size_t>(tokens * width));
  auto const& launched = queue.launched;
  counts c{};
  for (int pass = 0; pass < 2; ++pass) {
    launched->clear();
    m.forward({x.data(), tokens, width}, uniform(8, 2048));
    c.forward = launched->size();
    m.backward({x.data(), tokens, width}, weights);
    c.backward = launched->size() - c.forward;
  }
  for (auto const& name : *launched) c.all += name.substr(0, 100) + "\n";
  c.workspace = m.program().workspace_bytes();
  return c;
}

}  // namespace

// The numbers are those of this state. They may fall; what makes them rise must be worth it.
TEST_CASE("launches of MoA, 8 of 32 experts of 128") {
  auto const c = of<Moa<1024, 128, SoftmaxTopK<32, 8>>>({0.01, 0.001});
  CAPTURE(c.all);
  CAPTURE(c.workspace);
  CHECK(c.forward <= 10);
  CHECK(c.backward <= 18);
  CHECK(c.workspace <= 525402752);
}
TEST_CASE("launches of multi-head attention, 8 heads of 128") {
  auto const c = of<MultiHead<1024, 8, 128>>({});
  CAPTURE(c.all);
  CHECK(c.forward <= 3);
  CHECK(c.backward <= 11);
}
TEST_CASE("launches of MoH, 4 shared and 4 of 12 routed heads of 64") {
  auto const c = of<Moh<1024, 64, TwoStage<4, 12, 4>>>({0.01});
  CAPTURE(c.all);
  CHECK(c.forward <= 19);
  CHECK(c.backward <= 25);
}
TEST_CASE("launches of MH-MoE, 2 heads, 2 of 8 experts") {
  auto const c = of<MhMoe<1024, 2, SoftmaxTopK<8, 2>, FeedForward<2048>>>({0.01, 0.001});
  CAPTURE(c.all);
  CHECK(c.forward <= 12);
  CHECK(c.backward <= 21);
}
