// SPDX-License-Identifier: MIT
// Parsing of the command line, driven by one table.

#include "options.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <cmath>
#include <limits>
#include <thread>
#include <type_traits>
#include <variant>

#include "headmix/count/parity.hpp"

namespace lm {
namespace {

using Member =
    std::variant<std::string Options::*, Attention Options::*, Device Options::*, ProgressMode Options::*,
                 HeadRouter Options::*, Training Options::*, fine_tuning Options::*, Pool Options::*, Ffn Options::*,
                 Weights Options::*, FfnVariant Options::*, FfnInit Options::*, Scalar Options::*, Parallel Options::*,
                 Index Options::*, std::uint64_t Options::*, double Options::*, bool Options::*>;
/// The kinds of attention, and of feed-forward mixtures, that an option is for, one bit each.
using For = unsigned;
constexpr For dense = 1, moa = 2, moh = 4, mae = 8, all = dense | moa | moh | mae;
constexpr For smoe = 16, mh_moe = 32, mixture = smoe | mh_moe;
constexpr std::array kinds{Attention::dense, Attention::moa, Attention::moh, Attention::mae};
constexpr std::array tunings{fine_tuning::all, fine_tuning::gates, fine_tuning::gates_and_outputs};
constexpr std::array networks{Ffn::dense, Ffn::smoe, Ffn::mh_moe};
constexpr std::array variants{FfnVariant::none,    FfnVariant::renormalized, FfnVariant::shared_expert,
                              FfnVariant::no_head, FfnVariant::no_merge,     FfnVariant::no_head_no_merge};
constexpr For bit_of(Attention a) { return For{1} << static_cast<unsigned>(a); }
constexpr For bit_of(Ffn f) { return f == Ffn::dense ? 0 : f == Ffn::smoe ? smoe : mh_moe; }

struct Option {
  std::string_view name, value;
  Member member;
  double low, high;  // of numbers, inclusive
  For use;
  std::string_view help, fallback;  // fallback: what to print as the default instead of the member's value
};

constexpr double most = 1e6;  // of counts and extents: far above what fits, low enough for products
constexpr Index most_experts = 4096;

constexpr std::array table{
    Option{"--text", "PATH", &Options::text, 0, 0, all, "train on this file, or on the text files of this folder",
           "C++ standard library headers"},
    Option{"--validation-text", "PATH", &Options::validation_text, 0, 0, all,
           "validate on this file or folder, and train on all of --text", "the last tenth of --text"},
    Option{"--attention", "dense|moa|moh|mae", &Options::attention, 0, 0, all,
           "multi-head, mixture of attention heads, of head attention, or of attentive experts",
           "moa; with --ffn smoe or mh_moe: dense"},
    Option{"--backend", "cpu|cuda|emulated", &Options::backend, 0, 0, all,
           "what computes (emulated: the GPU's kernels on the CPU, slowly)", ""},
    Option{"--scalar", "float|bfloat16", &Options::scalar, 0, 0, all,
           "numbers in which parameters, activations and gradients are stored; what is computed is computed in float, "
           "and the optimiser keeps weights in float",
           ""},
    Option{"--experts", "N", &Options::experts, 1, most_experts, moa | mixture,
           "experts E of every layer: of moa, else of the feed-forward mixture", ""},
    Option{"--top-k", "N", &Options::top_k, 1, most_experts, moa | moh | mixture,
           "experts (moa), or routed heads besides the shared ones (moh), that each token uses; else of the "
           "feed-forward mixture",
           "4; moh: half of the heads"},
    Option{"--head-dim", "N", &Options::head_dim, 1, most, all, "width of a head",
           "32; dense, moh, mae: width / heads"},
    Option{"--layers", "N", &Options::layers, 1, 1000, all, "transformer blocks", ""},
    Option{"--heads", "N", &Options::heads, 1, most, dense | moh | mae,
           "heads, must divide the width (moh, mae: unless --head-dim is given)", ""},
    Option{"--shared-heads", "N", &Options::shared_heads, 0, most, moh, "heads that every token uses",
           "a quarter of the heads"},
    Option{"--router", "two_stage|one_stage|query_norm", &Options::router, 0, 0, moh,
           "chooses heads by weights of its own, with the shared ones weighed apart or not, or by the lengths of their "
           "queries",
           ""},
    Option{"--dropped", "N", &Options::dropped, 1, most, mae, "heads that an expert leaves out", ""},
    Option{"--training", "bcd|joint|uniform", &Options::training, 0, 0, mae,
           "drawn experts, and a gate that is trained in steps of its own; the whole mixture at once; or experts drawn "
           "evenly, without a gate",
           ""},
    Option{"--pool", "prefix|window:N", &Options::pool, 1, most, mae,
           "the gate sees the mean of all positions so far, or of the latest N", ""},
    Option{"--g-every", "N", &Options::g_every, 1, 1e9, mae, "a step of the gate every N steps, with --training bcd",
           ""},
    Option{"--fine-tune", "all|gates|gates_and_outputs", &Options::fine_tune, 0, 0, mae,
           "what moves after --from: everything; the gates, in every step; or the gates, and the output matrices of "
           "attention",
           ""},
    Option{"--gate-width", "N", &Options::gate_dim, 1, most, mae, "width of the gate's hidden layer", ""},
    Option{"--ffn", "dense|smoe|mh_moe", &Options::ffn, 0, 0, all,
           "one feed-forward network, a sparse mixture of experts, or a multi-head one", ""},
    Option{"--split", "N", &Options::split, 1, most, mh_moe, "sub-tokens of a token, must divide the width", ""},
    Option{"--ffn-experts", "N", &Options::ffn_experts, 1, most_experts, mixture,
           "experts of the feed-forward mixture, whatever the attention is",
           "8; mh_moe: as many as have the parameters of 8 of smoe"},
    Option{"--ffn-top-k", "N", &Options::ffn_top_k, 1, most_experts, mixture,
           "experts of the feed-forward mixture that a token, or sub-token, uses", "1; mh_moe: as many as sub-tokens"},
    Option{"--hidden", "N", &Options::hidden, 0, most, mixture,
           "inner width of an expert (0: the mixture costs what a network of 4 times the width does)", ""},
    Option{"--ffn-every", "N", &Options::ffn_every, 1, 1000, mixture,
           "a mixture in every N-th layer, the others are dense", ""},
    Option{"--ffn-variant", "none|renormalized|shared_expert|no_head|no_merge|no_head_no_merge", &Options::ffn_variant,
           0, 0, mixture,
           "changes the mixture: weights of a token's experts that sum to 1; a network that all tokens use besides; "
           "mh_moe "
           "without its head layer, merge layer, or both",
           ""},
    Option{
        "--ffn-init", "module|normal", &Options::ffn_init, 0, 0, mixture,
        "how the mixture's weights start: as its module says, or as all others of the model, by a normal distribution",
        ""},
    Option{"--weights", "real|ternary", &Options::weights, 0, 0, all,
           "of feed-forward networks: numbers, or -1, 0 and 1 times a scale, with 8-bit activations", ""},
    Option{"--width", "N", &Options::width, 1, most, all, "model width", ""},
    Option{"--context", "N", &Options::context, 1, most, all, "bytes the model sees at most", ""},
    Option{"--batch", "N", &Options::batch, 1, most, all, "sequences per step", ""},
    Option{"--steps", "N", &Options::steps, 1, 1e9, all, "training steps", ""},
    Option{"--lr", "X", &Options::lr, 1e-12, 100, all, "largest learning rate", ""},
    Option{"--min-lr", "X", &Options::min_lr, 0, 100, all, "learning rate of the last step (cosine)", "lr / 10"},
    Option{"--warmup", "N", &Options::warmup, 0, 1e9, all, "steps until the largest learning rate", ""},
    Option{"--balance", "X", &Options::balance, 0, 1e6, moa | moh | mixture, "weight of the load-balance losses", ""},
    Option{"--z", "X", &Options::z, 0, 1e6, moa, "weight of the router's z loss", ""},
    Option{"--moa-scale", "X", &Options::moa_scale, 1e-6, 1e6, moa,
           "factor of the mixture's output, whose weights sum to 1 (1: the paper)", "top-k"},
    Option{"--seed", "N", &Options::seed, 0, 0, all, "of the initial weights, the batches and the sample", ""},
    Option{"--threads", "N", &Options::threads, 1, 4096, all, "threads; the results do not depend on it",
           "all of the machine; 1 with --parallel"},
    Option{
        "--parallel", "data|heads|experts", &Options::parallel, 0, 0, all,
        "train in the processes that mpirun starts: each has a part of every batch, or of the heads, or of the experts",
        "none"},
    Option{"--timeout", "SECONDS", &Options::timeout, 0, 1e9, all,
           "with --parallel: a process that has waited so long for another one ends all of them (0: never)", ""},
    Option{"--report", "FOLDER", &Options::report, 0, 0, all,
           "write loss.svg, experts.svg, ffn_experts.svg and report.json here", "none"},
    Option{"--checkpoint", "FOLDER", &Options::checkpoint, 0, 0, all,
           "keep a checkpoint here, from which --resume continues; also saved at the end, and by a signal", "none"},
    Option{"--from", "FOLDER", &Options::from, 0, 0, all,
           "begin with the parameters of the checkpoint in this folder, say of dense attention; the model must have "
           "all of "
           "them, and those that are new begin as without it",
           "none"},
    Option{"--every", "N", &Options::every, 0, 1e9, all, "steps from one checkpoint to the next (0: none in between)",
           ""},
    Option{"--stop-after", "N", &Options::stop_after, 0, 1e9, all,
           "save and end after so many of the --steps (0: after all)", ""},
    Option{"--validate-every", "N", &Options::validate_every, 0, 1e9, all,
           "steps from one validation to the next, for the curve of the report (0: only at the end)", ""},
    Option{"--resume", "", &Options::resume, 0, 0, all,
           "continue the checkpoint of --checkpoint, with the same bits; begin where there is none", "off"},
    Option{"--sample", "N", &Options::sample, 0, 1e6, all,
           "bytes of text to write at the end; where the context is full, its last half begins a new one", ""},
    Option{"--progress", "auto|on|off", &Options::progress, 0, 0, all,
           "one redrawn line on stderr (auto: on a terminal, else a line every 5 %)", ""},
};

constexpr std::size_t position(std::string_view name) {
  std::size_t i = 0;
  while (table[i].name != name) ++i;
  return i;
}

std::string to_text(double x) {
  std::array<char, 32> buffer;
  auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), x).ptr;
  return {buffer.data(), end};
}

