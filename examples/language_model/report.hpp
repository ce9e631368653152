#pragma once
// SPDX-License-Identifier: MIT
// What a run leaves behind: a table of expert loads, one line of JSON, and in the --report folder loss.svg, experts.svg
// (moa only) and report.json.

#include <cstdio>
#include <string>
#include <vector>

#include "options.hpp"

namespace lm {

/// Of each layer and expert.
using Loads = std::vector<std::vector<double>>;

struct LossPoint {
  Index step;   ///< steps done
  double loss;  ///< nats per byte
};

struct Results {
  double val_loss = 0, train_loss = 0, tokens_per_s = 0;
  Index parameters = 0, steps = 0;
  std::vector<LossPoint> train;       ///< every step
  std::vector<LossPoint> validation;  ///< some steps
  Loads loads;                        ///< counts or shares alike; empty for dense
};

/// Creates the --report folder, if there is to be one, before hours of training that could not be reported.
void create_report_folder(Options const& options);
/// Writes the --report folder, if there is to be one.
void write_report(Options const& options, Results const& results);

/// Every layer divided by its sum.
[[nodiscard]] Loads shares(Loads loads);

/// The table of loads, in percent of the layer's selections. Prints nothing for dense.
void print_load_table(std::FILE* file, Loads const& loads);

/// Results and options as one JSON object without line breaks; what is not a finite number becomes null.
[[nodiscard]] std::string json_line(Options const& options, Results const& results);

[[nodiscard]] std::string loss_svg(Options const& options, Results const& results);
[[nodiscard]] std::string experts_svg(Loads const& loads);

}  // namespace lm
