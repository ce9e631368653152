#pragma once
// SPDX-License-Identifier: MIT
// What a run leaves behind: tables of the experts, one line of JSON, and in the --report folder loss.svg, experts.svg
// (not for dense) and report.json.

#include <cstdio>
#include <string>
#include <vector>

#include "headmix/analysis/experts.hpp"
#include "options.hpp"

namespace lm {

/// Of each layer and expert; the experts of moh are its heads.
using Loads = std::vector<std::vector<double>>;

/// What the experts of each layer did.
struct ExpertUse {
  Loads loads;                               ///< counts or shares alike; empty for dense
  std::vector<double> gate_entropy;          ///< of mae, the mean over the positions in nats
  std::vector<headmix::ExpertCounts> bytes;  ///< of moa and mae with a gate, with which bytes experts occurred
};

struct LossPoint {
  Index step;   ///< steps done
  double loss;  ///< nats per byte
};

struct Results {
  double val_loss = 0, train_loss = 0, tokens_per_s = 0;
  Index parameters = 0, steps = 0;
  std::vector<LossPoint> train;       ///< every step
  std::vector<LossPoint> validation;  ///< some steps
  ExpertUse experts;
  double one_expert_loss = 0;  ///< of mae, the validation loss with one expert of each sequence and layer
};

/// Creates the --report folder, if there is to be one, before hours of training that could not be reported.
void create_report_folder(Options const& options);
/// Writes the --report folder, if there is to be one.
void write_report(Options const& options, Results const& results);

/// Of moa, the share of a layer's selections that went to each expert; of moh, the share of the tokens that used each
/// head, 1 for a shared one; of mae, the share of the sequences that had each expert when each had one.
[[nodiscard]] Loads shares(Options const& options, Loads loads);
/// That share where all experts, or all routed heads, are used alike.
[[nodiscard]] double even_share(Options const& options);

/// The table of these shares in percent. Prints nothing for dense.
void print_load_table(std::FILE* file, Options const& options, Loads const& loads);
/// Of mae, the entropy of the gates and the loss with one expert.
void print_gates(std::FILE* file, Options const& options, Results const& results);
/// The bytes of the highest pointwise mutual information with each expert of the first layer.
void print_typical_bytes(std::FILE* file, Options const& options, ExpertUse const& experts);
/// What the table of shares is about, in percent.
[[nodiscard]] std::string load_title(Options const& options);

/// Results and options as one JSON object without line breaks; what is not a finite number becomes null.
[[nodiscard]] std::string json_line(Options const& options, Results const& results);

[[nodiscard]] std::string loss_svg(Options const& options, Results const& results);
[[nodiscard]] std::string experts_svg(Options const& options, Loads const& loads);

}  // namespace lm
