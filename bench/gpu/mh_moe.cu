// SPDX-License-Identifier: MIT
// Whole layers: MH-MoE at the width of the published models, with real and with ternary weights, and the sparse mixture
// of experts, over 4096 tokens, and MH-MoE over 65,536. Forward, and forward with backward; call by call and as a CUDA
// graph. --check: instead, 20 passes that must agree bit by bit.
#include <array>
#include <utility>

#include "layer.cuh"
#include "shapes.hpp"

using namespace bench;

namespace {
constexpr Index tokens = mh_moe_shape::few_tokens;

template <Index experts, Index chosen>
using Router = headmix::SoftmaxTopK<experts, chosen, headmix::gating::raw, headmix::loss::first_choice_balance>;

using shape = mh_moe_shape;

constexpr Index sparse_d = 512, sparse_k = 2, sparse_hidden = 1024;
template <Index E>
using Sparse = headmix::Smoe<sparse_d, Router<E, sparse_k>, headmix::FeedForward<sparse_hidden>>;

/// GFLOP of the products of the router and of the experts, for all rows of width d / h of h to a token.
constexpr double expert_gflop(Index rows, Index width, Index e, Index chosen, Index inner) {
  return 2e-9 * static_cast<double>(rows * width * (e + 3 * chosen * inner));
}

template <class Weights>
void time_heads(std::string const& name, Index rows, Ceilings const& c) {
  double const projections = 2e-9 * static_cast<double>(rows * 2 * shape::d * shape::d);
  double const experts = expert_gflop(rows, shape::d, shape::experts, shape::k, shape::hidden);
  time_layer<shape::Heads<Weights>, shape::d>(name, headmix::uniform(1, rows), projections + experts, 0, c);
}
/// The expert of a slot.
struct choose {
  headmix::Int* index;
  HEADMIX_HD void operator()(Index s) const {
    auto h = static_cast<std::uint32_t>(s) * 0x9E3779B9U;
    h = (h ^ h >> 16) * 0x7FEB352DU;
    index[s] = static_cast<headmix::Int>((h ^ h >> 15) % shape::experts);
  }
};
/// gate u silu(v) over two products, in registers or in memory.
template <class U, class V>
auto swiglu(view<float const> gate, U const& u, V const& v) {
  using namespace headmix;
  using hidden = tree_node<float, ops::multiply, U, tree_node<float, ops::silu, V>>;
  return tree_node<float, ops::multiply, tree_leaf<float, false, true>, hidden>{{gate}, {u, {v}}};
}
/// The hidden layer of the experts for the tokens of the large layer: in one kernel and in three.
void time_hidden(Ceilings const& c) {
  if constexpr (headmix::FusedExperts<Backend>) {
    constexpr Index rows = shape::many_tokens * shape::split, slots = rows * shape::k, width = shape::d / shape::split;
    Backend backend;
    Buffers<bfloat16> const x(backend, rows, width), up(backend, slots, shape::hidden),
        gate(backend, slots, shape::hidden), y(backend, slots, shape::hidden),
        w(backend, 2 * shape::experts, width, shape::hidden, 0.05F);
    Buffers<float> const weight(backend, slots, 1);
    Buffers<headmix::Int> const index(backend, rows, shape::k), perm(backend, 1, slots),
        offsets(backend, 1, shape::experts + 1);
    auto const constant = [](auto v) { return view<std::remove_pointer_t<decltype(v.data)> const>(v); };
    for (int i = 0; i < 3; ++i) {
      backend.for_each(slots, choose{index(i).data});
      backend.sort_by_expert(perm(i), offsets(i), constant(index(i)), headmix::uniform(1, rows));
    }
    auto const stack = [&](int i, Index first) {
      return view<bfloat16 const>(w(i)[first].data, shape::experts, width, shape::hidden);
    };
    double const gflop = 4e-9 * static_cast<double>(slots * width * shape::hidden);
    auto const time = [&](char const* how, Index written, std::function<void(int)> const& f) {
      double const megabytes = x.megabytes() + w.megabytes() + static_cast<double>(written) * y.megabytes();
      row({"kernel", "", std::string("MH-MoE's hidden layer, 65536 tokens: ") + how},
          median_us(backend.queue().stream(), f), gflop, megabytes, c);
    };
    auto const in_one = [&](bool wanted) {
      return [&, wanted](int i) {
        using headmix::tree_product;
        auto const none = view<bfloat16>(nullptr, slots, shape::hidden);
        backend.grouped_gemm_map(y(i), swiglu(constant(weight(i)), tree_product<0>{}, tree_product<1>{}),
                                 std::array{wanted ? up(i) : none, wanted ? gate(i) : none}, constant(x(i)),
                                 std::array{stack(i, 0), stack(i, shape::experts)}, constant(perm(i)),
                                 constant(offsets(i)), shape::k, {});
      };
    };
    time("one kernel", 3, in_one(true));
    time("one kernel, inference", 1, in_one(false));
    time("two products and a map", 3, [&](int i) {
      for (auto const& [to, first] : {std::pair(up(i), Index{0}), std::pair(gate(i), shape::experts)}) {
        backend.grouped_gemm(to, constant(x(i)), stack(i, first), constant(perm(i)), constant(offsets(i)), shape::k,
                             {});
      }
      using leaf = headmix::tree_leaf<bfloat16, false, false>;
      backend.map(y(i), swiglu(constant(weight(i)), leaf{constant(up(i))}, leaf{constant(gate(i))}), false);
    });
  }
}
template <Index E>
void time_sparse(Ceilings const& c) {
  time_layer<Sparse<E>, sparse_d>("MoE 2 of " + std::to_string(E) + " x 1024", headmix::uniform(1, tokens),
                                  expert_gflop(tokens, sparse_d, E, sparse_k, sparse_hidden), 0, c);
}
}  // namespace

int main(int argc, char** argv) {
  using headmix::weights::real, headmix::weights::ternary;
  try {
    if (checks(argc, argv)) {
      bool ok = repeats<shape::Heads<real>, shape::d>("MH-MoE", headmix::uniform(1, tokens));
      ok &= repeats<shape::Heads<ternary, headmix::capacity<1>>, shape::d>("MH-MoE, ternary, a capacity",
                                                                           headmix::uniform(1, 1777));
      return ok ? 0 : 1;
    }
    Ceilings const c = ceilings_of(argc, argv);
    time_heads<real>("MH-MoE 3 of 96 x 512", tokens, c);
    time_heads<real>(shape::name_of_many(), shape::many_tokens, c);
    time_hidden(c);
    time_heads<ternary>("MH-MoE 3 of 96 x 512, ternary", tokens, c);
    time_sparse<8>(c);
    time_sparse<16>(c);
    time_sparse<32>(c);
    time_sparse<128>(c);
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
