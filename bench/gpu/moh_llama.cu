// SPDX-License-Identifier: MIT
// Whole layers: the attention of an 8B LLaMA 3, and MoH with 24 or 16 of its 32 heads active, with and without dense
// projections. FLOPs are those of the chosen heads.
#include "layer.cuh"
#include "shapes.hpp"

namespace {

using namespace bench;
using shape = llama_shape;

template <class Layer>
void add_llama(std::vector<TimedRow>& rows, std::string const& name, Index active, Index sequences, Index length) {
  double const tokens = static_cast<double>(sequences * length), giga = 1e-9;
  double const projections =
      2 * tokens * shape::d * shape::h * static_cast<double>(2 * active + 2 * shape::groups) * giga;
  // The router: a logit for each head, and two for the groups.
  double const logits = active == shape::heads ? 0 : 2 * tokens * shape::d * (shape::heads + 2) * giga;
  double const attention = 2 * tokens * static_cast<double>(length) * static_cast<double>(active) * shape::h * giga;
  add_layer<Layer, shape::d>(rows, name, headmix::uniform(sequences, length), projections + logits, attention,
                             active == shape::heads ? "" : shape::dense_name(sequences, length));
}

}  // namespace

std::vector<TimedRow> bench::timed_rows() {
  std::vector<TimedRow> rows;
  for (auto const& [sequences, length] : {std::pair<Index, Index>{1, 2048}, {1, 8192}, {8, 2048}, {1, 32'768}}) {
    auto const name = [&, b = sequences, t = length](Index active) { return shape::mixture_name(active, b, t); };
    std::string const dense = ", dense projections";
    add_llama<shape::Dense>(rows, shape::dense_name(sequences, length), shape::heads, sequences, length);
    add_llama<shape::Mixture<16, headmix::dense_projections>>(rows, name(24) + dense, 24, sequences, length);
    add_llama<shape::Mixture<8, headmix::dense_projections>>(rows, name(16) + dense, 16, sequences, length);
    add_llama<shape::Mixture<16>>(rows, name(24), 24, sequences, length);
    add_llama<shape::Mixture<8>>(rows, name(16), 16, sequences, length);
  }
  return rows;
}
bool bench::passes_repeat() {
  bool const sparse = repeats<shape::Mixture<16>, shape::d>("MoH 24 of 32/8 x 128, T=2048", headmix::uniform(1, 2048));
  bool const dense = repeats<shape::Mixture<16, headmix::dense_projections>, shape::d>(
      "MoH 24 of 32/8 x 128, T=2048, dense projections", headmix::uniform(1, 2048));
  return sparse && dense;
}
