// SPDX-License-Identifier: MIT
// headmix-translate: trains a small translator, with mixtures of attention heads, attentive experts or dense attention,
// on the message catalogues of programs, and translates with it.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "../command_line.hpp"
#include "../program.hpp"
#include "bleu.hpp"
#include "corpus.hpp"
#include "headmix/io/checkpoint.hpp"
#include "options.hpp"
#include "subwords.hpp"
#include "training.hpp"

namespace translation {
namespace {

std::unique_ptr<Translator> make(Options const& o) {
  if (o.attention == "dense") return make_dense(o.sizes, o.seed);
  return o.attention == "moa" ? make_moa(o.sizes, o.seed) : make_mae(o.sizes, o.seed);
}

std::string checkpoint_of(std::string const& folder) { return folder + "/checkpoint.safetensors"; }
std::string subwords_of(std::string const& folder) { return folder + "/subwords.txt"; }

void save(Options const& o, Translator const& model, Subwords const& subwords) {
  headmix::checkpoint_extras extras;
  for (auto const& [key, value] : sizes_as_text(o)) extras.metadata["translation." + key] = value;
  headmix::save(checkpoint_of(o.save), std::move(extras), model);
  subwords.write(subwords_of(o.save));
}

/// Pairs of at most `longest` subwords on both sides.
std::vector<SubwordPair> encoded(Subwords const& subwords, std::vector<Pair> const& pairs, Index longest,
                                 std::vector<Pair>* kept = nullptr) {
  std::vector<SubwordPair> all;
  for (Pair const& p : pairs) {
    SubwordPair ids{subwords.encode(p.first), subwords.encode(p.second)};
    if (static_cast<Index>(std::max(ids.first.size(), ids.second.size())) > longest) continue;
    if (kept != nullptr) kept->push_back(p);
    all.push_back(std::move(ids));
  }
  return all;
}

int train_and_test(Options o) {
  Corpus const corpus = read_corpus(o.corpus);
  std::vector<std::string> sentences;
  for (Pair const& p : corpus.train) sentences.push_back(p.first), sentences.push_back(p.second);
  Subwords const subwords = Subwords::learn(sentences, o.sizes.vocabulary);
  o.sizes.vocabulary = subwords.size();
  std::vector<Pair> test_pairs;
  auto const train_part = encoded(subwords, corpus.train, o.longest),
             valid = encoded(subwords, corpus.valid, o.longest);
  auto test = encoded(subwords, corpus.test, o.longest, &test_pairs);
  if (train_part.empty() || valid.empty() || test.empty()) {
    command_line::mistake("--longest", "a sentence of at most so many subwords in each part",
                          command_line::to_text(o.longest));
  }
  if (!o.save.empty()) {
    std::error_code error;
    std::filesystem::create_directories(o.save, error);
    if (error) command_line::mistake("--save", "a folder that can be written", error.message());
  }
  auto const model = make(o);
  Results results;
  for (auto const& p : model->parameters()) results.parameters += p.value.size();
  std::fprintf(stderr, "%s: %zu files, %zu messages; %zu, %zu and %zu pairs; %td subwords; %s, %td parameters\n",
               o.corpus.c_str(), corpus.files, corpus.messages, train_part.size(), valid.size(), test.size(),
               subwords.size(), o.attention.c_str(), results.parameters);
  train(*model, train_part, o, results);
  if (!o.save.empty()) save(o, *model, subwords);
  results.valid_loss = mean_loss(*model, valid, o.batch);

  // Of the test part, every n-th sentence.
  std::size_t const every = (test.size() - 1) / static_cast<std::size_t>(o.test) + 1;
  std::vector<Ids> sources;
  std::vector<std::string> found, references;
  for (std::size_t i = 0; i < test.size(); i += every) {
    sources.push_back(test[i].first);
    references.push_back(test_pairs[i].second);
  }
  auto const ids = translations(*model, sources, o.search);
  for (Ids const& t : ids) found.push_back(subwords.decode(t));
  results.bleu = bleu(found, references);
  for (std::size_t i = 0; i < found.size(); i += found.size() / 5 + 1) {
    std::printf("> %s\n= %s\n< %s\n", subwords.decode(sources[i]).c_str(), references[i].c_str(), found[i].c_str());
  }
  bool agrees = true;
  if (o.check_decoding) {
    Search search = o.search;
    search.most_tokens = o.longest, search.ends = false;
    sources.resize(std::min<std::size_t>(sources.size(), 4));
    Check const check = check_decoding(*model, sources, search);
    agrees = check.equal && check.difference < 1e-4;
    std::printf("Beam search of %td subwords with caches: %s, scores differ by %.1e, %.4f of the time without caches\n",
                o.longest, check.equal ? "equal subwords" : "other subwords", check.difference,
                check.seconds / check.seconds_without);
  }
  std::printf(
      "{\"attention\": \"%s\", \"bleu\": %.2f, \"valid_loss\": %.4f, \"valid_perplexity\": %.3f, "
      "\"train_loss\": %.4f, \"tokens_per_s\": %.0f, \"seconds\": %.1f, \"parameters\": %td, "
      "\"vocabulary\": %td, \"pairs\": %zu, \"target_tokens\": %td, \"test_sentences\": %zu, \"steps\": %td, "
      "\"seed\": %llu}\n",
      o.attention.c_str(), results.bleu, results.valid_loss, std::exp(results.valid_loss), results.train_loss,
      results.tokens_per_s, results.seconds, results.parameters, subwords.size(), train_part.size(),
      results.target_tokens, found.size(), o.steps, static_cast<unsigned long long>(o.seed));
  if (!agrees) program::complain("the beam search with caches differs from that without");
  return agrees ? program::done : program::failed;
}

int translate_lines(Options o) {
  auto const file = headmix::Safetensors::read(checkpoint_of(o.from));
  Subwords const subwords = Subwords::read(subwords_of(o.from));
  for (auto const& [key, unused] : sizes_as_text(o)) {
    auto const found = file.metadata().find("translation." + key);
    std::string const where = file.name() + ": metadata translation." + key;
    if (found == file.metadata().end()) command_line::mistake(where, "a value of headmix-translate", "none");
    set_size(o, where, key, found->second);
  }
  o.sizes.vocabulary = subwords.size();
  auto const model = make(o);
  headmix::load(file, *model);
  for (std::string line; std::getline(std::cin, line);) {
    Ids const source = subwords.encode(line);
    if (static_cast<Index>(source.size()) > o.longest) {
      command_line::mistake("stdin", "lines of at most " + command_line::to_text(o.longest) + " subwords (--longest)",
                            command_line::to_text(source.size()));
    }
    std::printf("%s\n", subwords.decode(translations(*model, {source}, o.search).front()).c_str());
  }
  return program::done;
}

}  // namespace
}  // namespace translation

int main(int argc, char** argv) {
  return program::run("headmix-translate", [&] {
    auto const o = translation::parse_options({argv + (argc > 0 ? 1 : 0), argv + argc});
    if (o.help) {
      std::fputs(translation::help_text().c_str(), stdout);
      return static_cast<int>(program::done);
    }
    return o.from.empty() ? translation::train_and_test(o) : translation::translate_lines(o);
  });
}
