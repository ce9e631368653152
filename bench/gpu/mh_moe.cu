// SPDX-License-Identifier: MIT
// Whole layers: MH-MoE at the width of the published models, with real and with ternary weights, and the sparse mixture
// of experts, over 4096 tokens, and MH-MoE over 65,536. Forward, and forward with backward; call by call and as a CUDA
// graph. --check: instead, 20 passes that must agree bit by bit.
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
