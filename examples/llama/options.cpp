// SPDX-License-Identifier: MIT
#include "options.hpp"

#include <algorithm>
#include <thread>

namespace llama {
namespace {

using namespace command_line;

constexpr unsigned bit(Command c) { return 1u << static_cast<unsigned>(c); }
constexpr unsigned generate = bit(Command::generate), evaluate = bit(Command::evaluate), train = bit(Command::train),
                   convert = bit(Command::convert);

struct Row : Option {
  unsigned commands;  ///< that take it
  std::string_view help;
};

std::vector<Row> table_of(Options& o) {
  constexpr Index most = 1 << 30;
  return {
      {{"--attention", choice_in(o.attention, "dense|query_norm|two_stage")},
       generate | evaluate | train | convert,
       "attention of the model: that of FOLDER unless given"},
      {{"--shared-heads", number_in(o.shared_heads, 1, most)},
       generate | evaluate | train | convert,
       "MoH: heads that all tokens use, by default a half"},
      {{"--top-k", number_in(o.top_k, 1, most)},
       generate | evaluate | train | convert,
       "MoH: other heads of a token, by default a quarter of all"},
      {{"--prompt", text_in(o.prompt, "IDS")}, generate, "ids of tokens, \"1 22 333\""},
      {{"--prompt-file", text_in(o.prompt_file, "FILE")}, generate, "a file of ids, as --data"},
      {{"--tokens", number_in(o.tokens, 1, most)}, generate, "most tokens to generate"},
      {{"--temperature", number_in(o.sampling.temperature, 0, 1000, "X")}, generate, "0 takes the likeliest token"},
      {{"--sample-top-k", number_in(o.sampling.top_k, 0, most)}, generate, "draws from the N likeliest tokens; 0: all"},
      {{"--sample-top-p", number_in(o.sampling.top_p, 1e-9, 1, "X")}, generate, "draws from the nucleus of this share"},
      {{"--data", text_in(o.data, "FILE")}, evaluate | train, "ids: decimal in *.txt, else 32-bit little-endian"},
      {{"--context", number_in(o.context, 1, most)}, evaluate | train, "tokens of a text"},
      {{"--batch", number_in(o.batch, 1, most)}, train, "texts of a step"},
      {{"--steps", number_in(o.steps, 1, most)}, train, "steps"},
      {{"--warmup", number_in(o.warmup, 0, most)}, train, "steps in which the rate rises"},
      {{"--lr", number_in(o.lr, 0, 1, "X")}, train, "largest rate"},
      {{"--min-lr", number_in(o.min_lr, 0, 1, "X")}, train, "last rate"},
      {{"--balance", number_in(o.balance, 0, 1000, "X")}, train, "MoH: weight of the balance loss, mean of the layers"},
      {{"--rounding", choice_in(o.rounding, "master|stochastic")},
       train,
       "of updates: by float master weights, or stochastic"},
      {{"--out", text_in(o.out, "FOLDER")}, train | convert, "where the model is written"},
      {{"--seed", number_in(o.seed, 0, UINT64_MAX)},
       generate | train | convert,
       "of drawn tokens, batches, roundings and routers"},
      {{"--threads", number_in(o.threads, 1, 4096)},
       generate | evaluate | train | convert,
       "threads, by default those of the machine"},
  };
}

std::string names_of(unsigned commands) {
  std::string all;
  for (Command const c : {Command::generate, Command::evaluate, Command::train, Command::convert}) {
    if ((commands & bit(c)) != 0) all.append(all.empty() ? "" : ", ").append(name(c));
  }
  return all;
}

}  // namespace

Options parse_options(std::vector<std::string_view> const& arguments) {
  Options o;
  o.help = arguments.empty() || asks_for_help(arguments);
  if (o.help) return o;
  if (arguments[0].empty() || arguments[0].starts_with('-')) {
    mistake("headmix-llama", "the folder of a model", in_quotes(arguments[0]));
  }
  o.folder = arguments[0];
  std::size_t first = 1;
  if (arguments.size() > 1 && !arguments[1].starts_with('-')) {
    choice_in(o.command, "costs|generate|evaluate|train|convert").read("the command", arguments[1]);
    first = 2;
  }
  o.threads = std::max<Index>(1, std::thread::hardware_concurrency());
  auto const table = table_of(o);
  auto const given =
      parse(table, std::vector<std::string_view>(arguments.begin() + static_cast<Index>(first), arguments.end()),
            "--help lists the options");
  for (Row const& row : table) {
    if (given.contains(row.name) && (row.commands & bit(o.command)) == 0) {
      mistake(row.name, "one of the commands " + names_of(row.commands), std::string(name(o.command)));
    }
  }
  o.has_attention = given.contains("--attention");
  auto const need = [&](bool found, std::string_view option, std::string_view what) {
    if (!found) mistake(option, what, "none");
  };
  bool const trains = o.command == Command::train;
  if (trains || o.command == Command::evaluate) need(!o.data.empty(), "--data", "a file");
  if (trains || o.command == Command::convert) need(!o.out.empty(), "--out", "a folder");
  if (o.command == Command::generate && o.prompt.empty() == o.prompt_file.empty()) {
    mistake("--prompt", "either --prompt or --prompt-file", o.prompt.empty() ? "none" : "both");
  }
  if (o.min_lr > o.lr) mistake("--min-lr", "at most --lr, " + to_text(o.lr), to_text(o.min_lr));
  return o;
}

std::string help_text() {
  Options defaults;
  std::string s =
      "headmix-llama: a model of Llama's form, dense or as mixture-of-head attention (MoH), in bfloat16\n\n"
      "usage: headmix-llama FOLDER [COMMAND] [--option VALUE | --option=VALUE]...\n\n"
      "FOLDER has config.json and model.safetensors, or its index and files, as Hugging Face names them.\n\n"
      "  costs     sizes, memory and multiply-adds by counting, from config.json alone; without a command\n"
      "  generate  continues a prompt of ids\n"
      "  evaluate  the loss, dense and as MoH\n"
      "  train     trains the model, or the MoH that --attention makes of it, and writes it\n"
      "  convert   writes the MoH that --attention makes of it, without training\n\n";
  for (Row const& row : table_of(defaults)) {
    std::string line = "  " + std::string(row.name) + " " + std::string(row.value.form);
    line.resize(std::max<std::size_t>(line.size() + 2, 40), ' ');
    s += line + std::string(row.help) + " (" + names_of(row.commands) + ")\n";
  }
  return s +
         "\nExit status: 0 done, 1 stdout could not be written, 2 refused or failed, 3 a loss is not finite. Nothing "
         "is "
         "written\nafter 3, nor after 2 unless writing itself failed.\n";
}

}  // namespace llama
