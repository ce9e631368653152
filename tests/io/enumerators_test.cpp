// SPDX-License-Identifier: MIT
// Enumerators that are none, as casts from integers make them.

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
  for (int const n : {-1, 15, 99}) {
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

}  // namespace enumerators_test
