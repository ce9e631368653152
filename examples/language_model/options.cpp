// SPDX-License-Identifier: MIT
// Parsing of the command line, driven by one table.

#include "options.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "headmix/count/parity.hpp"

namespace lm {
namespace {

using command_line::mistake, command_line::to_text, command_line::Given;

/// The kinds of attention, and of feed-forward mixtures, that use an option, one bit each.
using For = unsigned;
constexpr For dense = 1, moa = 2, moh = 4, mae = 8, all = dense | moa | moh | mae;
constexpr For smoe = 16, mh_moe = 32, mixture = smoe | mh_moe;
constexpr std::array kinds{Attention::dense, Attention::moa, Attention::moh, Attention::mae};
constexpr std::array networks{Ffn::dense, Ffn::smoe, Ffn::mh_moe};
constexpr For bit_of(Attention a) { return For{1} << static_cast<unsigned>(a); }
constexpr For bit_of(Ffn f) { return f == Ffn::dense ? 0 : f == Ffn::smoe ? smoe : mh_moe; }

struct Option : command_line::Option {
  For use;
  std::string_view help, fallback;  ///< fallback: the printed default, instead of the variable's value

  Option(std::string_view option, command_line::Value of, For is_for, std::string_view text,
         std::string_view shown = "")
      : command_line::Option{option, std::move(of)}, use(is_for), help(text), fallback(shown) {}
};

constexpr Index most = 1000000;  // limit of counts and extents: more than fits in memory, and products do not overflow
constexpr Index most_experts = 4096;

command_line::Value pool_in(Pool& pool) {
  static constexpr std::string_view window = "window:";
  return {"prefix|window:N",
          [&pool](std::string_view option, std::string_view text) {
            if (text != "prefix" && !text.starts_with(window)) {
              mistake(option, "prefix or window:N", command_line::in_quotes(text));
            }
            pool.window =
                text == "prefix" ? 0 : command_line::to_number<Index>(option, text.substr(window.size()), 1, most);
          },
          [&pool] { return name(pool); }};
}

/// A published configuration: its sizes as options.
struct Preset {
  std::string_view name, options;
};
/// headmix/layer/papers.hpp has the layers as types.
constexpr std::array presets{
    Preset{"moa-base", "--attention moa --experts 8 --top-k 8 --head-dim 128 --width 512 --layers 6"},
    Preset{"moa-big", "--attention moa --experts 32 --top-k 16 --head-dim 256 --width 512 --layers 6"},
    Preset{"moa-A", "--attention moa --experts 8 --top-k 8 --head-dim 256 --width 512 --layers 6"},
    Preset{"moa-B", "--attention moa --experts 16 --top-k 8 --head-dim 256 --width 512 --layers 6"},
    Preset{"moa-C", "--attention moa --experts 32 --top-k 8 --head-dim 64 --width 512 --layers 6"},
    Preset{"moa-D", "--attention moa --experts 32 --top-k 8 --head-dim 128 --width 512 --layers 6"},
    Preset{"moa-E", "--attention moa --experts 32 --top-k 8 --head-dim 256 --width 512 --layers 6"},
    Preset{"moa-F", "--attention moa --experts 32 --top-k 4 --head-dim 256 --width 512 --layers 6"},
    Preset{"moa-8K8E128D",
           "--attention moa --experts 8 --top-k 8 --head-dim 128 --width 512 --layers 8 --context 128"},
    Preset{"moa-8K8E256D",
           "--attention moa --experts 8 --top-k 8 --head-dim 256 --width 512 --layers 8 --context 128"},
    Preset{"moa-8K16E256D",
           "--attention moa --experts 16 --top-k 8 --head-dim 256 --width 512 --layers 8 --context 128"},
    Preset{"moa-8K32E256D",
           "--attention moa --experts 32 --top-k 8 --head-dim 256 --width 512 --layers 8 --context 128"},
    Preset{"moa-8K64E256D",
           "--attention moa --experts 64 --top-k 8 --head-dim 256 --width 512 --layers 8 --context 128"},
    Preset{"mae-7", "--attention mae --heads 8 --dropped 1 --width 512 --layers 6"},
    Preset{"mae-6", "--attention mae --heads 8 --dropped 2 --width 512 --layers 6"},
    Preset{"dense", "--attention dense --heads 12 --width 768 --layers 12"},
    Preset{"smoe",
           "--attention dense --heads 12 --width 768 --layers 12 --ffn smoe --ffn-experts 8 --ffn-top-k 1 --hidden 2048 "
           "--ffn-every 2"},
    Preset{"fine-grained",
           "--attention dense --heads 12 --width 768 --layers 12 --ffn smoe --ffn-experts 16 --ffn-top-k 2 --hidden 1024 "
           "--ffn-every 2"},
    Preset{"mh-moe-2",
           "--attention dense --heads 12 --width 768 --layers 12 --ffn mh_moe --split 2 --ffn-experts 40 --ffn-top-k 2 "
           "--hidden 768 --ffn-every 2"},
    Preset{"mh-moe-3",
           "--attention dense --heads 12 --width 768 --layers 12 --ffn mh_moe --split 3 --ffn-experts 96 --ffn-top-k 3 "
           "--hidden 512 --ffn-every 2"},
    Preset{"moh-llm-s-75", "--attention moh --heads 12 --shared-heads 3 --top-k 6 --width 768 --layers 12"},
    Preset{"moh-llm-s-50", "--attention moh --heads 12 --shared-heads 2 --top-k 4 --width 768 --layers 12"},
    Preset{"moh-llm-b-75", "--attention moh --heads 16 --shared-heads 4 --top-k 8 --width 1536 --layers 24"},
};
std::string const& preset_names() {
  static std::string const names = [] {
    std::string words;
    for (Preset const& p : presets) words.append(words.empty() ? "" : "|").append(p.name);
    return words;
  }();
  return names;
}
std::vector<std::string_view> words_of(std::string_view preset) {
  std::vector<std::string_view> words;
  for (Preset const& p : presets) {
    for (std::string_view rest = p.options; p.name == preset && !rest.empty();) {
      std::size_t const end = rest.find(' ');
      words.push_back(rest.substr(0, end));
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    }
  }
  return words;
}
command_line::Value preset_in(std::string& preset) {
  command_line::Value value = command_line::choice_in(preset, preset_names());
  value.form = "NAME";
  return value;
}

std::vector<Option> table_of(Options& o) {
  using namespace command_line;
  static std::string const presets_help =
      "begin with the sizes of a published configuration, which other options change: " + preset_names();
  return {
      Option{"--preset", preset_in(o.preset), all, presets_help, "none"},
      Option{"--text", text_in(o.text, "PATH"), all, "train on this file, or on the text files of this folder",
             "C++ standard library headers"},
      Option{"--validation-text", text_in(o.validation_text, "PATH"), all,
             "validate on this file or folder, and train on all of --text", "the last tenth of --text"},
      Option{"--attention", choice_in(o.attention, "dense|moa|moh|mae"), all,
             "multi-head, mixture of attention heads, of head attention, or of attentive experts",
             "moa; with --ffn smoe or mh_moe: dense"},
      Option{"--backend", choice_in(o.backend, "cpu|cuda|emulated"), all,
             "what computes (emulated: the GPU's kernels on the CPU, slowly)"},
      Option{"--scalar", choice_in(o.scalar, "float|bfloat16"), all,
             "numbers in which parameters, activations and gradients are stored; what is computed is computed in "
             "float, and the optimiser keeps weights in float"},
      Option{"--experts", number_in(o.experts, 1, most_experts), moa | mixture,
             "experts E of every layer: of moa, else of the feed-forward mixture"},
      Option{"--top-k", number_in(o.top_k, 1, most_experts), moa | moh | mixture,
             "experts (moa), or routed heads besides the shared ones (moh), that each token uses; else of the "
             "feed-forward mixture",
             "4; moh: half of the heads"},
      Option{"--head-dim", number_in(o.head_dim, 1, most), all, "width of a head",
             "32; dense, moh, mae: width / heads"},
      Option{"--layers", number_in(o.layers, 1, 1000), all, "transformer blocks"},
      Option{"--heads", number_in(o.heads, 1, most), dense | moh | mae,
             "heads, must divide the width (moh, mae: unless --head-dim is given)"},
      Option{"--shared-heads", number_in(o.shared_heads, 0, most), moh, "heads that every token uses",
             "a quarter of the heads"},
      Option{"--router", choice_in(o.router, "two_stage|one_stage|query_norm"), moh,
             "chooses heads by weights of its own, with the shared ones weighed apart or not, or by the lengths of "
             "their queries"},
      Option{"--dropped", number_in(o.dropped, 1, most), mae, "heads that an expert leaves out"},
      Option{"--training", choice_in(o.training, "bcd|joint|uniform"), mae,
             "drawn experts, and a gate that is trained in steps of its own; the whole mixture at once; or experts "
             "drawn evenly, without a gate"},
      Option{"--pool", pool_in(o.pool), mae, "the gate sees the mean of all positions so far, or of the latest N"},
      Option{"--g-every", number_in(o.g_every, 1, 1000000000), mae,
             "a step of the gate every N steps, with --training bcd"},
      Option{"--fine-tune", choice_in(o.fine_tune, "all|gates|gates_and_outputs"), mae,
             "what moves after --from: everything; the gates, in every step; or the gates, and the output matrices of "
             "attention"},
      Option{"--gate-width", number_in(o.gate_dim, 1, most), mae, "width of the gate's hidden layer"},
      Option{"--ffn", choice_in(o.ffn, "dense|smoe|mh_moe"), all,
             "one feed-forward network, a sparse mixture of experts, or a multi-head one"},
      Option{"--split", number_in(o.split, 1, most), mh_moe, "sub-tokens of a token, must divide the width"},
      Option{"--ffn-experts", number_in(o.ffn_experts, 1, most_experts), mixture,
             "experts of the feed-forward mixture, whatever the attention is",
             "8; mh_moe: as many as have the parameters of 8 of smoe"},
      Option{"--ffn-top-k", number_in(o.ffn_top_k, 1, most_experts), mixture,
             "experts of the feed-forward mixture that a token, or sub-token, uses",
             "1; mh_moe: as many as sub-tokens"},
      Option{"--hidden", number_in(o.hidden, 0, most), mixture,
             "inner width of an expert (0: the mixture costs what a network of 4 times the width does)"},
      Option{"--ffn-every", number_in(o.ffn_every, 1, 1000), mixture,
             "a mixture in every N-th layer, the others are dense"},
      Option{"--ffn-variant",
             choice_in(o.ffn_variant, "none|renormalized|shared_expert|no_head|no_merge|no_head_no_merge"), mixture,
             "changes the mixture: weights of a token's experts that sum to 1; a network that all tokens use besides; "
             "mh_moe without its head layer, merge layer, or both"},
      Option{"--ffn-init", choice_in(o.ffn_init, "module|normal"), mixture,
             "how the mixture's weights start: as its module says, or as all others of the model, by a normal "
             "distribution"},
      Option{"--weights", choice_in(o.weights, "real|ternary"), all,
             "of feed-forward networks: numbers, or -1, 0 and 1 times a scale, with 8-bit activations"},
      Option{"--width", number_in(o.width, 1, most), all, "model width"},
      Option{"--context", number_in(o.context, 1, most), all, "bytes the model sees at most"},
      Option{"--batch", number_in(o.batch, 1, most), all, "sequences per step"},
      Option{"--steps", number_in(o.steps, 1, 1000000000), all, "training steps"},
      Option{"--lr", number_in(o.lr, 1e-12, 100, "X"), all, "largest learning rate"},
      Option{"--min-lr", number_in(o.min_lr, 0, 100, "X"), all, "learning rate of the last step (cosine)", "lr / 10"},
      Option{"--warmup", number_in(o.warmup, 0, 1000000000), all, "steps until the largest learning rate"},
      Option{"--balance", number_in(o.balance, 0, 1e6, "X"), moa | moh | mixture, "weight of the load-balance losses"},
      Option{"--z", number_in(o.z, 0, 1e6, "X"), moa, "weight of the router's z loss"},
      Option{"--moa-scale", number_in(o.moa_scale, 1e-6, 1e6, "X"), moa,
             "factor of the mixture's output, whose weights sum to 1 (1: the paper)", "top-k"},
      Option{"--seed", number_in(o.seed, 0, std::numeric_limits<std::uint64_t>::max()), all,
             "of the initial weights, the batches and the sample"},
      Option{"--threads", number_in(o.threads, 1, 4096), all, "threads; the results do not depend on it",
             "all of the machine; 1 with --parallel"},
      Option{"--parallel", choice_in(o.parallel, "data|heads|experts"), all,
             "train in the processes that mpirun starts: each has a part of every batch, or of the heads, or of the "
             "experts",
             "none"},
      Option{"--timeout", number_in(o.timeout, 0, 1000000000, "SECONDS"), all,
             "with --parallel: a process that has waited so long for another one ends all of them (0: never)"},
      Option{"--report", text_in(o.report, "FOLDER"), all,
             "write loss.svg, experts.svg, ffn_experts.svg and report.json here", "none"},
      Option{"--checkpoint", text_in(o.checkpoint, "FOLDER"), all,
             "keep a checkpoint here, from which --resume continues; also saved at the end, and by a signal", "none"},
      Option{"--from", text_in(o.from, "FOLDER"), all,
             "begin with the parameters of the checkpoint in this folder, say of dense attention; the model must have "
             "all of them, and those that are new begin as without it",
             "none"},
      Option{"--every", number_in(o.every, 0, 1000000000), all,
             "steps from one checkpoint to the next (0: none in between)"},
      Option{"--stop-after", number_in(o.stop_after, 0, 1000000000), all,
             "save and end after so many of the --steps (0: after all)"},
      Option{"--validate-every", number_in(o.validate_every, 0, 1000000000), all,
             "steps from one validation to the next, for the curve of the report (0: only at the end)"},
      Option{"--resume", flag_in(o.resume), all,
             "continue the checkpoint of --checkpoint, with the same bits; begin where there is none", "off"},
      Option{"--sample", number_in(o.sample, 0, 1000000), all,
             "bytes of text to write at the end; where the context is full, its last half begins a new one"},
      Option{"--progress", choice_in(o.progress, "auto|on|off"), all,
             "one redrawn line on stderr (auto: on a terminal, else a line every 5 %)"},
  };
}

/// binomial(heads, dropped), or a number above most_experts if it is larger.
Index count_experts(Index heads, Index dropped) {
  Index n = 1;
  for (Index i = 1; i <= dropped && n <= most_experts; ++i) n = n * (heads - dropped + i) / i;
  return n;
}

/// --experts and --top-k belong to the feed-forward mixture if the attention has no such option. Sizes that are not
/// given are set by parity with a dense network of 4 times the width, with 2 matrices where an expert has 3.
void complete_mixture(Options& o, Given const& given) {
  bool const experts = o.attention != Attention::moa && given.contains("--experts");
  bool const top_k = o.attention != Attention::moa && o.attention != Attention::moh && given.contains("--top-k");
  bool const own_experts = given.contains("--ffn-experts"), own_top_k = given.contains("--ffn-top-k");
  if (experts && !own_experts) o.ffn_experts = o.experts;
  if (top_k && !own_top_k) o.ffn_top_k = o.top_k;
  if (o.ffn == Ffn::mh_moe && !top_k && !own_top_k)
    o.ffn_top_k = std::min(o.split, experts || own_experts ? o.ffn_experts : most_experts);

  if (o.ffn == Ffn::mh_moe && o.width % o.split != 0)
    mistake("--split", "a divisor of --width, " + std::to_string(o.width), std::to_string(o.split));
  if (o.ffn_every > o.layers)
    mistake("--ffn-every", "at most --layers, " + std::to_string(o.layers), std::to_string(o.ffn_every));
  headmix::expert_sizes const one{.hidden = dense_hidden(o), .experts = 8};
  if (o.hidden == 0) {
    auto const exact = o.ffn == Ffn::mh_moe ? headmix::parity_hidden(o.width, one, o.ffn_top_k)
                                            : headmix::ratio{8 * o.width, 3 * o.ffn_top_k};
    o.hidden = std::max<Index>(1, exact.nearest());
  }
  if (o.ffn == Ffn::mh_moe && !experts && !own_experts)
    o.ffn_experts = std::min(most_experts,
                             std::max(o.ffn_top_k, headmix::parity_experts(o.width, one, o.split, o.hidden).nearest()));
  if (o.ffn_variant != FfnVariant::none) {
    bool const split_only = o.ffn_variant != FfnVariant::renormalized && o.ffn_variant != FfnVariant::shared_expert;
    std::string const found(name(o.ffn_variant));
    if (split_only && o.ffn != Ffn::mh_moe)
      mistake("--ffn-variant", "none, renormalized or shared_expert with --ffn smoe", found);
    if (o.backend != Device::cpu || o.scalar != Scalar::float32 || o.weights != Weights::real ||
        o.parallel != Parallel::none)
      mistake("--ffn-variant", "none without --backend cpu, --scalar float and --weights real, or with --parallel",
              found);
  }
  if (o.ffn_top_k > o.ffn_experts)
    mistake(top_k && !own_top_k ? "--top-k" : "--ffn-top-k",
            "at most the experts of the feed-forward mixture, " + std::to_string(o.ffn_experts),
            std::to_string(o.ffn_top_k));
}

/// Refuses options that are not built for several processes.
void check_parallel(Options const& o) {
  auto const refuse = [&o](std::string_view option, std::string_view expected, std::string_view found) {
    mistake(option, std::string(expected) + " with --parallel " + std::string(name(o.parallel)), found);
  };
  if (o.backend != Device::cpu) refuse("--backend", "cpu", name(o.backend));
  if (o.scalar != Scalar::float32) refuse("--scalar", "float", name(o.scalar));
  if (o.weights != Weights::real) refuse("--weights", "real", name(o.weights));
  if (o.attention == Attention::mae) refuse("--attention", "dense, moa or moh", name(o.attention));
  if (o.attention == Attention::moh && o.router != HeadRouter::two_stage)
    refuse("--router", "two_stage", name(o.router));
  if (o.parallel == Parallel::heads && o.attention == Attention::moa)
    refuse("--attention", "dense or moh", name(o.attention));
  if (o.parallel == Parallel::experts && o.ffn == Ffn::dense && o.attention != Attention::moa)
    refuse("--attention", "moa, or --ffn smoe or mh_moe,", name(o.attention));
}

/// Rules about several options: defaults that depend on others, and contradictions.
void complete(Options& o, std::vector<Option> const& table, Given const& given) {
  auto const found = [&given](std::string_view option, Index n) {
    return std::to_string(n) + (given.contains(option) ? "" : " (the default)");
  };
  if (!given.contains("--attention") && o.ffn != Ffn::dense) o.attention = Attention::dense;
  if (o.ffn != Ffn::dense) complete_mixture(o, given);
  if (o.parallel != Parallel::none) check_parallel(o);
  if (!given.contains("--threads")) {
    o.threads = o.parallel == Parallel::none ? std::max<Index>(1, std::thread::hardware_concurrency()) : 1;
  }
  if (!given.contains("--min-lr")) o.min_lr = o.lr / 10;
  if (!given.contains("--moa-scale")) o.moa_scale = static_cast<double>(o.top_k);
  for (std::string_view const option : {"--every", "--stop-after", "--resume"})
    if (given.contains(option) && o.checkpoint.empty()) mistake(option, "--checkpoint FOLDER with it", "none");
  if (o.stop_after >= o.steps)
    mistake("--stop-after", "fewer than --steps, " + std::to_string(o.steps), std::to_string(o.stop_after));
  if (o.min_lr > o.lr) mistake("--min-lr", "at most --lr, " + to_text(o.lr), to_text(o.min_lr));
  if (o.batch > std::numeric_limits<headmix::Int>::max() / o.context)
    mistake("--batch", "batch x context below 2^31", std::to_string(o.batch) + " x " + std::to_string(o.context));

  if (o.attention == Attention::moa && o.top_k > o.experts)
    mistake("--top-k", "at most --experts, " + std::to_string(o.experts), found("--top-k", o.top_k));
  bool const has_width = o.attention == Attention::moh || o.attention == Attention::mae;
  bool const own_width = has_width && given.contains("--head-dim");
  if (o.attention != Attention::moa && !own_width) {
    if (o.width % o.heads != 0)
      mistake("--heads", "a divisor of --width, " + std::to_string(o.width), found("--heads", o.heads));
    Index const head_dim = o.width / o.heads;
    if (given.contains("--head-dim") && o.head_dim != head_dim)
      mistake("--head-dim", "width / heads = " + std::to_string(head_dim) + " with --attention dense",
              std::to_string(o.head_dim));
    o.head_dim = head_dim;
    if (head_dim % 2 != 0)
      mistake("--heads", "an even width / heads, for rotary embedding",
              std::to_string(o.width) + " / " + std::to_string(o.heads) + " = " + std::to_string(head_dim));
  }
  if (o.head_dim % 2 != 0) mistake("--head-dim", "an even number, for rotary embedding", std::to_string(o.head_dim));
  if (o.attention == Attention::moh) {
    if (!given.contains("--shared-heads")) o.shared_heads = o.heads / 4;
    if (o.router == HeadRouter::one_stage && o.shared_heads == 0)
      mistake("--shared-heads", "1 or more with --router one_stage", found("--shared-heads", o.shared_heads));
    if (o.router == HeadRouter::one_stage &&
        (o.backend != Device::cpu || o.scalar != Scalar::float32 || o.parallel != Parallel::none))
      mistake("--router", "two_stage or query_norm without --backend cpu and --scalar float, or with --parallel",
              "one_stage");
    Index const least = o.router == HeadRouter::query_norm ? 2 : 1, routed = o.heads - o.shared_heads;
    if (routed < least)
      mistake("--shared-heads",
              (least == 2 ? "two routed heads or more with --router query_norm, of --heads " : "fewer than --heads, ") +
                  std::to_string(o.heads),
              found("--shared-heads", o.shared_heads));
    if (!given.contains("--top-k")) o.top_k = std::clamp<Index>(o.heads / 2, 1, routed);
    if (o.top_k > routed)
      mistake("--top-k",
              "at most the routed heads, " + std::to_string(o.heads) + " - " + std::to_string(o.shared_heads) + " = " +
                  std::to_string(routed),
              found("--top-k", o.top_k));
  }
  if (o.attention == Attention::mae) {
    if (o.dropped >= o.heads)
      mistake("--dropped", "fewer than --heads, " + std::to_string(o.heads), found("--dropped", o.dropped));
    o.experts = count_experts(o.heads, o.dropped);
    if (o.experts > most_experts)
      mistake("--dropped", "at most " + std::to_string(most_experts) + " experts",
              "more: subsets of " + std::to_string(o.dropped) + " of " + std::to_string(o.heads) + " heads");
    if (o.fine_tune != fine_tuning::all) {
      if (o.from.empty()) mistake("--fine-tune", "--from FOLDER with it", "none");
      if (o.training != Training::bcd) mistake("--fine-tune", "--training bcd with it", std::string(name(o.training)));
      if (o.fine_tune == fine_tuning::gates && given.contains("--g-every"))
        o.notes.push_back("--g-every has no effect with --fine-tune gates");
    }
    bool const gate = o.training != Training::uniform;
    for (std::string_view const option : {"--pool", "--gate-width", "--g-every"})
      if (given.contains(option) && (option == "--g-every" ? o.training != Training::bcd : !gate))
        o.notes.push_back(std::string(option) + " has no effect with --training " + std::string(name(o.training)));
  }
  if (given.contains("--timeout") && o.parallel == Parallel::none)
    o.notes.emplace_back("--timeout has no effect without --parallel");
  if (given.contains("--threads") && o.backend != Device::cpu)
    o.notes.push_back("--threads has no effect with --backend " + std::string(name(o.backend)));
  for (Option const& option : table) {
    For const use = option.use;
    if (!given.contains(option.name) || (use & (bit_of(o.attention) | bit_of(o.ffn))) != 0) continue;
    std::string note = std::string(option.name) + " has no effect with";
    if ((use & all) != 0) note += " --attention " + std::string(name(o.attention));
    if ((use & all) != 0 && (use & mixture) != 0) note += " and";
    if ((use & mixture) != 0) note += " --ffn " + std::string(name(o.ffn));
    o.notes.push_back(note);
  }
}

}  // namespace

std::string name(Pool pool) { return pool.window == 0 ? "prefix" : "window:" + std::to_string(pool.window); }

Index dense_hidden(Options const& options) { return headmix::ratio{8 * options.width, 3}.nearest(); }

Options parse_options(std::vector<std::string_view> const& arguments) {
  Options options;
  options.help = command_line::asks_for_help(arguments);
  if (options.help) return options;
  auto const table = table_of(options);
  auto const parse = [&table](auto const& words) {
    return command_line::parse(table, words, "--help lists the options");
  };
  Given given = parse(arguments);
  if (!options.preset.empty()) {
    auto words = words_of(options.preset);
    words.insert(words.end(), arguments.begin(), arguments.end());
    given = parse(words);
  }
  complete(options, table, given);
  return options;
}

std::vector<std::pair<std::string, std::string>> settings(Options const& options) {
  constexpr std::array<std::string_view, 14> others{
      "--text",  "--from",       "--validation-text", "--threads", "--report",   "--checkpoint", "--preset",
      "--every", "--stop-after", "--resume",          "--sample",  "--progress", "--parallel",   "--timeout"};
  std::vector<std::pair<std::string, std::string>> all_of_them;
  Options shown = options;
  for (Option const& o : table_of(shown)) {
    bool const used = (o.use & (bit_of(options.attention) | bit_of(options.ffn))) != 0;
    if (!used || std::find(others.begin(), others.end(), o.name) != others.end()) continue;
    all_of_them.emplace_back(o.name, o.value.show());
  }
  return all_of_them;
}

std::string help_text() {
  // " only" after the kinds that use an option, unless all do.
  auto const kinds_of = [](For use) {
    std::string s;
    auto const add = [&s](std::string_view kind) { s += (s.empty() ? "; " : ", ") + std::string(kind); };
    for (Attention const a : kinds)
      if (use != all && (use & bit_of(a)) != 0) add(name(a));
    for (Ffn const f : networks)
      if ((use & bit_of(f)) != 0) add(name(f));
    return s.empty() ? s : s + " only";
  };
  std::string s =
      "headmix-lm: trains a byte-level language model with mixture-of-attention-heads, mixture-of-head, "
      "attentive-expert\n"
      "or dense attention, and dense feed-forward networks or mixtures of them, on a text\n\n"
      "usage: headmix-lm [--option VALUE | --option=VALUE]...\n\n";
  Options defaults;
  for (Option const& o : table_of(defaults)) {
    std::string line = "  " + std::string(o.name) + " " + std::string(o.value.form);
    line.resize(std::max<std::size_t>(line.size() + 2, 26), ' ');
    line += o.help;
    line += " [";
    line += o.fallback.empty() ? o.value.show() : std::string(o.fallback);
    s += line + kinds_of(o.use) + "]\n";
  }
  s += "  --help                  print this and exit\n\n"
       "Defaults stand in brackets. An option for another kind of attention or network is no mistake, so that two "
       "runs can\n"
       "differ in --attention or --ffn alone; it is ignored, and a note on stderr says so. The last of several equal "
       "options\n"
       "counts.\n"
       "The last line on stdout is one JSON object with the results. A signal (Ctrl-C) ends the training after the "
       "current\n"
       "step with the results so far, and a checkpoint if there is a folder for it; a second one ends it at once.\n\n"
       "Exit status:\n"
       "  0  the training is done, or as far as --stop-after\n"
       "  1  results could not be written, to stdout or to the report; what could be, is\n"
       "  2  nothing was trained: bad options, an unreadable text, a folder that cannot be written, too little memory\n"
       "  3  a loss is not finite; stderr names the step. The results are those of the steps before it\n"
       "  4  an error ended the training; the results are those of the steps before it\n"
       "  128 + N  signal N ended the training: 130 SIGINT (Ctrl-C), 143 SIGTERM, 129 SIGHUP\n";
  return s;
}

}  // namespace lm
