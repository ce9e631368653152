// SPDX-License-Identifier: MIT
// Whole layers: the attention of an 8B LLaMA 3, and MoH with 24 or 16 of its 32 heads active, with and without dense
// projections, over sequences of 2048 and of 8192 tokens. FLOPs are those of the chosen heads. Forward, and forward
// with backward; call by call and as a CUDA graph. --check: instead, 20 passes that must agree bit by bit.
#include "layer.cuh"
#include "shapes.hpp"

using namespace bench;

namespace {
using shape = llama_shape;

template <class Layer>
void time_llama(std::string const& name, Index active, Index length, Ceilings const& c) {
  double const n = static_cast<double>(length), giga = 1e-9;
  double const projections = 2 * n * shape::d * shape::h * static_cast<double>(2 * active + 2 * shape::groups) * giga;
  // The router: a logit for each head, and two for the groups.
  double const logits = active == shape::heads ? 0 : 2 * n * shape::d * (shape::heads + 2) * giga;
  double const attention = 2 * n * n * static_cast<double>(active) * shape::h * giga;
  time_layer<Layer, shape::d>(name, headmix::uniform(1, length), projections + logits, attention, c,
                              active == shape::heads ? "" : shape::dense_name(length));
}
}  // namespace

int main(int argc, char** argv) {
  try {
    if (checks(argc, argv)) {
      bool ok = repeats<shape::Mixture<16>, shape::d>("MoH 24 of 32/8 x 128, T=2048", headmix::uniform(1, 2048));
      ok &= repeats<shape::Mixture<16, headmix::dense_projections>, shape::d>(
          "MoH 24 of 32/8 x 128, T=2048, dense projections", headmix::uniform(1, 2048));
      return ok ? 0 : 1;
    }
    Ceilings const c = ceilings_of(argc, argv);
    for (Index const length : shape::lengths) {
      time_llama<shape::Dense>(shape::dense_name(length), shape::heads, length, c);
      time_llama<shape::Mixture<16>>(shape::mixture_name(24, length), 24, length, c);
      time_llama<shape::Mixture<8>>(shape::mixture_name(16, length), 16, length, c);
      time_llama<shape::Mixture<16, headmix::dense_projections>>(shape::dense_mixture_name(24, length), 24, length, c);
      time_llama<shape::Mixture<8, headmix::dense_projections>>(shape::dense_mixture_name(16, length), 16, length, c);
    }
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
