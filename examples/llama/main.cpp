// SPDX-License-Identifier: MIT
// headmix-llama: loads a model of Llama's form, turns it into mixture-of-head attention, trains, evaluates and
// generates. Tokens are numbers; the model's own tokenizer makes and reads them.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "../program.hpp"
#include "compute.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/schedule.hpp"
#include "network.hpp"
#include "options.hpp"
#include "programs.hpp"
#include "tokens.hpp"

namespace {

using namespace llama;
using headmix::fail, headmix::message, headmix::view;
namespace fs = std::filesystem;

std::unique_ptr<Reader> make(Config const& c, Weights<Compute>& w, Index tokens) {
  switch (c.attention) {
    case Attention::dense:
      return make_reader<Dense>(c, w, tokens);
    case Attention::query_norm:
      return make_reader<QueryNorm>(c, w, tokens);
    default:
      return make_reader<TwoStage>(c, w, tokens);
  }
}
std::unique_ptr<Trainer> make(Config const& c, Weights<Compute>& w) {
  switch (c.attention) {
    case Attention::dense:
      return make_trainer<Dense>(c, w);
    case Attention::query_norm:
      return make_trainer<QueryNorm>(c, w);
    default:
      return make_trainer<TwoStage>(c, w);
  }
}

/// Reads ids in pieces, whose logits need little memory.
template <class F>
void read_in_pieces(Reader& reader, std::span<Int const> ids, F f) {
  constexpr std::size_t piece = 256;
  for (std::size_t at = 0; at < ids.size(); at += piece) {
    f(at, reader.read(ids.subspan(at, std::min(piece, ids.size() - at))));
  }
}

/// -log of the softmax of a row of logits.
double nats(view<float const> logits, Index row, Int target) {
  float const* z = &logits(row, 0);
  auto const largest = static_cast<double>(*std::max_element(z, z + logits.cols));
  double sum = 0;
  for (Index i = 0; i < logits.cols; ++i) sum += std::exp(static_cast<double>(z[i]) - largest);
  return largest + std::log(sum) - static_cast<double>(z[target]);
}

/// The mean loss of texts of `context` tokens one after another; each but the first token of all is a target once.
double mean_loss(Config const& c, Weights<Compute>& weights, std::span<Int const> ids, Index context) {
  auto const n = std::min(static_cast<std::size_t>(context), ids.size() - 1);
  auto const reader = make(c, weights, static_cast<Index>(n));
  double sum = 0;
  for (std::size_t first = 0; first + 1 < ids.size(); first += n) {
    reader->restart();
    read_in_pieces(*reader, ids.subspan(first, std::min(n, ids.size() - 1 - first)), [&](std::size_t at, auto logits) {
      for (Index row = 0; row < logits.rows; ++row) {
        sum += nats(logits, row, ids[first + at + static_cast<std::size_t>(row) + 1]);
      }
    });
  }
  return sum / static_cast<double>(ids.size() - 1);
}
std::string kind(Config const& c) {
  std::string text(command_line::name(c.attention));
  if (c.attention != Attention::dense)
    text += message(" (", c.shared_heads, " + ", c.top_k, " of ", c.heads, " heads)");
  return text;
}

/// The model that the options make of the model of a folder.
Config chosen(Options const& o, Config c) {
  Attention const from = c.attention;
  if (o.has_attention) c.attention = o.attention;
  if (from == Attention::two_stage && c.attention != from) {
    command_line::mistake("--attention", "two_stage, since the model has its routers",
                          std::string(command_line::name(c.attention)));
  }
  if (o.shared_heads > 0) c.shared_heads = o.shared_heads;
  if (o.top_k > 0) c.top_k = o.top_k;
  if (c.shared_heads == 0) c.shared_heads = c.heads / 2;
  if (c.top_k == 0) c.top_k = c.heads / 4;
  if (c.attention != Attention::dense) check_heads(c, "--shared-heads and --top-k");
  return c;
}

void write_model(Options const& o, Config const& c, Weights<Compute> const& weights) {
  save((fs::path(o.out) / "model.safetensors").string(), weights, tensor_names(c));
  write_config(o.out, c);
  for (char const* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"}) {
    fs::path const from = fs::path(o.folder) / name, to = fs::path(o.out) / name;
    std::error_code error;
    if (fs::is_regular_file(from, error) && !fs::equivalent(from, to, error)) {
      fs::copy_file(from, to, fs::copy_options::overwrite_existing);
    }
  }
  std::printf("%s: %s\n", o.out.c_str(), kind(c).c_str());
}
void create_out(Options const& o) {
  std::error_code error;
  fs::create_directories(o.out, error);
  if (error) fail("--out: expected a folder, found ", headmix::shown(o.out), ": ", error.message());
  if (fs::exists(fs::path(o.out) / "model.safetensors.index.json")) {
    fail(
        "--out: expected a folder without model.safetensors.index.json, which comes before model.safetensors, found "
        "one in ",
        headmix::shown(o.out));
  }
}

int generate(Options const& o, Config const& c, Weights<Compute>& weights) {
  auto ids = o.prompt_file.empty() ? parse_tokens(o.prompt, "--prompt", c.vocabulary)
                                   : read_tokens(o.prompt_file, c.vocabulary);
  if (ids.empty()) fail("the prompt: expected one token or more, found none");
  auto const all = static_cast<Index>(ids.size()) + o.tokens;
  if (all > c.positions) {
    fail("--tokens: expected a prompt and tokens of at most max_position_embeddings, ", c.positions, ", found ",
         ids.size(), " + ", o.tokens);
  }
  auto const reader = make(c, weights, all);
  std::vector<float> last(static_cast<std::size_t>(c.vocabulary));
  auto const keep_last = [&](std::size_t, view<float const> logits) {
    std::copy_n(&logits(logits.rows - 1, 0), last.size(), last.begin());
  };
  read_in_pieces(*reader, ids, keep_last);
  for (Index i = 0; i < o.tokens; ++i) {
    Int const next = headmix::sample_token(view<float const>(last.data(), 1, c.vocabulary), o.sampling,
                                           headmix::Random(o.seed, 0), ids.size());
    std::printf("%s%d", i == 0 ? "" : " ", static_cast<int>(next));
    if (std::find(c.ends.begin(), c.ends.end(), next) != c.ends.end()) break;
    ids.push_back(next);
    if (i + 1 < o.tokens) keep_last(0, reader->read({&next, 1}));
  }
  std::printf("\n");
  return program::done;
}

std::vector<Int> data_of(Options const& o, Config const& c, std::size_t least) {
  auto ids = read_tokens(o.data, c.vocabulary);
  if (ids.size() < least) fail(o.data, ": expected ", least, " tokens or more, found ", ids.size());
  return ids;
}

int evaluate(Options const& o, Config c, Weights<Compute>& weights) {
  auto const ids = data_of(o, c, 2);
  auto const print = [&] {
    std::printf("%s: %.6f nats per token, %zu tokens\n", kind(c).c_str(), mean_loss(c, weights, ids, o.context),
                ids.size() - 1);
  };
  if (o.has_attention || c.attention == Attention::two_stage) {
    print();
  } else {
    check_heads(c, "--shared-heads and --top-k");
    for (Attention const a : {Attention::dense, Attention::query_norm}) {
      c.attention = a;
      print();
    }
  }
  return program::done;
}

int train(Options const& o, Config const& c, Weights<Compute>& weights, Compute const& compute) {
  auto const context = static_cast<std::size_t>(o.context);
  // The last tenth evaluates.
  auto const ids = data_of(o, c, 2 * context + 2);
  auto const trained = std::min(ids.size() - ids.size() / 10, ids.size() - 2);
  if (trained < context + 1) fail(o.data, ": expected ", context + 1, " tokens to train on, found ", trained);
  auto const held_out = std::span(ids).subspan(trained);
  create_out(o);
  std::printf("before: %.6f nats per token\n", mean_loss(c, weights, held_out, o.context));
  {
    auto const trainer = make(c, weights);
    headmix::AdamW<headmix::bfloat16, Compute> optimiser(
        weights.parameters(),
        {.narrow = o.rounding == Rounding::master ? headmix::narrow_parameters::master_weights
                                                  : headmix::narrow_parameters::stochastic_rounding,
         .seed = o.seed},
        compute);
    headmix::Random const random(o.seed, 1);
    std::vector<Int> inputs, targets;
    for (Index step = 0; step < o.steps; ++step) {
      inputs.clear(), targets.clear();
      for (Index b = 0; b < o.batch; ++b) {
        auto const begin = ids.begin() + static_cast<Index>(random.below(static_cast<std::uint64_t>(step * o.batch + b),
                                                                         trained - context));
        inputs.insert(inputs.end(), begin, begin + o.context);
        targets.insert(targets.end(), begin + 1, begin + 1 + o.context);
      }
      double const loss = trainer->forward(inputs, targets, o.batch);
      trainer->backward(o.balance);
      double const norm = optimiser.gradient_norm();
      if (!std::isfinite(loss) || !std::isfinite(norm)) {
        program::complain(message("step ", step + 1, ": the loss is ", loss, " and the norm of the gradient ", norm,
                                  ": nothing is written"));
        return program::not_finite;
      }
      optimiser.step(headmix::warmup_cosine(step, o.warmup, o.steps, o.lr, o.min_lr), std::min(1.0, 1 / norm));
      if ((step + 1) % std::max<Index>(1, o.steps / 10) == 0) {
        std::fprintf(stderr, "step %td/%td, loss %.4f\n", step + 1, o.steps, loss);
      }
    }
  }
  std::printf("after: %.6f nats per token\n", mean_loss(c, weights, held_out, o.context));
  write_model(o, c, weights);
  return program::done;
}

int headmix_llama(std::vector<std::string_view> const& arguments) {
  Options const o = parse_options(arguments);
  if (o.help) {
    std::fputs(help_text().c_str(), stdout);
    return program::done;
  }
  Config const from = read_config(o.folder);
  if (o.command == Command::costs) {
    std::fputs(costs(from).c_str(), stdout);
    return program::done;
  }
  Config const c = chosen(o, from);
  headmix::thread_pool threads(o.threads);
  Compute const compute(threads);
  bool const trains = o.command == Command::train;
  Weights<Compute> weights(c, compute, trains);
  load_weights(o.folder, from.attention, weights, c, o.seed);
  switch (o.command) {
    case Command::generate:
      return generate(o, c, weights);
    case Command::evaluate:
      return evaluate(o, c, weights);
    case Command::train:
      return train(o, c, weights, compute);
    default:
      create_out(o);
      write_model(o, c, weights);
      return program::done;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return program::run("headmix-llama", [&] {
    return headmix_llama(std::vector<std::string_view>(argv + (argc > 0 ? 1 : 0), argv + argc));
  });
}
