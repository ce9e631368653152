// SPDX-License-Identifier: MIT
#include "configuration.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "../machine.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/subsets.hpp"

namespace bench {
namespace {

using headmix::message;

constexpr Index most_experts = 4096;  // of mae

[[noreturn]] void mistake(std::string_view option, std::string_view expected, std::string_view found) {
  throw std::invalid_argument(message(option, ": expected ", expected, ", found ", found));
}
Index number(std::string_view option, std::string_view text, Index least, Index most) {
  Index value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    mistake(option, message("a whole number from ", least, " to ", most), message("'", text, "'"));
  }
  return value;
}
std::vector<Index> numbers(std::string_view option, std::string_view text) {
  std::vector<Index> all;
  while (true) {
    auto const comma = text.find(',');
    all.push_back(number(option, text.substr(0, comma), 1, 1 << 20));
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  return all;
}
bool is_moh(Configuration const& c) { return c.layer == "moh" || c.layer == "moh_query_norm"; }

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
  Configuration c;
  bool has_active = false, has_shared = false;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    std::string const& option = arguments[i];
    if (i + 1 == arguments.size()) mistake(option, "a value", "the end of the command line");
    std::string const& value = arguments[i + 1];
    if (option == "--layer") {
      if (value != "moh" && value != "moh_query_norm" && value != "moa" && value != "mae") {
        mistake(option, "moh, moh_query_norm, moa or mae", message("'", value, "'"));
      }
      c.layer = value;
    } else if (option == "--heads") {
      c.heads = number(option, value, 2, 1024);
    } else if (option == "--active") {
      c.active = number(option, value, 1, 1024), has_active = true;
    } else if (option == "--shared") {
      c.shared = number(option, value, 0, 1024), has_shared = true;
    } else if (option == "--head_dim") {
      c.head_dim = number(option, value, 1, 1 << 16);
    } else if (option == "--model_dim") {
      c.model_dim = number(option, value, 1, 1 << 20);
    } else if (option == "--lengths") {
      c.lengths = numbers(option, value);
    } else if (option == "--threads") {
      c.threads = number(option, value, 1, cpus());
    } else if (option == "--mask") {
      if (value != "full" && value != "causal") mistake(option, "full or causal", message("'", value, "'"));
      c.causal = value == "causal";
    } else if (option == "--svg") {
      c.svg = value;
    } else {
      mistake("--layer",
              "--heads, --active, --shared, --head_dim, --model_dim, --mask, --lengths, --threads or --svg with it",
              message("'", option, "'"));
    }
  }
  if (c.model_dim == 0) c.model_dim = c.heads * c.head_dim;
  if (!has_active) c.active = c.layer == "mae" ? c.heads - 1 : (c.heads + 1) / 2;
  if (!is_moh(c)) {
    if (has_shared && c.shared != 0) mistake("--shared", message("0 with --layer ", c.layer), message(c.shared));
    c.shared = 0;
  } else if (!has_shared) {
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
