// SPDX-License-Identifier: MIT
// options_tables PAGE: below a comment "<!-- options: NAME -->" and an empty line, the page must have the table of
// options of every layer, router and expert, as printed by options_table(). Missing tables are printed.

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "headmix/layer/mae.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/options_table.hpp"

using namespace headmix;

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: options_tables PAGE\n", stderr), 2;
  std::ifstream file(argv[1]);
  std::ostringstream page;
  page << file.rdbuf();
  int missing = 0;
  auto const expect = [&](char const* name, std::string const& table) {
    std::string const text = "<!-- options: " + std::string(name) + " -->\n\n" + table;
    if (page.str().find(text + "\n") != std::string::npos) return;
    ++missing;
    std::printf("%s: expected this table, and an empty line behind it:\n%s\n", argv[1], text.c_str());
  };
  expect("Moa", options_table(moa_options{}));
  expect("MultiHead and Moh", options_table(moh_options{}));
  expect("Mae", options_table(mae_options{}));
  expect("MhMoe and Smoe", options_table(mh_moe_options{}));
  expect("FeedForward", options_table(feed_forward_options{}));
  expect("SoftmaxTopK", options_table(softmax_top_k_options{}));
  expect("TwoStage", options_table(two_stage_options{}));
  expect("QueryNorm", options_table(query_norm_options{}));
  return missing;
}
