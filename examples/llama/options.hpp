#pragma once
// SPDX-License-Identifier: MIT
// The command line of headmix-llama: FOLDER, a command, options.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config.hpp"
#include "headmix/decode/sampling.hpp"

namespace llama {

enum class Command { costs, generate, evaluate, train, convert };
enum class Rounding { master, stochastic };

struct Options {
  bool help = false;
  std::string folder;
  Command command = Command::costs;
  bool has_attention = false;  ///< --attention is given
  Attention attention = Attention::dense;
  Index shared_heads = 0, top_k = 0;  ///< 0: those of the model, or a half and a quarter of the heads
  std::string data, out, prompt, prompt_file;
  Index context = 512, batch = 4, steps = 100, warmup = 10, tokens = 100;
  double lr = 2e-5, min_lr = 1e-6, balance = 0.01;  ///< of the paper's continued training
  Rounding rounding = Rounding::master;
  headmix::SamplingOptions sampling{.temperature = 0};
  std::uint64_t seed = 1;
  Index threads = 1;  ///< all hardware threads unless given
};

[[nodiscard]] Options parse_options(std::vector<std::string_view> const& arguments);
[[nodiscard]] std::string help_text();

}  // namespace llama

namespace command_line {
template <>
inline constexpr std::array<std::string_view, 5> names<llama::Command>{"costs", "generate", "evaluate", "train",
                                                                       "convert"};
template <>
inline constexpr std::array<std::string_view, 2> names<llama::Rounding>{"master", "stochastic"};
}  // namespace command_line
