// SPDX-License-Identifier: MIT
#include "configuration.hpp"

#include <algorithm>
#include <string_view>

#include "../../examples/command_line.hpp"
#include "../machine.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/subsets.hpp"

namespace bench {
namespace {

using command_line::mistake, headmix::message;

constexpr Index most_experts = 4096;  // of mae

/// Numbers from 1 on, separated by commas.
command_line::Value numbers_in(std::vector<Index>& numbers) {
  return {"N,N,...",
          [&numbers](std::string_view option, std::string_view text) {
            numbers.clear();
            for (std::size_t begin = 0, end = 0; end != text.npos; begin = end + 1) {
              end = text.find(',', begin);
              numbers.push_back(command_line::to_number<Index>(option, text.substr(begin, end - begin), 1, 1 << 20));
            }
          },
          {}};
}
bool is_moh(Configuration const& c) { return c.layer == "moh" || c.layer == "moh_query_norm"; }

struct Described : command_line::Option {
  std::string_view help;
};
/// The options of --layer; `mask` is full or causal.
std::vector<Described> table_of(Configuration& c, std::string& mask) {
  using namespace command_line;
  return {
      {{"--layer", choice_in(c.layer, "moh|moh_query_norm|moa|mae")}, "the layer"},
      {{"--heads", number_in(c.heads, 2, 1024)}, "heads; experts of moa [16]"},
      {{"--active", number_in(c.active, 1, 1024)}, "active heads of a token [half of them; all but one of mae]"},
      {{"--shared", number_in(c.shared, 0, 1024)}, "active heads of every token, of moh [a quarter of the active]"},
      {{"--head_dim", number_in(c.head_dim, 1, 1 << 16)}, "width of a head [64]"},
      {{"--model_dim", number_in(c.model_dim, 1, 1 << 20)}, "width of the layer [heads * head_dim]"},
      {{"--mask", choice_in(mask, "full|causal")}, "mask of attention [causal]"},
      {{"--lengths", numbers_in(c.lengths)}, "tokens of the sequence [512,1024,2048,4096]"},
      {{"--threads", number_in(c.threads, 1, cpus())}, "threads, at most one for each CPU [1]"},
      {{"--svg", text_in(c.svg, "FILE")}, "writes a picture of the tables [none]"},
  };
}

/// The smallest and the largest number of active heads.
Index least_active(Configuration const& c) { return is_moh(c) ? c.shared + 1 : 1; }
Index most_active(Configuration const& c) { return c.layer == "mae" ? c.heads - 1 : c.heads; }
bool can_have(Configuration const& c, Index active) {
  return active >= least_active(c) && active <= most_active(c) &&
         (c.layer != "mae" || headmix::binomial(c.heads, c.heads - active) <= most_experts);
}

}  // namespace

std::string Configuration::title() const {
  char const* const name = layer == "moa"   ? "MoA"
                           : layer == "mae" ? "MAE, an expert step"
                           : layer == "moh" ? "MoH"
                                            : "MoH by query norm";
  return message(name, ", ", active, " of ", heads, layer == "moa" ? " experts" : " heads", " of width ", head_dim);
}

Configuration parse_configuration(std::vector<std::string> const& arguments) {
  using namespace command_line;
  Configuration c;
  std::string mask = "causal";
  std::vector<Described> const table = table_of(c, mask);
  Given const given = parse(table, arguments);
  c.causal = mask == "causal";
  if (c.model_dim == 0) c.model_dim = c.heads * c.head_dim;
  if (!given.contains("--active")) c.active = c.layer == "mae" ? c.heads - 1 : (c.heads + 1) / 2;
  if (!is_moh(c)) {
    if (given.contains("--shared") && c.shared != 0)
      mistake("--shared", message("0 with --layer ", c.layer), message(c.shared));
    c.shared = 0;
  } else if (!given.contains("--shared")) {
    c.shared = c.active <= c.heads ? c.active / 4 : 0;
  }
  Index const least = least_active(c), most = most_active(c);
  if (c.active < least || c.active > most) {
    mistake("--active", message("from ", least, " to ", most, " with these --heads", is_moh(c) ? " and --shared" : ""),
            message(c.active));
  }
  if (!can_have(c, c.active)) {
    mistake("--active", message("at most ", most_experts, " experts"),
            message(headmix::binomial(c.heads, c.heads - c.active), " subsets of the heads"));
  }
  if (c.layer == "moh_query_norm" && c.heads - c.shared < 2) {
    mistake("--shared", "two routed heads or more", message(c.heads - c.shared));
  }
  std::sort(c.lengths.begin(), c.lengths.end());
  return c;
}

std::string configuration_help() {
  Configuration c;
  std::string mask, text;
  for (Described const& o : table_of(c, mask)) {
    std::string line = message("  ", o.name, " ", o.value.form);
    line.resize((std::max)(line.size() + 2, std::size_t{42}), ' ');
    text += message(line, o.help, "\n");
  }
  return text;
}

std::vector<Index> active_heads(Configuration const& c) {
  std::vector<Index> all = {c.active};
  for (Index eighth = 1; eighth <= 8; ++eighth) {
    Index const n = (c.heads * eighth + 4) / 8;
    if (can_have(c, n)) all.push_back(n);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}
Configuration with_active(Configuration c, Index active) {
  c.active = active;
  return c;
}

}  // namespace bench
