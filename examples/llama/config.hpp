#pragma once
// SPDX-License-Identifier: MIT
// config.json of a model of Llama's form, with the names of Hugging Face, and what the model costs by counting.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../command_line.hpp"
#include "headmix/contract/position.hpp"
#include "headmix/core/config.hpp"

namespace llama {

using headmix::Index, headmix::Int;

enum class Attention { dense, query_norm, two_stage };

/// A model. The heads of MoH are in fields that this program adds to config.json: moh_router, moh_shared_heads,
/// moh_top_k. Without them the model is dense.
struct Config {
  Index width = 0, hidden = 0, depth = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
  Index positions = 2048;               ///< max_position_embeddings
  double theta = 10'000, eps = 1e-6;    ///< rope_theta, rms_norm_eps
  headmix::rotation rope_scaling = {};  ///< of rope_scaling: frequencies of Llama 3.1
  bool tied = false;                    ///< tie_word_embeddings
  std::vector<Int> ends;                ///< eos_token_id
  Attention attention = Attention::dense;
  Index shared_heads = 0, top_k = 0;  ///< of MoH: heads that are always active, and other heads of a token

  /// The file's fields in their order: names, and values as JSON.
  std::vector<std::pair<std::string, std::string>> fields;

  [[nodiscard]] Index active_heads() const { return attention == Attention::dense ? heads : shared_heads + top_k; }
};

/// Reads FOLDER/config.json. An Error names the file, the field, the expected and the found value.
[[nodiscard]] Config read_config(std::string const& folder);
/// Writes FOLDER/config.json: the fields that were read, with the heads of MoH and the type bfloat16.
void write_config(std::string const& folder, Config const& config);
/// An Error unless the heads of MoH can be chosen; `whose` begins the message.
void check_heads(Config const& config, std::string_view whose);

/// The number of parameters.
[[nodiscard]] Index count_parameters(Config const& config);
/// The bytes of keys and values of a token in bfloat16.
[[nodiscard]] Index cache_bytes(Config const& config);
/// Multiply-adds of a token that sees `keys` tokens, its own included, in generation.
[[nodiscard]] Index count_macs(Config const& config, Index keys);
/// Lines about sizes, memory and cost.
[[nodiscard]] std::string costs(Config const& config);

}  // namespace llama

namespace command_line {
template <>
inline constexpr std::array<std::string_view, 3> names<llama::Attention>{"dense", "query_norm", "two_stage"};
}  // namespace command_line
