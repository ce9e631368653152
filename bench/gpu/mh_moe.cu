// SPDX-License-Identifier: MIT
// Whole layers: MH-MoE at the width of the published models, with real and with ternary weights, and the sparse mixture
// of experts, all over 4096 tokens. Forward, and forward with backward; call by call and as a CUDA graph. --check:
// instead, 20 passes that must agree bit by bit.
#include "layer.cuh"

using namespace bench;

namespace {
constexpr Index tokens = 4096;

template <Index experts, Index chosen>
using Router = headmix::SoftmaxTopK<experts, chosen, headmix::gating::raw, headmix::loss::first_choice_balance>;

constexpr Index d = 768, split = 3, experts = 96, k = 3, hidden = 512;
template <class Weights, class... Options>
using Heads = headmix::MhMoe<d, split, Router<experts, k>, headmix::FeedForward<hidden, Weights>, Options...>;

constexpr Index sparse_d = 512, sparse_k = 2, sparse_hidden = 1024;
template <Index E>
using Sparse = headmix::Smoe<sparse_d, Router<E, sparse_k>, headmix::FeedForward<sparse_hidden>>;

/// GFLOP of the products of the router and of the experts, for all rows of width d / h of h to a token.
constexpr double expert_gflop(Index width, Index e, Index chosen, Index inner) {
  return 2e-9 * static_cast<double>(tokens * width * (e + 3 * chosen * inner));
}

template <class Weights>
void time_heads(std::string const& name, Ceilings const& c) {
  double const projections = 2e-9 * static_cast<double>(tokens * 2 * d * d);
  time_layer<Heads<Weights>, d>(name, headmix::uniform(1, tokens), projections + expert_gflop(d, experts, k, hidden), 0,
                                c);
}
template <Index E>
void time_sparse(Ceilings const& c) {
  time_layer<Sparse<E>, sparse_d>("MoE 2 of " + std::to_string(E) + " x 1024", headmix::uniform(1, tokens),
                                  expert_gflop(sparse_d, E, sparse_k, sparse_hidden), 0, c);
}
}  // namespace

int main(int argc, char** argv) {
  using headmix::weights::real, headmix::weights::ternary;
  try {
    if (checks(argc, argv)) {
      bool ok = repeats<Heads<real>, d>("MH-MoE", headmix::uniform(1, tokens));
      ok &= repeats<Heads<ternary, headmix::capacity<1>>, d>("MH-MoE, ternary, a capacity", headmix::uniform(1, 1777));
      return ok ? 0 : 1;
    }
    Ceilings const c = ceilings_of(argc, argv);
    time_heads<real>("MH-MoE 3 of 96 x 512", c);
    time_heads<ternary>("MH-MoE 3 of 96 x 512, ternary", c);
    time_sparse<8>(c);
    time_sparse<16>(c);
    time_sparse<32>(c);
    time_sparse<128>(c);
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
