// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "../../examples/command_line.hpp"
#include "headmix/core/error.hpp"

namespace bench {

using command_line::in_quotes, command_line::mistake, headmix::message;

Options parse_options(std::vector<std::string> const& arguments) {
  using namespace command_line;
  Options o;
  Sizes& s = o.sizes;
  o.quick = std::find(arguments.begin(), arguments.end(), "--quick") != arguments.end();
  if (o.quick) {
    s.tokens = 64, s.sequences = 4, s.width = 32, s.heads = 4, s.head_dim = 8, s.experts = 8, s.top_k = 2,
    s.hidden = 16;
    o.timing = {1, 0};
  }
  std::string all_layers = "all", type = "bfloat16";
  for (auto const& l : layers()) all_layers.append("|").append(l.name);
  constexpr Index most = Index{1} << 24;
  std::vector<Option> const table = {
      {"--tokens", number_in(s.tokens, 1, most)},
      {"--sequences", number_in(s.sequences, 1, most)},
      {"--width", number_in(s.width, 2, most)},
      {"--heads", number_in(s.heads, 4, most)},
      {"--head_dim", number_in(s.head_dim, 1, most)},
      {"--experts", number_in(s.experts, 1, most)},
      {"--top_k", number_in(s.top_k, 1, most)},
      {"--hidden", number_in(s.hidden, 1, most)},
      {"--layer", choice_in(o.layer, all_layers)},
      {"--quick", flag_in(o.quick)},
      {"--repetitions", number_in(o.timing.repetitions, 1, 1000)},
      {"--machine", text_in(o.machine, "NAME")},
      {"--machines", text_in(o.machines, "FILE")},
      {"--ranks", number_in(o.ranks, 1, 1 << 20)},
      {"--type", choice_in(type, "bfloat16|float")},
  };
  Given const given = parse(table, arguments);
  o.bfloat16 = type == "bfloat16";
  bool const runs = o.machine.empty();
  for (std::string_view const option : {"--machines", "--ranks", "--type"}) {
    if (runs && given.contains(option)) mistake(option, "--machine with it", "none");
  }
  for (std::string_view const option : {"--quick", "--repetitions"}) {
    if (!runs && given.contains(option)) mistake(option, "no --machine with it", "--machine " + o.machine);
  }
  if (s.tokens % s.sequences != 0) {
    mistake("--sequences", message("a number that divides the ", s.tokens, " tokens"), message(s.sequences));
  }
  if (s.top_k > s.experts) mistake("--top_k", message("at most the ", s.experts, " experts"), message(s.top_k));
  if (s.width % 2 != 0) mistake("--width", "an even number, as tokens of MhMoe have two parts", message(s.width));
  return o;
}

Machine find_machine(std::string const& file, std::string const& name) {
  std::ifstream in(file);
  if (!in) mistake("--machines", "a file that can be read", in_quotes(file));
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
        mistake(where, "a positive number", in_quotes(word[i]));
      }
      numbers.push_back(value);
    }
    if (numbers[0] != static_cast<double>(static_cast<Index>(numbers[0]))) {
      mistake(where, "a whole number of ranks per node", in_quotes(word[1]));
    }
    if (numbers[3] > 1) mistake(where, "an efficiency of at most 1", in_quotes(word[4]));
    names += (names.empty() ? "" : ", ") + word[0];
    if (word[0] != name) continue;
    return {
        name,
        numbers[1] * 1e12,
        numbers[2] * 1e12,
        numbers[3],
        {static_cast<Index>(numbers[0]), {numbers[4] * 1e-6, numbers[5] * 1e9}, {numbers[6] * 1e-6, numbers[7] * 1e9}}};
  }
  mistake("--machine", message("one of ", file, ": ", names), in_quotes(name));
}

}  // namespace bench