[[noreturn]] void mistake(std::string_view option, std::string_view expected, std::string_view found) {
  std::string line(option);
  line += ": expected ";
  line += expected;
  line += ", found ";
  line += found;
  throw UsageError(line);
}

template <class T>
T number(Option const& o, std::string_view text) {
  T value{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const whole = error == std::errc{} && end == text.data() + text.size();
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (!whole) mistake(o.name, "a whole number from 0 to 18446744073709551615", in_quotes(text));
  } else {
    auto const x = static_cast<double>(value);
    if (!whole || !std::isfinite(x) || x < o.low || x > o.high) {
      std::string expected = std::is_integral_v<T> ? "a whole number from " : "a number from ";
      expected += std::is_integral_v<T> ? std::to_string(static_cast<Index>(o.low)) : to_text(o.low);
      expected += " to ";
      expected += std::is_integral_v<T> ? std::to_string(static_cast<Index>(o.high)) : to_text(o.high);
      mistake(o.name, expected, in_quotes(text));
    }
  }
  return value;
}

struct Set {
  Options& options;
  Option const& o;
  std::string_view text;

  void operator()(std::string Options::*member) const {
    if (text.empty()) mistake(o.name, "a path", "nothing");
    options.*member = text;
  }
  void operator()(Attention Options::*member) const {
    for (Attention const a : kinds) {
      if (text != name(a)) continue;
      options.*member = a;
      return;
    }
    mistake(o.name, "dense, moa, moh or mae", in_quotes(text));
  }
  void operator()(Ffn Options::*member) const {
    for (Ffn const f : networks) {
      if (text != name(f)) continue;
      options.*member = f;
      return;
    }
    mistake(o.name, "dense, smoe or mh_moe", in_quotes(text));
  }
  void operator()(Weights Options::*member) const {
    if (text != "real" && text != "ternary") mistake(o.name, "real or ternary", in_quotes(text));
    options.*member = text == "real" ? Weights::real : Weights::ternary;
  }
  void operator()(Scalar Options::*member) const {
    if (text != "float" && text != "bfloat16") mistake(o.name, "float or bfloat16", in_quotes(text));
    options.*member = text == "float" ? Scalar::float32 : Scalar::bfloat16;
  }
  void operator()(HeadRouter Options::*member) const {
    for (HeadRouter const r : {HeadRouter::two_stage, HeadRouter::one_stage, HeadRouter::query_norm}) {
      if (text != name(r)) continue;
      options.*member = r;
      return;
    }
    mistake(o.name, "two_stage, one_stage or query_norm", in_quotes(text));
  }
  void operator()(FfnVariant Options::*member) const {
    for (FfnVariant const v : variants) {
      if (text != name(v)) continue;
      options.*member = v;
      return;
    }
    mistake(o.name, "none, renormalized, shared_expert, no_head, no_merge or no_head_no_merge", in_quotes(text));
  }
  void operator()(FfnInit Options::*member) const {
    if (text != "module" && text != "normal") mistake(o.name, "module or normal", in_quotes(text));
    options.*member = text == "module" ? FfnInit::module : FfnInit::normal;
  }
  void operator()(Training Options::*member) const {
    for (Training const t : {Training::bcd, Training::joint, Training::uniform}) {
      if (text != name(t)) continue;
      options.*member = t;
      return;
    }
    mistake(o.name, "bcd, joint or uniform", in_quotes(text));
  }
  void operator()(fine_tuning Options::*member) const {
    for (fine_tuning const f : tunings) {
      if (text != name(f)) continue;
      options.*member = f;
      return;
    }
    mistake(o.name, "all, gates or gates_and_outputs", in_quotes(text));
  }
  void operator()(Pool Options::*member) const {
    constexpr std::string_view window = "window:";
    if (text != "prefix" && !text.starts_with(window)) mistake(o.name, "prefix or window:N", in_quotes(text));
    options.*member = {text == "prefix" ? 0 : number<Index>(o, text.substr(window.size()))};
  }
  void operator()(Device Options::*member) const {
    for (Device const d : {Device::cpu, Device::cuda, Device::emulated}) {
      if (text != name(d)) continue;
      options.*member = d;
      return;
    }
    mistake(o.name, "cpu, cuda or emulated", in_quotes(text));
  }
  void operator()(Parallel Options::*member) const {
    for (Parallel const p : {Parallel::data, Parallel::heads, Parallel::experts}) {
      if (text != name(p)) continue;
      options.*member = p;
      return;
    }
    mistake(o.name, "data, heads or experts", in_quotes(text));
  }
  void operator()(ProgressMode Options::*member) const {
    if (text != "auto" && text != "on" && text != "off") mistake(o.name, "auto, on or off", in_quotes(text));
    options.*member = text == "on" ? ProgressMode::on : text == "off" ? ProgressMode::off : ProgressMode::automatic;
  }
  void operator()(bool Options::*member) const { options.*member = true; }
  template <class T>
  void operator()(T Options::*member) const {
    options.*member = number<T>(o, text);
  }
};

