#pragma once
// SPDX-License-Identifier: MIT
// Batches, the training, and the measures of a translator.

#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace translation {

/// Sentences of subwords.
using SubwordPair = std::pair<Ids, Ids>;

/// All pairs once, in batches of about `most` target subwords (each has at least one pair), of similar lengths so that
/// none has many short ones. The order of pairs of one length and of batches depends on (seed, epoch) alone.
[[nodiscard]] std::vector<Batch> batches_of(std::vector<SubwordPair> const& pairs, Index most, std::uint64_t seed,
                                            Index epoch);

struct Results {
  double train_loss = 0, valid_loss = 0,
         bleu = 0;          ///< train_loss: smoothed, of the last batch; losses in nats per subword
  double tokens_per_s = 0;  ///< target subwords of the training
  double seconds = 0, translate_seconds = 0;
  Index parameters = 0, target_tokens = 0;
};

/// Trains: AdamW, a rate that falls with 1 / sqrt(step), and in the end the mean of the parameters at ten steps of the
/// last quarter. Progress goes to stderr.
void train(Translator& model, std::vector<SubwordPair> const& pairs, Options const& o, Results& results);

/// Mean -log p, in nats per subword.
[[nodiscard]] double mean_loss(Translator& model, std::vector<SubwordPair> const& pairs, Index batch);

/// The best translation of each sentence.
[[nodiscard]] std::vector<Ids> translations(Translator& model, std::vector<Ids> const& sources, Search const& search);

/// One beam search of all sentences with caches and one without: equal subwords, and the largest relative difference of
/// their scores.
struct Check {
  bool equal = true;
  double difference = 0, seconds = 0, seconds_without = 0;
};
[[nodiscard]] Check check_decoding(Translator& model, std::vector<Ids> const& sources, Search const& search);

}  // namespace translation
