// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "headmix/core/error.hpp"

namespace bench {
namespace {

using headmix::message;

[[noreturn]] void mistake(std::string_view where, std::string_view expected, std::string_view found) {
  throw std::invalid_argument(message(where, ": expected ", expected, ", found ", found));
}
std::string quoted(std::string_view text) { return message("'", text, "'"); }

Index number(std::string_view option, std::string_view text, Index least, Index most) {
  Index value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    mistake(option, message("a whole number from ", least, " to ", most), quoted(text));
  }
  return value;
}
std::string names_of_layers() {
  std::string names = "all";
  for (auto const& l : layers()) names += message(", ", l.name);
  return names;
}

struct SizeOption {
  char const* name;
  Index Sizes::*size;
  Index least, quick;
};
constexpr SizeOption size_options[] = {
    {"--tokens", &Sizes::tokens, 1, 64}, {"--sequences", &Sizes::sequences, 1, 4}, {"--width", &Sizes::width, 2, 32},
    {"--heads", &Sizes::heads, 4, 4},    {"--head_dim", &Sizes::head_dim, 1, 8},   {"--experts", &Sizes::experts, 1, 8},
    {"--top_k", &Sizes::top_k, 1, 2},    {"--hidden", &Sizes::hidden, 1, 16},
};
constexpr Index most_of_a_size = Index{1} << 24;

}  // namespace

Options parse_options(std::vector<std::string> const& arguments) {
  Options o;
  char const* of_machine = nullptr;  // an option that has a meaning with --machine alone, or without it
  char const* of_run = nullptr;
  o.quick = std::find(arguments.begin(), arguments.end(), "--quick") != arguments.end();
  if (o.quick) {
    for (auto const& s : size_options) o.sizes.*s.size = s.quick;
    o.timing = {1, 0};
    of_run = "--quick";
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string const& option = arguments[i];
    if (option == "--quick") continue;
    auto const value = [&]() -> std::string const& {
      if (i + 1 == arguments.size()) mistake(option, "a value", "the end of the command line");
      return arguments[++i];
    };
    auto const* const size = std::find_if(std::begin(size_options), std::end(size_options),
                                          [&](SizeOption const& s) { return option == s.name; });
    if (size != std::end(size_options)) {
      o.sizes.*size->size = number(option, value(), size->least, most_of_a_size);
    } else if (option == "--layer") {
      o.layer = value();
      auto const all = layers();
      bool const known = std::any_of(all.begin(), all.end(), [&](Layer const& l) { return o.layer == l.name; });
      if (o.layer != "all" && !known) mistake(option, names_of_layers(), quoted(o.layer));
    } else if (option == "--repetitions") {
      o.timing.repetitions = static_cast<int>(number(option, value(), 1, 1000));
      of_run = "--repetitions";
    } else if (option == "--machine") {
      o.machine = value();
      if (o.machine.empty()) mistake(option, "a name", "''");
    } else if (option == "--machines") {
      o.machines = value(), of_machine = "--machines";
    } else if (option == "--ranks") {
      o.ranks = number(option, value(), 1, 1 << 20), of_machine = "--ranks";
    } else if (option == "--type") {
      std::string const& type = value();
      if (type != "bfloat16" && type != "float") mistake(option, "bfloat16 or float", quoted(type));
      o.bfloat16 = type == "bfloat16", of_machine = "--type";
    } else {
      mistake("the command line",
              "--tokens, --sequences, --width, --heads, --head_dim, --experts, --top_k, --hidden, --layer, --quick, "
              "--repetitions or --machine with --machines, --ranks, --type",
              quoted(option));
    }
  }
  if (o.machine.empty() && of_machine) mistake(of_machine, "--machine with it", "none");
  if (!o.machine.empty() && of_run) mistake(of_run, "no --machine with it", "--machine " + o.machine);
  Sizes const& s = o.sizes;
  if (s.tokens % s.sequences != 0) {
    mistake("--sequences", message("a number that divides the ", s.tokens, " tokens"), message(s.sequences));
  }
  if (s.top_k > s.experts) mistake("--top_k", message("at most the ", s.experts, " experts"), message(s.top_k));
  if (s.width % 2 != 0) mistake("--width", "an even number, as tokens of MhMoe have two parts", message(s.width));
  return o;
}

Machine find_machine(std::string const& file, std::string const& name) {
  std::ifstream in(file);
  if (!in) mistake("--machines", "a file that can be read", quoted(file));
  std::string line, names;
  for (int n = 1; std::getline(in, line); ++n) {
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    std::vector<std::string> word;
    for (std::string w; words >> w;) word.push_back(w);
    if (word.empty()) continue;
    std::string const where = message(file, ": line ", n);
    if (word.size() != 9) mistake(where, "a name and 8 numbers", message(word.size(), " words"));
    std::vector<double> numbers;
    for (std::size_t i = 1; i < word.size(); ++i) {
      double value = 0;
      char const* const last = word[i].data() + word[i].size();
      auto const [end, error] = std::from_chars(word[i].data(), last, value);
      if (error != std::errc() || end != last || !(value > 0) || value > 1e9) {
        mistake(where, "a positive number", quoted(word[i]));
      }
      numbers.push_back(value);
    }
    if (numbers[0] != static_cast<double>(static_cast<Index>(numbers[0]))) {
      mistake(where, "a whole number of ranks per node", quoted(word[1]));
    }
    if (numbers[3] > 1) mistake(where, "an efficiency of at most 1", quoted(word[4]));
    names += (names.empty() ? "" : ", ") + word[0];
    if (word[0] != name) continue;
    return {
        name,
        numbers[1] * 1e12,
        numbers[2] * 1e12,
        numbers[3],
        {static_cast<Index>(numbers[0]), {numbers[4] * 1e-6, numbers[5] * 1e9}, {numbers[6] * 1e-6, numbers[7] * 1e9}}};
  }
  mistake("--machine", message("one of ", file, ": ", names), quoted(name));
}

}  // namespace bench