struct Show {
  Options const& options;

  std::string operator()(std::string Options::*member) const { return options.*member; }
  std::string operator()(Attention Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(Device Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(Scalar Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(HeadRouter Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(Training Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(fine_tuning Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(FfnVariant Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(FfnInit Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(Ffn Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(Weights Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(Pool Options::*member) const { return name(options.*member); }
  std::string operator()(Parallel Options::*member) const { return std::string(name(options.*member)); }
  std::string operator()(ProgressMode Options::*) const { return "auto"; }
  std::string operator()(bool Options::*member) const { return options.*member ? "on" : "off"; }
  std::string operator()(double Options::*member) const { return to_text(options.*member); }
  template <class T>
  std::string operator()(T Options::*member) const {
    return std::to_string(options.*member);
  }
};

using Given = std::bitset<table.size()>;

/// binomial(heads, dropped), or anything above most_experts where it is larger.
Index count_experts(Index heads, Index dropped) {
  Index n = 1;
  for (Index i = 1; i <= dropped && n <= most_experts; ++i) n = n * (heads - dropped + i) / i;
  return n;
}

/// --experts and --top-k go to the feed-forward mixture if the attention has no such option; sizes that are not given
/// follow from parity with a dense network of 4 times the width, which has 2 matrices where an expert has 3.
void complete_mixture(Options& o, Given const& given) {
  auto const for_attention = [&o](std::string_view option) {
    return (table[position(option)].use & bit_of(o.attention)) != 0;
  };
  bool const experts = !for_attention("--experts") && given[position("--experts")];
  bool const top_k = !for_attention("--top-k") && given[position("--top-k")];
  bool const own_experts = given[position("--ffn-experts")], own_top_k = given[position("--ffn-top-k")];
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

/// What is built for several processes.
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

/// What one option alone cannot tell: defaults that depend on others, and pairs that do not fit.
void complete(Options& o, Given const& given) {
  auto const found = [&given](std::string_view option, Index n) {
    return std::to_string(n) + (given[position(option)] ? "" : " (the default)");
  };
  if (!given[position("--attention")] && o.ffn != Ffn::dense) o.attention = Attention::dense;
  if (o.ffn != Ffn::dense) complete_mixture(o, given);
  if (o.parallel != Parallel::none) check_parallel(o);
  if (!given[position("--threads")]) {
    o.threads = o.parallel == Parallel::none ? std::max<Index>(1, std::thread::hardware_concurrency()) : 1;
  }
  if (!given[position("--min-lr")]) o.min_lr = o.lr / 10;
  if (!given[position("--moa-scale")]) o.moa_scale = static_cast<double>(o.top_k);
  for (std::string_view const option : {"--every", "--stop-after", "--resume"})
    if (given[position(option)] && o.checkpoint.empty()) mistake(option, "--checkpoint FOLDER with it", "none");
  if (o.stop_after >= o.steps)
    mistake("--stop-after", "fewer than --steps, " + std::to_string(o.steps), std::to_string(o.stop_after));
  if (o.min_lr > o.lr) mistake("--min-lr", "at most --lr, " + to_text(o.lr), to_text(o.min_lr));
  if (o.batch > std::numeric_limits<headmix::Int>::max() / o.context)
    mistake("--batch", "batch x context below 2^31", std::to_string(o.batch) + " x " + std::to_string(o.context));

  if (o.attention == Attention::moa && o.top_k > o.experts)
    mistake("--top-k", "at most --experts, " + std::to_string(o.experts), found("--top-k", o.top_k));
  bool const has_width = o.attention == Attention::moh || o.attention == Attention::mae;
  bool const own_width = has_width && given[position("--head-dim")];
  if (o.attention != Attention::moa && !own_width) {
    if (o.width % o.heads != 0)
      mistake("--heads", "a divisor of --width, " + std::to_string(o.width), found("--heads", o.heads));
    Index const head_dim = o.width / o.heads;
    if (given[position("--head-dim")] && o.head_dim != head_dim)
      mistake("--head-dim", "width / heads = " + std::to_string(head_dim) + " with --attention dense",
              std::to_string(o.head_dim));
    o.head_dim = head_dim;
    if (head_dim % 2 != 0)
      mistake("--heads", "an even width / heads, for rotary embedding",
              std::to_string(o.width) + " / " + std::to_string(o.heads) + " = " + std::to_string(head_dim));
  }
  if (o.head_dim % 2 != 0) mistake("--head-dim", "an even number, for rotary embedding", std::to_string(o.head_dim));
  if (o.attention == Attention::moh) {
    if (!given[position("--shared-heads")]) o.shared_heads = o.heads / 4;
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
    if (!given[position("--top-k")]) o.top_k = std::clamp<Index>(o.heads / 2, 1, routed);
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
      if (o.fine_tune == fine_tuning::gates && given[position("--g-every")])
        o.notes.push_back("--g-every has no effect with --fine-tune gates");
    }
    bool const gate = o.training != Training::uniform;
    for (std::string_view const option : {"--pool", "--gate-width", "--g-every"})
      if (given[position(option)] && (option == "--g-every" ? o.training != Training::bcd : !gate))
        o.notes.push_back(std::string(option) + " has no effect with --training " + std::string(name(o.training)));
  }
  if (given[position("--timeout")] && o.parallel == Parallel::none)
    o.notes.emplace_back("--timeout has no effect without --parallel");
  if (given[position("--threads")] && o.backend != Device::cpu)
    o.notes.push_back("--threads has no effect with --backend " + std::string(name(o.backend)));
  for (std::size_t i = 0; i < table.size(); ++i) {
    For const use = table[i].use;
    if (!given[i] || (use & (bit_of(o.attention) | bit_of(o.ffn))) != 0) continue;
    std::string note = std::string(table[i].name) + " has no effect with";
    if ((use & all) != 0) note += " --attention " + std::string(name(o.attention));
    if ((use & all) != 0 && (use & mixture) != 0) note += " and";
    if ((use & mixture) != 0) note += " --ffn " + std::string(name(o.ffn));
    o.notes.push_back(note);
  }
}

}  // namespace

std::string_view name(Attention attention) {
  constexpr std::array<std::string_view, 4> names{"dense", "moa", "moh", "mae"};
  return names[static_cast<std::size_t>(attention)];
}

std::string_view name(Scalar scalar) { return scalar == Scalar::float32 ? "float" : "bfloat16"; }

std::string_view name(HeadRouter router) {
  return router == HeadRouter::two_stage ? "two_stage" : router == HeadRouter::one_stage ? "one_stage" : "query_norm";
}

std::string_view name(Training training) {
  return training == Training::bcd ? "bcd" : training == Training::joint ? "joint" : "uniform";
}

std::string_view name(fine_tuning which) {
  return which == fine_tuning::all ? "all" : which == fine_tuning::gates ? "gates" : "gates_and_outputs";
}

std::string name(Pool pool) { return pool.window == 0 ? "prefix" : "window:" + std::to_string(pool.window); }

std::string_view name(FfnVariant variant) {
  constexpr std::array<std::string_view, variants.size()> names{"none",    "renormalized", "shared_expert",
                                                                "no_head", "no_merge",     "no_head_no_merge"};
  return names[static_cast<std::size_t>(variant)];
}

std::string_view name(FfnInit init) { return init == FfnInit::module ? "module" : "normal"; }

Index dense_hidden(Options const& options) { return headmix::ratio{8 * options.width, 3}.nearest(); }

std::string_view name(Ffn ffn) { return ffn == Ffn::dense ? "dense" : ffn == Ffn::smoe ? "smoe" : "mh_moe"; }

std::string_view name(Weights weights) { return weights == Weights::real ? "real" : "ternary"; }

std::string_view name(Parallel parallel) {
  constexpr std::array<std::string_view, 4> names{"none", "data", "heads", "experts"};
  return names[static_cast<std::size_t>(parallel)];
}

std::string_view name(Device device) {
  return device == Device::cpu ? "cpu" : device == Device::cuda ? "cuda" : "emulated";
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 200;
  std::string s = "'";
  for (char const c : text.substr(0, longest)) s += c >= ' ' && c <= '~' ? c : '?';
  return s + (text.size() > longest ? "...'" : "'");
}

Options parse_options(std::vector<std::string_view> const& arguments) {
  Options options;
  Given given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view const argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      return options;
    }
    if (!argument.starts_with("-"))
      throw UsageError("expected an option, found " + in_quotes(argument) + " (--help lists the options)");
    std::size_t const equals = argument.find('=');
    std::string_view const key = argument.substr(0, equals);
    auto const o = std::find_if(table.begin(), table.end(), [key](Option const& e) { return e.name == key; });
    if (o == table.end()) throw UsageError("unknown option " + in_quotes(key) + " (--help lists the options)");
    std::string_view text;
    if (equals != std::string_view::npos) {
      text = argument.substr(equals + 1);
      if (o->value.empty()) mistake(key, "no value", in_quotes(text));
    } else if (!o->value.empty()) {
      std::string const value = std::string("a value, ").append(o->value);
      if (++i == arguments.size()) mistake(key, value, "the end of the command line");
      text = arguments[i];
      // A forgotten value must not swallow the next option; `--key=--value` says that it is meant.
      if (text.starts_with("--")) mistake(key, value, "the option " + in_quotes(text));
    }
    std::visit(Set{options, *o, text}, o->member);
    given.set(static_cast<std::size_t>(o - table.begin()));
  }
  complete(options, given);
  return options;
}

std::vector<std::pair<std::string, std::string>> settings(Options const& options) {
  constexpr std::array<std::string_view, 13> others{
      "--text",       "--from",   "--validation-text", "--threads",  "--report",   "--checkpoint", "--every",
      "--stop-after", "--resume", "--sample",          "--progress", "--parallel", "--timeout"};
  std::vector<std::pair<std::string, std::string>> all_of_them;
  for (Option const& o : table) {
    bool const used = (o.use & (bit_of(options.attention) | bit_of(options.ffn))) != 0;
    if (!used || std::find(others.begin(), others.end(), o.name) != others.end()) continue;
    all_of_them.emplace_back(o.name, std::visit(Show{options}, o.member));
  }
  return all_of_them;
}

std::string help_text() {
  // " only" after all kinds that an option is for, where it is not for all of them.
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
  for (Option const& o : table) {
    std::string line = "  " + std::string(o.name) + " " + std::string(o.value);
    line.resize(std::max<std::size_t>(line.size() + 2, 26), ' ');
    line += o.help;
    line += " [";
    line += o.fallback.empty() ? std::visit(Show{Options{}}, o.member) : std::string(o.fallback);
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
