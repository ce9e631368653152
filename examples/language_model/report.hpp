#pragma once
// SPDX-License-Identifier: MIT
// What a run leaves behind: tables of the experts, one line of JSON, and in the --report folder loss.svg, experts.svg
// of the attention and ffn_experts.svg (neither for dense) and report.json.

#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "ending.hpp"
#include "expert_use.hpp"
#include "options.hpp"
#include "text.hpp"

namespace lm {

struct LossPoint {
  Index step;   ///< steps done
  double loss;  ///< nats per byte
};

/// What is not known, since the training ended early, is not a number.
struct Results {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double val_loss = unknown, train_loss = unknown, tokens_per_s = 0;
  Index parameters = 0, steps = 0;    ///< steps that are done
  std::vector<LossPoint> train;       ///< every step
  std::vector<LossPoint> validation;  ///< some steps
  ExpertUse experts;
  double one_expert_loss = unknown;  ///< of mae, the validation loss with one expert of each sequence and layer
  std::string continuation;          ///< of the validation text, by the model
  Ending ending;
};

/// Creates the --report folder, if there is to be one, before hours of training that could not be reported.
void create_report_folder(Options const& options);
/// Writes the --report folder, if there is to be one, and creates it again where it is gone. Each file replaces the old
/// one when it is complete; one that cannot be written is said on stderr, and the others are. Returns whether all are.
bool write_report(Options const& options, Results const& results);
/// Prints the results, the JSON line last, then writes the report. Returns the exit status.
int give_results(Options const& options, Text const& text, Results& results);

/// What the experts of a layer are for, in nats.
struct ExpertInformation {
  double entropy = 0;      ///< of their shares, of moh of the routed heads: log(experts) where all are used alike
  double information = 0;  ///< what the byte tells about its expert, the mutual information: at most the entropy
};

/// Which experts the layers of a kind used.
struct LoadTable {
  std::string title;   ///< of the shares in percent
  bool heads = false;  ///< instead of experts
  double even = 0;     ///< the share where all experts, or all routed heads, are used alike
  Loads shares;        ///< empty for layers without experts
  /// Of each layer, or empty where it is not known.
  std::vector<ExpertInformation> information;

  [[nodiscard]] std::size_t columns() const;
};
/// Of moa, the share of a layer's selections that went to each expert; of moh, the share of the tokens that used each
/// head, 1 for a shared one; of mae, the share of the sequences that had each expert when each had one. Empty for
/// dense.
[[nodiscard]] LoadTable attention_loads(Options const& options, ExpertUse const& experts);
/// The share of a layer's selections that went to each expert. Empty for dense.
[[nodiscard]] LoadTable ffn_loads(Options const& options, ExpertUse const& experts);

/// Prints nothing if the table is empty.
void print_load_table(std::FILE* file, LoadTable const& table);
/// Of mae, the entropy of the gates and the loss with one expert.
void print_gates(std::FILE* file, Options const& options, Results const& results);
/// The bytes of the highest pointwise mutual information with each expert of the first layer that has some.
void print_typical_bytes(std::FILE* file, Options const& options, ExpertUse const& experts);
/// Results and options as one JSON object without line breaks; what is not a finite number becomes null.
[[nodiscard]] std::string json_line(Options const& options, Results const& results);

[[nodiscard]] std::string loss_svg(Options const& options, Results const& results);
[[nodiscard]] std::string experts_svg(LoadTable const& table);

}  // namespace lm
