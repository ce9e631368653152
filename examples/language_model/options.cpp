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

namespace lm {
namespace {

using Member = std::variant<std::string Options::*, Attention Options::*, Device Options::*, ProgressMode Options::*,
                            Index Options::*, std::uint64_t Options::*, double Options::*>;
enum class For { both, dense, moa };

struct Option {
  std::string_view name, value;
  Member member;
  double low, high;  // of numbers, inclusive
  For use;
  std::string_view help, fallback;  // fallback: what to print as the default instead of the member's value
};

constexpr double most = 1e6;  // of counts and extents: far above what fits, low enough for products

constexpr std::array table{
    Option{"--text", "PATH", &Options::text, 0, 0, For::both, "train on this file, or on the text files of this folder",
           "C++ standard library headers"},
    Option{"--attention", "dense|moa", &Options::attention, 0, 0, For::both, "multi-head or mixture of attention heads",
           ""},
    Option{"--backend", "cpu|cuda|emulated", &Options::backend, 0, 0, For::both,
           "what computes (emulated: the GPU's kernels on the CPU, slowly)", ""},
    Option{"--experts", "N", &Options::experts, 1, 4096, For::moa, "experts E of every layer", ""},
    Option{"--top-k", "N", &Options::top_k, 1, 4096, For::moa, "experts k that each token uses", ""},
    Option{"--head-dim", "N", &Options::head_dim, 1, most, For::both, "width of a head (dense: width / heads)", ""},
    Option{"--layers", "N", &Options::layers, 1, 1000, For::both, "transformer blocks", ""},
    Option{"--heads", "N", &Options::heads, 1, most, For::dense, "heads, must divide the width", ""},
    Option{"--width", "N", &Options::width, 1, most, For::both, "model width", ""},
    Option{"--context", "N", &Options::context, 1, most, For::both, "bytes the model sees at most", ""},
    Option{"--batch", "N", &Options::batch, 1, most, For::both, "sequences per step", ""},
    Option{"--steps", "N", &Options::steps, 1, 1e9, For::both, "training steps", ""},
    Option{"--lr", "X", &Options::lr, 1e-12, 100, For::both, "largest learning rate", ""},
    Option{"--min-lr", "X", &Options::min_lr, 0, 100, For::both, "learning rate of the last step (cosine)", "lr / 10"},
    Option{"--warmup", "N", &Options::warmup, 0, 1e9, For::both, "steps until the largest learning rate", ""},
    Option{"--balance", "X", &Options::balance, 0, 1e6, For::moa, "weight of the load-balance loss", ""},
    Option{"--z", "X", &Options::z, 0, 1e6, For::moa, "weight of the router's z loss", ""},
    Option{"--moa-scale", "X", &Options::moa_scale, 1e-6, 1e6, For::moa,
           "factor of the mixture's output, whose weights sum to 1 (1: the paper)", "top-k"},
    Option{"--seed", "N", &Options::seed, 0, 0, For::both, "of the initial weights, the batches and the sample", ""},
    Option{"--threads", "N", &Options::threads, 1, 4096, For::both, "threads; the results do not depend on it",
           "all of the machine"},
    Option{"--report", "FOLDER", &Options::report, 0, 0, For::both, "write loss.svg, experts.svg and report.json here",
           "none"},
    Option{"--sample", "N", &Options::sample, 0, 1e6, For::both, "bytes of text to write at the end", ""},
    Option{"--progress", "auto|on|off", &Options::progress, 0, 0, For::both,
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
    if (text != "dense" && text != "moa") mistake(o.name, "dense or moa", in_quotes(text));
    options.*member = text == "dense" ? Attention::dense : Attention::moa;
  }
  void operator()(Device Options::*member) const {
    for (Device const d : {Device::cpu, Device::cuda, Device::emulated}) {
      if (text != name(d)) continue;
      options.*member = d;
      return;
    }
    mistake(o.name, "cpu, cuda or emulated", in_quotes(text));
  }
  void operator()(ProgressMode Options::*member) const {
    if (text != "auto" && text != "on" && text != "off") mistake(o.name, "auto, on or off", in_quotes(text));
    options.*member = text == "on" ? ProgressMode::on : text == "off" ? ProgressMode::off : ProgressMode::automatic;
  }
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
  std::string operator()(ProgressMode Options::*) const { return "auto"; }
  std::string operator()(double Options::*member) const { return to_text(options.*member); }
  template <class T>
  std::string operator()(T Options::*member) const {
    return std::to_string(options.*member);
  }
};

using Given = std::bitset<table.size()>;

/// What one option alone cannot tell: defaults that depend on others, and pairs that do not fit.
void complete(Options& o, Given const& given) {
  auto const found = [&given](std::string_view option, std::string text) {
    if (!given[position(option)]) text += " (the default)";
    return text;
  };
  if (!given[position("--threads")]) o.threads = std::max<Index>(1, std::thread::hardware_concurrency());
  if (!given[position("--min-lr")]) o.min_lr = o.lr / 10;
  if (!given[position("--moa-scale")]) o.moa_scale = static_cast<double>(o.top_k);
  if (o.min_lr > o.lr) mistake("--min-lr", "at most --lr, " + to_text(o.lr), to_text(o.min_lr));
  if (o.batch > std::numeric_limits<headmix::Int>::max() / o.context)
    mistake("--batch", "batch x context below 2^31", std::to_string(o.batch) + " x " + std::to_string(o.context));

  bool const moa = o.attention == Attention::moa;
  if (moa && o.top_k > o.experts)
    mistake("--top-k", "at most --experts, " + std::to_string(o.experts), found("--top-k", std::to_string(o.top_k)));
  if (!moa) {
    if (o.width % o.heads != 0)
      mistake("--heads", "a divisor of --width, " + std::to_string(o.width), found("--heads", std::to_string(o.heads)));
    Index const head_dim = o.width / o.heads;
    if (given[position("--head-dim")] && o.head_dim != head_dim)
      mistake("--head-dim", "width / heads = " + std::to_string(head_dim) + " with --attention dense",
              std::to_string(o.head_dim));
    o.head_dim = head_dim;
  }
  if (given[position("--threads")] && o.backend != Device::cpu)
    o.notes.push_back("--threads has no effect with --backend " + std::string(name(o.backend)));
  for (std::size_t i = 0; i < table.size(); ++i)
    if (given[i] && table[i].use == (moa ? For::dense : For::moa))
      o.notes.push_back(std::string(table[i].name) + " has no effect with --attention " +
                        std::string(name(o.attention)));
}

}  // namespace

std::string_view name(Attention attention) { return attention == Attention::dense ? "dense" : "moa"; }

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
    } else {
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

std::string help_text() {
  std::string s =
      "headmix-lm: trains a byte-level language model with mixture-of-attention-heads (or dense) layers on a text\n\n"
      "usage: headmix-lm [--option VALUE | --option=VALUE]...\n\n";
  for (Option const& o : table) {
    std::string line = "  " + std::string(o.name) + " " + std::string(o.value);
    line.resize(std::max<std::size_t>(line.size() + 2, 26), ' ');
    line += o.help;
    line += " [";
    line += o.fallback.empty() ? std::visit(Show{Options{}}, o.member) : std::string(o.fallback);
    line += o.use == For::both ? "]" : o.use == For::moa ? "; moa only]" : "; dense only]";
    s += line + "\n";
  }
  s += "  --help                  print this and exit\n\n"
       "Defaults stand in brackets. An option for the other kind of attention is no mistake, so that two runs can "
       "differ in\n"
       "--attention alone; it is ignored, and a note on stderr says so. The last of several equal options counts.\n"
       "The last line on stdout is one JSON object with the results. Exit status 2: bad options or an unreadable "
       "text.\n";
  return s;
}

}  // namespace lm
