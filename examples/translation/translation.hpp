#pragma once
// SPDX-License-Identifier: MIT
// A translator, whatever its kind of attention: for the parts of the program that do not read its equations.

#include <memory>
#include <string_view>
#include <vector>

#include "headmix/core/scalar.hpp"
#include "headmix/decode/beam_search.hpp"
#include "headmix/program/parameter.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/block_coordinate.hpp"

namespace translation {

using headmix::Index, headmix::Int;
using Ids = std::vector<Int>;

/// The subword that begins and ends every sentence.
inline constexpr Int end_id = 0;

/// The sizes of a translator.
struct Sizes {
  Index layers = 3, width = 128, hidden = 512;
  Index heads = 8, head_dim = 16, experts = 8, top_k = 4;
  Index vocabulary = 0;
};

/// Sentences as concatenated rows; sentence b of n has the rows offsets[b] .. offsets[b + 1].
struct Rows {
  Ids ids, offsets = {0};

  void add(Ids const& sentence) {
    ids.insert(ids.end(), sentence.begin(), sentence.end());
    offsets.push_back(static_cast<Int>(ids.size()));
  }
  [[nodiscard]] Index sentences() const { return static_cast<Index>(offsets.size()) - 1; }
  [[nodiscard]] Index rows() const { return static_cast<Index>(ids.size()); }
};
/// Pairs of sentences: the source with its end; the target as the decoder reads it, after end_id, and as it predicts
/// it, with its end.
struct Batch {
  Rows source, read;
  Ids predicted;

  void add(Ids const& from, Ids const& to) {
    Ids s = from, r = {end_id};
    s.push_back(end_id);
    r.insert(r.end(), to.begin(), to.end());
    source.add(s), read.add(r);
    predicted.insert(predicted.end(), to.begin(), to.end());
    predicted.push_back(end_id);
  }
};

/// What a beam search looks for.
struct Search {
  Index beams = 4, most_tokens = 100;
  double length_power = 0.6;
  bool ends = true;  ///< false: no translation ends before most_tokens
};
/// The best translations of each sentence, best first.
using Found = std::vector<std::vector<headmix::beam_result>>;

/// Passes of a training.
enum class Pass {
  whole,  ///< the equations of the kind
  drawn,  ///< one expert for each sequence (mae)
};

class Translator {
 public:
  virtual ~Translator() = default;
  /// True if trainings are block coordinate descent.
  [[nodiscard]] virtual bool draws_experts() const = 0;
  /// Encoder and decoder; the names are unique.
  [[nodiscard]] virtual std::vector<headmix::parameter<float>> const& parameters() const = 0;
  /// Of the parameters' memory.
  [[nodiscard]] static headmix::host backend() { return {}; }
  [[nodiscard]] virtual headmix::ParameterGroups<float> groups() const = 0;
  virtual void zero_gradients() = 0;
  /// The mean loss of a batch; adds the gradients of the loss and of the routers' losses. Dropout and drawn experts are
  /// those of the step.
  virtual double gradients(Batch const& batch, Pass pass, Index step) = 0;
  /// The sum of -log p of the predicted subwords, in nats, without dropout and label smoothing.
  virtual double negative_log_likelihood(Batch const& batch) = 0;
  /// Beam search of each sentence by a Decoder: keys and values of earlier subwords and of the context are cached.
  virtual Found translate(Rows const& source, Search const& search) = 0;
  /// The same search by passes over whole sequences.
  virtual Found translate_without_caches(Rows const& source, Search const& search) = 0;
};

std::unique_ptr<Translator> make_dense(Sizes const& sizes, std::uint64_t seed);
std::unique_ptr<Translator> make_moa(Sizes const& sizes, std::uint64_t seed);
std::unique_ptr<Translator> make_mae(Sizes const& sizes, std::uint64_t seed);

}  // namespace translation
