#pragma once
// SPDX-License-Identifier: MIT
// The list of trainings and claims: a text file, one statement a line.
//
//   all OPTION...                   options of headmix-lm for every training
//   seeds SEED...                   the seeds that are reported
//   select SEED OPTION...           the seed of the trainings that choose learning rates, which is not reported, and
//                                   what they have before the options of the run
//   family NAME RATE RATE RATE...   the runs below share a learning rate: that with which the first of them validates
//                                   best
//   run NAME OPTION...              a configuration; `@NAME` stands for the checkpoint folder of that run, of the same
//                                   seed
//   claim BETTER < WORSE [by MEASURE] : TEXT : PAPER
//                                   what a paper says of two runs, and its numbers. It is about the validation loss, or
//                                   about a measure: `one_expert`, what using one expert alone adds to it;
//                                   `gate_entropy`; `largest_share`, the largest share of an expert in a layer. Of a
//                                   measure, WORSE can be a number
//
// A run with --lr among its options has that rate. Of one with --text NAME, the text is the folder NAME in that of
// headmix-trends. Text behind a # is a comment.

#include <string>
#include <vector>

namespace trends {

struct Run {
  std::string name;
  std::size_t family;
  std::vector<std::string> options;
  std::string base;  ///< the run whose checkpoint it begins with, or empty
};

struct Family {
  std::string name;
  std::vector<std::string> rates;
  std::size_t first = 0;  ///< the run that chooses the rate
};

struct Claim {
  std::string better, worse, text, paper;
  std::string measure = {};  ///< empty: the validation loss
};

struct List {
  std::vector<std::string> all, seeds, to_select;
  std::string select;
  std::vector<Family> families;
  std::vector<Run> runs;
  std::vector<Claim> claims;

  /// Null if there is none.
  [[nodiscard]] Run const* run(std::string const& name) const;
};

/// Throws lm::UsageError, which names the file, the line, what was expected and what was found.
[[nodiscard]] List read_list(std::string const& path);

/// A run with a seed and a learning rate.
struct Training {
  Run const* run;
  std::string seed, rate;
  /// Its options of headmix-lm, which say what is trained: the same words are the same training.
  [[nodiscard]] std::vector<std::string> words(List const& list) const;
};

[[nodiscard]] std::string joined(std::vector<std::string> const& words);

}  // namespace trends
