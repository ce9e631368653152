// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <array>

#include "../command_line.hpp"

namespace translation {
namespace {

using command_line::number_in, command_line::text_in;

constexpr Index most = 1'000'000;

struct Row : command_line::Option {
  std::string_view help;
  bool of_model = false;  ///< parameters depend on it
};

std::vector<Row> table_of(Options& o) {
  Sizes& s = o.sizes;
  return {{{"--corpus", text_in(o.corpus, "PATH")}, "a gettext catalogue (.mo), or a folder with such files"},
          {{"--attention", command_line::choice_in(o.attention, "moa|mae|dense")},
           "kind of all attention; mae trains by block coordinate descent",
           true},
          {{"--layers", number_in(s.layers, 1, 64)}, "blocks of the encoder, and of the decoder", true},
          {{"--width", number_in(s.width, 2, 8192)}, "width of the model", true},
          {{"--hidden", number_in(s.hidden, 1, most)}, "width of the feed-forward networks", true},
          {{"--heads", number_in(s.heads, 1, 4096)}, "heads (dense; mae has 8)", true},
          {{"--head-dim", number_in(s.head_dim, 2, 4096)},
           "width of a head; by default width / heads, moa: width / top-k",
           true},
          {{"--experts", number_in(s.experts, 1, 4096)}, "experts (moa)", true},
          {{"--top-k", number_in(s.top_k, 1, 4096)}, "experts of a subword (moa)", true},
          {{"--vocabulary", number_in(s.vocabulary, 257, most)}, "most subwords", false},
          {{"--steps", number_in(o.steps, 1, most)}, "updates of the parameters"},
          {{"--batch", number_in(o.batch, 1, most)}, "target subwords of an update"},
          {{"--warmup", number_in(o.warmup, 0, most)}, "updates until the largest learning rate"},
          {{"--lr", number_in(o.lr, 0.0, 1.0)}, "the largest learning rate; it falls with 1 / sqrt(step)"},
          {{"--longest", number_in(o.longest, 1, 4096)}, "subwords of a sentence; longer ones are not used"},
          {{"--seed", number_in(o.seed, 0, 1'000'000'000)}, "of parameters, batches, dropout and drawn experts"},
          {{"--beams", number_in(o.search.beams, 1, 64)}, "continuations of the beam search"},
          {{"--length-power", number_in(o.search.length_power, 0.0, 4.0)}, "log p is divided by length to this power"},
          {{"--test", number_in(o.test, 1, most)}, "sentences of the test part that are translated, at most"},
          {{"--save", text_in(o.save, "FOLDER")}, "writes the averaged parameters and the subwords"},
          {{"--from", text_in(o.from, "FOLDER")}, "translates lines of stdin with what --save wrote, without training"},
          {{"--check-decoding", command_line::flag_in(o.check_decoding)},
           "compares the search with caches with whole passes over the same prefixes, to --longest subwords"}};
}

}  // namespace

Options parse_options(std::vector<std::string_view> const& arguments) {
  Options o;
  if ((o.help = command_line::asks_for_help(arguments))) return o;
  auto const table = table_of(o);
  auto const given = command_line::parse(std::vector<command_line::Option>(table.begin(), table.end()), arguments,
                                         "--help lists all options");
  Sizes& s = o.sizes;
  if (o.attention == "mae") {
    if (given.contains("--heads") && s.heads != 8) {
      command_line::mistake("--heads", "8 with --attention mae", command_line::to_text(s.heads));
    }
    s.heads = 8;
  }
  bool const moa = o.attention == "moa";
  if (moa && s.top_k > s.experts) {
    command_line::mistake("--top-k", "at most the " + command_line::to_text(s.experts) + " of --experts",
                          command_line::to_text(s.top_k));
  }
  Index const parts = moa ? s.top_k : s.heads;
  if (!given.contains("--head-dim")) {
    if (s.width % (2 * parts) != 0) {
      command_line::mistake("--width",
                            "a multiple of " + command_line::to_text(2 * parts) + ", or --head-dim, for " +
                                command_line::to_text(parts) + (moa ? " experts" : " heads") + " of an even width",
                            command_line::to_text(s.width));
    }
    s.head_dim = s.width / parts;
  } else if (s.head_dim % 2 != 0) {
    command_line::mistake("--head-dim", "an even number, for rotary embedding", command_line::to_text(s.head_dim));
  }
  if (o.from.empty() == o.corpus.empty()) {
    throw command_line::UsageError("expected --corpus to train or --from to translate, found " +
                                   std::string(o.from.empty() ? "neither" : "both"));
  }
  o.search.most_tokens = o.longest + 1;
  return o;
}

std::string help_text() {
  Options o;
  std::string text = "headmix-translate: trains a translator on gettext catalogues, or translates with it\n";
  for (Row const& r : table_of(o)) {
    std::string line = "  " + std::string(r.name);
    if (!r.value.form.empty()) line += " " + std::string(r.value.form);
    line.resize(std::max<std::size_t>(line.size() + 2, 36), ' ');
    text += line + std::string(r.help);
    if (std::string const shown = r.value.show(); !r.value.form.empty() && !shown.empty()) text += " (" + shown + ")";
    text += "\n";
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> sizes_as_text(Options const& o) {
  Options copy = o;
  std::vector<std::pair<std::string, std::string>> all;
  for (Row const& r : table_of(copy)) {
    if (r.of_model) all.emplace_back(r.name.substr(2), r.value.show());
  }
  return all;
}
void set_size(Options& o, std::string const& where, std::string const& key, std::string const& value) {
  for (Row const& r : table_of(o)) {
    if (r.of_model && r.name.substr(2) == key) r.value.read(where, value);
  }
}

}  // namespace translation
