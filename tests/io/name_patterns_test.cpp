// SPDX-License-Identifier: MIT
// Name patterns with *, against their definition, and names of the largest length that a file allows.

#include <doctest/doctest.h>

#include "files.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/io/weights.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

namespace name_patterns_test {

using namespace headmix;
using namespace headmix::test;

namespace {
/// The definition: * stands for any text.
bool is_one_of(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*') return !text.empty() && text[0] == pattern[0] && is_one_of(pattern.substr(1), text.substr(1));
  return is_one_of(pattern.substr(1), text) || (!text.empty() && is_one_of(pattern, text.substr(1)));
}
/// All texts of at most `most` letters.
std::vector<std::string> texts(std::string_view letters, std::size_t most) {
  std::vector<std::string> all = {""};
  for (std::size_t i = 0; all[i].size() < most; ++i) {
    for (char const c : letters) all.push_back(all[i] + c);
  }
  return all;
}
}  // namespace

TEST_CASE("name patterns: the same as their definition, for all short patterns and names") {
  auto const names = texts("ab", 5);
  for (auto const& pattern : texts("ab*", 5)) {
    for (auto const& name : names) {
      CAPTURE(pattern);
      CAPTURE(name);
      REQUIRE(detail::matches(pattern, name) == is_one_of(pattern, name));
    }
  }
}
TEST_CASE("name patterns: several stars and a name of a megabyte") {
  Module<Moa<4, 2, SoftmaxTopK<3, 2>, causal>, Cpu<float>, inference> m(1);
  std::string name;
  while (name.size() < 1'000'000) name += ".a";
  auto const bytes = file_of("{\"" + name + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})");
  auto const file = Safetensors::parse(bytes, "hostile");
  TensorNames const names = TensorNames{{"W_g", "gate.*.a*"}}.keeping("W_g W_q W_k W_v W_o");
  CHECK_THROWS_AS(load(m, file, names.ignoring("*.a*.a*.a*.a.b")), Error);
  load(m, file, names.ignoring("*.a*.a*.a*.a"));
}

}  // namespace name_patterns_test
