// SPDX-License-Identifier: MIT
// A decoding step of the attention of an 8B LLaMA 3, and of MoH in its place: one token of each sequence, after many.
#include "headmix/decode/decoder.hpp"
#include "layer.cuh"
#include "shapes.hpp"

namespace {

using namespace bench;
using shape = llama_shape;

template <class Layer>
struct Steps {
  static constexpr Index room = 1024;  // for steps, then the sequences are as long as at first
  Index length;
  Trial<Layer, shape::d, headmix::inference> trial;
  headmix::Decoder<Layer, Backend> decoder;

  Steps(Index sequences, Index before, cudaStream_t stream)
      : length(before),
        trial(headmix::uniform(sequences, 1), Backend(Backend::queue_type(stream))),
        decoder({.sequences = sequences, .tokens = length + room, .page = 256}, headmix::share_parameters{},
                trial.layer) {
    Index const chunk = 512;  // tokens of each sequence at a time
    Buffers<bfloat16> const text(trial.backend, sequences * chunk, shape::d);
    for (Index done = 0; done < length; done += chunk) {
      decoder.prefill(view<bfloat16 const>(text(0)), headmix::uniform(sequences, chunk));
    }
  }
  void step(int i) {
    for (Index b = 0; b < decoder.sequences() && decoder.length(b) == length + room; ++b) decoder.rewind(b, length);
    decoder.step(view<bfloat16 const>(trial.x(i)));
  }
};
template <class Layer>
void add_steps(std::vector<TimedRow>& rows, std::string const& layer, Index active, Index sequences, Index length) {
  std::string const at = ", step of " + std::to_string(sequences) + " x " + std::to_string(length) + " tokens";
  double const b = static_cast<double>(sequences), giga = 1e-9, heads = static_cast<double>(active);
  double const products = 4 * b * shape::d * shape::h * (heads + shape::groups) * giga;
  double const cached = 2e-6 * 2 * b * static_cast<double>(length) * shape::groups * shape::h;
  double const weights = 2e-6 * 2 * shape::d * shape::h * (shape::heads + shape::groups);
  rows.push_back({{"layer", "forward", layer + at, active == shape::heads ? "" : "grouped-query 32/8 x 128" + at},
                  products + 4 * b * heads * static_cast<double>(length) * shape::h * giga,
                  cached + weights,
                  [=](cudaStream_t stream) -> Work {
                    auto const steps = std::make_shared<Steps<Layer>>(sequences, length, stream);
                    return [steps](int i) { steps->step(i); };
                  },
                  false});
}

}  // namespace

std::vector<TimedRow> bench::timed_rows() {
  std::vector<TimedRow> rows;
  for (auto const& [sequences, length] : {std::pair<Index, Index>{1, 4096}, {32, 4096}, {1, 32'768}}) {
    add_steps<shape::Dense>(rows, "grouped-query 32/8 x 128", shape::heads, sequences, length);
    add_steps<shape::Mixture<8>>(rows, "MoH 16 of 32/8 x 128", 16, sequences, length);
  }
  return rows;
}
bool bench::passes_repeat() { return true; }
