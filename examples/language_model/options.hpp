#pragma once
// SPDX-License-Identifier: MIT
// The command line of headmix-lm. One table (options.cpp) has every option with its range and help text.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../command_line.hpp"
#include "headmix/core/config.hpp"
#include "headmix/train/block_coordinate.hpp"

namespace lm {

using headmix::fine_tuning;
using headmix::Index;

using command_line::UsageError, command_line::in_quotes, command_line::name;

enum class Attention { dense, moa, moh, mae };
enum class HeadRouter { two_stage, one_stage, query_norm };
enum class Training { bcd, joint, uniform };
enum class Ffn { dense, smoe, mh_moe };
/// The change in a feed-forward mixture.
enum class FfnVariant { none, renormalized, shared_expert, no_head, no_merge, no_head_no_merge };
/// The initial values of feed-forward mixtures.
enum class FfnInit { module, normal };
enum class Weights { real, ternary };
enum class Scalar { float32, bfloat16 };
enum class Device { cpu, cuda, emulated };
/// The parts that are divided among the processes of a training.
enum class Parallel { none, data, heads, experts };
enum class ProgressMode { automatic, on, off };

/// The positions that the gate of mae sees: the latest ones, or all so far.
struct Pool {
  Index window;  ///< 0 for all so far
};

struct Options {
  std::string preset;                    ///< name of a published configuration; empty: none
  std::string text;                      ///< file or folder; empty: the default text
  std::string validation_text;           ///< likewise; empty: the last tenth of the text
  Attention attention = Attention::moa;  ///< dense if a mixture is given as --ffn, unless given
  Device backend = Device::cpu;
  Scalar scalar = Scalar::float32;
  Index experts = 8;                          ///< of moa; after parse_options of mae: binomial(heads, dropped)
  Index top_k = 4;                            ///< of moa, and routed heads of moh: half of the heads unless given
  Index head_dim = 32;                        ///< all but moa, unless given: width / heads
  Index heads = 4;                            ///< all but moa
  Index shared_heads = 1;                     ///< moh only; a quarter of the heads unless given
  HeadRouter router = HeadRouter::two_stage;  ///< moh only
  Index dropped = 1;                          ///< mae only: heads that an expert leaves out
  Training training = Training::bcd;          ///< mae only
  Pool pool{100};                             ///< mae, not uniform
  Index g_every = 5;                          ///< mae, bcd
  fine_tuning fine_tune = fine_tuning::all;   ///< mae, bcd
  Index gate_dim = 256;                       ///< mae, not uniform
  Ffn ffn = Ffn::dense;
  Index split = 2;        ///< sub-tokens of a token, mh_moe only
  Index ffn_experts = 8;  ///< smoe and mh_moe; of mh_moe chosen by parity unless given
  Index ffn_top_k = 1;    ///< smoe and mh_moe; of mh_moe `split` unless given
  Index hidden = 0;       ///< inner width of an expert; 0 is set by parity in parse_options
  Index ffn_every = 1;    ///< smoe and mh_moe: layers with a mixture
  FfnVariant ffn_variant = FfnVariant::none;
  FfnInit ffn_init = FfnInit::module;
  Weights weights = Weights::real;
  Index layers = 4, width = 128, context = 64;
  Index batch = 12, steps = 2000, warmup = 100;
  double lr = 1e-3;
  double min_lr = 1e-4;              ///< a tenth of lr unless given
  double balance = 0.01, z = 0.001;  ///< weights of the routers' losses, z of moa only
  double moa_scale = 4;              ///< factor of the mixture's output, moa only; top_k unless given
  std::uint64_t seed = 1;
  Parallel parallel = Parallel::none;
  Index timeout = 600;       ///< seconds that a process waits for others; 0: no limit
  Index threads = 1;         ///< parse_options: all hardware threads unless given
  std::string report;        ///< folder; empty: no report
  std::string checkpoint;    ///< folder; empty: no checkpoints
  std::string from;          ///< folder of another checkpoint; empty: initial values by the seed
  Index every = 500;         ///< steps from one checkpoint to the next; 0: only the last one
  Index stop_after = 0;      ///< steps; 0: all
  Index validate_every = 0;  ///< steps from one validation to the next; 0: only the last one
  bool resume = false;
  Index sample = 300;  ///< bytes
  ProgressMode progress = ProgressMode::automatic;
  bool help = false;
  std::vector<std::string> notes;  ///< one line for each given option without effect
};

[[nodiscard]] Options parse_options(std::vector<std::string_view> const& arguments);
/// The options that determine the training, with their values: a training is only resumed with equal ones. For the
/// text, see Text.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> settings(Options const& options);
/// The text of --help, with all defaults.
[[nodiscard]] std::string help_text();
[[nodiscard]] std::string name(Pool pool);
/// The inner width of one SwiGLU network with the cost of a dense network of 4 times the width.
[[nodiscard]] Index dense_hidden(Options const& options);
/// True if the feed-forward network of this layer, from 0, is the mixture of --ffn: every N-th layer, the N-th first.
[[nodiscard]] constexpr bool has_mixture(Options const& o, Index layer) {
  return o.ffn != Ffn::dense && (layer + 1) % o.ffn_every == 0;
}

/// True if processes have different sequences; otherwise all have the same ones.
[[nodiscard]] constexpr bool divides_tokens(Options const& o) {
  return o.parallel == Parallel::data || (o.parallel == Parallel::experts && o.ffn != Ffn::dense);
}

}  // namespace lm

namespace command_line {

template <size_t n>
using Names = std::array<std::string_view, n>;
template <>
inline constexpr Names<4> names<lm::Attention>{"dense", "moa", "moh", "mae"};
template <>
inline constexpr Names<3> names<lm::HeadRouter>{"two_stage", "one_stage", "query_norm"};
template <>
inline constexpr Names<3> names<lm::Training>{"bcd", "joint", "uniform"};
template <>
inline constexpr Names<3> names<lm::fine_tuning>{"all", "gates", "gates_and_outputs"};
template <>
inline constexpr Names<3> names<lm::Ffn>{"dense", "smoe", "mh_moe"};
template <>
inline constexpr Names<6> names<lm::FfnVariant>{"none",    "renormalized", "shared_expert",
                                                "no_head", "no_merge",     "no_head_no_merge"};
template <>
inline constexpr Names<2> names<lm::FfnInit>{"module", "normal"};
template <>
inline constexpr Names<2> names<lm::Weights>{"real", "ternary"};
template <>
inline constexpr Names<2> names<lm::Scalar>{"float", "bfloat16"};
template <>
inline constexpr Names<3> names<lm::Device>{"cpu", "cuda", "emulated"};
template <>
inline constexpr Names<4> names<lm::Parallel>{"none", "data", "heads", "experts"};
template <>
inline constexpr Names<3> names<lm::ProgressMode>{"auto", "on", "off"};

}  // namespace command_line
