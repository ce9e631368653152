// SPDX-License-Identifier: MIT
// options_tables PAGE: below a comment "<!-- options: NAME -->" and an empty line, the page must have the table of
// options of every layer, router and expert, as printed by options_table(); below "<!-- detached -->" that of the
// values that layers detach. Missing tables are printed.

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "headmix/layer/mae.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/options_table.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/router/query_norm.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"
#include "headmix/testing/gradcheck.hpp"

using namespace headmix;

/// A row: the detached values of any of these layers.
template <class... Layers>
std::string detached_row(char const* layers, char const* with, char const* gradient) {
  std::vector<std::string> all;
  auto const insert = [&](std::vector<std::string> const& values) {
    all.insert(all.end(), values.begin(), values.end());
  };
  (insert(detached_values<Layers>()), ...);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::string text = "| " + std::string(layers) + " | " + with + " | ";
  for (std::string const& value : all) text += (&value == &all.front() ? "`" : ", `") + value + "`";
  return text + " | " + gradient + " |\n";
}
std::string detached_table() {
  using Detached = SoftmaxTopK<4, 2>;
  using Raw = SoftmaxTopK<4, 2, gating::raw>;
  using Ternary = FeedForward<8, weights::ternary>;
  return "| layer | with | values | gradient |\n|---|---|---|---|\n" +
         detached_row<Moa<8, 4, Detached>, Moh<8, 4, Detached>, MhMoe<8, 2, Detached, FeedForward<8>>,
                      Smoe<8, Detached, FeedForward<8>>, Moa<8, 4, SoftmaxTopK<4, 1>>>(
             "`Moa`, `Moh`, `MhMoe`, `Smoe`", "`SoftmaxTopK` with `gating::detached`", "none: (9) of MoA") +
         detached_row<Moh<8, 4, QueryNorm<1, 3, 2>>>("`Moh`", "`QueryNorm`", "that of the second: (9) of MoH") +
         detached_row<Moh<8, 4, QueryNorm<1, 3, 2, estimator::active>>>("`Moh`", "`QueryNorm` with `estimator::active`",
                                                                        "that of the second, for active heads") +
         detached_row<MultiHead<8, 2, 4, key_bias>, MultiHead<8, 2, 4, key_bias, alibi>, Moa<8, 4, Raw, key_bias>,
                      Moh<8, 4, TwoStage<1, 3, 2>, key_bias>>(
             "`MultiHead`, `Moh`, `Moa`", "scores that a bias of the keys shifts alike, and `key_bias`",
             "none, since the derivative is 0") +
         detached_row<Smoe<8, Raw, Ternary>, Smoe<8, Raw, FeedForward<8>, shared_expert<Ternary>>>(
             "`MhMoe`, `Smoe`", "experts with `weights::ternary`", "that of the operand");
}
/// Layers without detached values.
template <class... Layers>
bool none_detached() {
  return (detached_values<Layers>().empty() && ...);
}

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
  std::string const detached = "<!-- detached -->\n\n" + detached_table();
  if (page.str().find(detached + "\n") == std::string::npos) {
    ++missing;
    std::printf("%s: expected this table, and an empty line behind it:\n%s\n", argv[1], detached.c_str());
  }
  if (!none_detached<MultiHead<8, 2, 4, key_bias, rope<>>, Mae<8, 2, 4, causal>,
                     Moa<8, 4, SoftmaxTopK<4, 2, gating::renormalized>>, Moh<8, 4, TwoStage<1, 3, 2>>,
                     MhMoe<8, 2, SoftmaxTopK<4, 2, gating::raw>, FeedForward<8>>>()) {
    ++missing;
    std::puts("a layer without the options of the table detaches a value");
  }
  return missing;
}
