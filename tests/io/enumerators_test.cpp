// SPDX-License-Identifier: MIT
// Invalid enumerators, as made by casts from integers.

#include <doctest/doctest.h>

#include "../error_of.hpp"
#include "files.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/cpu_level.hpp"
#include "headmix/io/weights.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

namespace enumerators_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("enumerators: of files and tables of names") {
  Folder const folder;
  auto const path = folder / "a.safetensors";
  for (int const n : {-1, 16, 99}) {
    auto const type = static_cast<dtype>(n);
    CHECK(says(error_of([&] { static_cast<void>(name_of(type)); }), "dtype: expected one of its enumerators, found "));
    CHECK(says(error_of([&] { write_safetensors(path, {{"a", {type, {1}, {}}}}); }), "dtype: expected one of"));
  }
  Module<Moa<4, 2, SoftmaxTopK<3, 2>, causal>, Cpu<float>> const m(1);
  auto const error = [&](tensor_name const& row) { return error_of([&] { save(path, m, TensorNames{row}); }); };
  CHECK(
      says(error({"W_g", "g", static_cast<tensor_name::order>(3)}), "g: expected the order out_in or in_out, found 3"));
  CHECK(says(error({"W_g", "g", tensor_name::out_in, static_cast<tensor_name::piece>(3)}),
             "g: expected a piece whole, "));
  CHECK(folder.files() == 0);
}
TEST_CASE("enumerators: of levels") {
  CHECK(says(error_of([] { static_cast<void>(name_of(static_cast<cpu_level>(5))); }), "cpu_level: expected one of"));
}

TEST_CASE("files with tensors that the library cannot use: others are loaded by name") {
  auto const bytes = file_of(
      R"({"s":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"F32","shape":[0,7],"data_offsets":[2,2]},)"
      R"("n":{"dtype":"I8","shape":[],"data_offsets":[2,3]},"w":{"dtype":"F32","shape":[3,4],"data_offsets":[3,51]}})",
      std::string(3, '\0') + std::string("\0\0\x80\x3f", 4) + std::string(44, '\0'));
  auto const file = Safetensors::parse(bytes, "mixed");
  Module<Moa<4, 2, SoftmaxTopK<3, 2>, causal>, Cpu<float>> m(1);
  auto const names = [](char const* tensor) { return TensorNames{{"W_g", tensor}}.keeping("W_q W_k W_v W_o"); };
  REQUIRE(m.get<decltype(m)::layer::r::W_g>().value(0, 0) == 0);
  load(m, file, names("w").ignoring("s e n"));
  CHECK(m.get<decltype(m)::layer::r::W_g>().value(0, 0) == 1);
  CHECK(says(error_of([&] { load(m, file, names("s").ignoring("w e n")); }),
             "expected F64, F32, BF16 or F16, found UNKNOWN [2]"));
  CHECK(says(error_of([&] { load(m, file, names("e").ignoring("w s n")); }), "expected F32 [3, 4], found F32 [0, 7]"));
  CHECK(says(error_of([&] { load(m, file, names("n").ignoring("w s e")); }), "found I8 []"));
  CHECK(says(error_of([&] { load(m, file, names("w").ignoring("e n")); }),
             "\"s\": expected a tensor that the module needs"));
}

}  // namespace enumerators_test
