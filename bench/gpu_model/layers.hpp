#pragma once
// SPDX-License-Identifier: MIT
// The layers that are modelled, and what the design notes say of them: floors on an H200 (bytes and FLOPs over measured
// ceilings), goals, and the published rates of what they are compared with.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../gpu/shapes.hpp"
#include "record.hpp"

namespace gpu_model {

using headmix::causal, headmix::full;

/// A layer, and what the design notes say of it: microseconds, 0 where they say nothing.
struct layer {
  std::string name;
  passes launches;
  double library;                        ///< TFLOP/s of cuBLAS at these sizes
  std::optional<dense_block> yardstick;  ///< dense attention of the same activated width, or that it replaces
  double floor_forward = 0, floor_both = 0;
  double goal_forward = 0, goal_both = 0;        ///< stage 3: of the yardstick's time; without a yardstick microseconds
  double stage_2_forward = 0, stage_2_both = 0;  ///< Sm80's goal, in the same way
};

template <class Mask>
void add_shape_a(std::vector<layer>& all) {
  using shape = bench::shape_a;
  constexpr double library_tflops = 680;
  constexpr bool half = std::is_same_v<Mask, causal>;
  headmix::segments const sizes = headmix::uniform(shape::sequences, shape::length);
  dense_block const dense =
      half ? dense_block{library_tflops, 137.4, 68.7, 484, 370} : dense_block{library_tflops, 137.4, 137.4, 633, 504};
  layer mixture{shape::mixture_name<Mask>(), record<shape::Mixture<Mask>>(shape::d, sizes), library_tflops, dense};
  mixture.floor_forward = half ? 292 : 379;
  mixture.floor_both = mixture.floor_forward + (half ? 536 : 753);
  mixture.goal_forward = half ? 1.25 : 1.20;
  mixture.goal_both = 1.25;  // of gradients that are the same bits every time
  mixture.stage_2_forward = 1.8;
  mixture.stage_2_both = 2.0;
  all.push_back(std::move(mixture));
  layer plain{shape::dense_name<Mask>(), record<shape::Dense<Mask>>(shape::d, sizes), library_tflops, dense};
  plain.floor_forward = half ? 261 : 348;
  plain.floor_both = plain.floor_forward + (half ? 565 : 783);
  all.push_back(std::move(plain));
}

/// The attention of a LLaMA 3 of 8B parameters, with a router of its own.
template <class Layer>
void add_llama(std::vector<layer>& all, std::string const& name, Index length, double floor, double goal) {
  constexpr double library = 740;
  double const scores = 550.0 * static_cast<double>(length * length) / (8192.0 * 8192);
  double const products = 687.0 * static_cast<double>(length) / 8192;
  bool const is_long = length >= 8192;
  all.push_back({name, record<Layer>(bench::llama_shape::d, headmix::uniform(1, length)), library,
                 dense_block{library, products, scores, is_long ? 644.0 : 484.0, is_long ? 541.0 : 370.0},
                 is_long ? floor : 0, 0, 0, is_long ? goal : 0});
}

inline std::vector<layer> all_layers() {
  std::vector<layer> all;
  add_shape_a<full>(all);
  add_shape_a<causal>(all);
  using llama = bench::llama_shape;
  for (Index const length : llama::lengths) {
    add_llama<llama::Dense>(all, llama::dense_name(length), length, 1570, 0);
    add_llama<llama::Mixture<16>>(all, llama::mixture_name(24, length), length, 1310, 0.94);
    add_llama<llama::Mixture<8>>(all, llama::mixture_name(16, length), length, 1040, 0.79);
  }
  using sub_tokens = bench::mh_moe_shape;
  all.push_back({sub_tokens::name_of_many(),
                 record<sub_tokens::Heads<>>(sub_tokens::d, headmix::uniform(1, sub_tokens::many_tokens)), 680,
                 std::nullopt, 901, 901 + 1600, 1450, 1450 + 2900, 2500, 2500 + 5000});
  return all;
}

}  // namespace gpu_model
