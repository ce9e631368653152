// SPDX-License-Identifier: MIT
// A checkpoint saved before random streams were separated by purpose: its training continues, with the masks of a
// current module.

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>

#include "files.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/io/checkpoint.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"
#include "headmix/train/adamw.hpp"

namespace old_checkpoint_test {

using namespace headmix;

namespace {

using Layer = MultiHead<2, 1, 2, output_dropout<1, 4>>;
using Training = Module<Layer, Cpu<float>>;

/// A training after three steps, with seed 7.
constexpr std::string_view header =
    R"({"__metadata__":{"headmix":"0.1.0","optimiser_steps":"3","parameters":"W_q W_k W_v W_o","passes":"3","scalar":"F32","seed":"7"},)"
    R"("W_k":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("W_o":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]},)"
    R"("W_q":{"dtype":"F32","shape":[2,2],"data_offsets":[32,48]},)"
    R"("W_v":{"dtype":"F32","shape":[2,2],"data_offsets":[48,64]},)"
    R"("optimiser.m.W_k":{"dtype":"F32","shape":[2,2],"data_offsets":[64,80]},)"
    R"("optimiser.m.W_o":{"dtype":"F32","shape":[2,2],"data_offsets":[80,96]},)"
    R"("optimiser.m.W_q":{"dtype":"F32","shape":[2,2],"data_offsets":[96,112]},)"
    R"("optimiser.m.W_v":{"dtype":"F32","shape":[2,2],"data_offsets":[112,128]},)"
    R"("optimiser.v.W_k":{"dtype":"F32","shape":[2,2],"data_offsets":[128,144]},)"
    R"("optimiser.v.W_o":{"dtype":"F32","shape":[2,2],"data_offsets":[144,160]},)"
    R"("optimiser.v.W_q":{"dtype":"F32","shape":[2,2],"data_offsets":[160,176]},)"
    R"("optimiser.v.W_v":{"dtype":"F32","shape":[2,2],"data_offsets":[176,192]}})";
constexpr std::uint32_t numbers[] = {
    0xbd2ba514, 0xbf54dae5, 0xbedcd33d, 0xbf241fe5, 0x3e817e0e, 0xbf6cfdf7, 0xbf4bced5, 0x3e7b28c1,
    0x3f8aa7ee, 0x3f23ff44, 0xbf698d59, 0xbf855552, 0x3f8dd216, 0x3f55f78e, 0xbe82edd4, 0xbf2455e1,
    0x406b56b6, 0x406c5032, 0xc0164df3, 0xc01c8c7e, 0xbfb8509e, 0xbe740e87, 0xc06208c6, 0xbfc6ba97,
    0x3dbe89bb, 0xbeaf9872, 0xbf6c44f8, 0x3f93ef7f, 0xbefdc136, 0x3e35b18e, 0xbfcb6b12, 0xc064e474,
    0x40b548da, 0x40b6ac5e, 0x4015f522, 0x402190ce, 0x3f888067, 0x3e827976, 0x40c151fe, 0x4002807f,
    0x3bb86be3, 0x3d4bbf10, 0x3eb26fab, 0x3f0f3bce, 0x3de1a652, 0x3cdb1542, 0x405c3952, 0x40e1cffa,
};

std::string old_file() {
  std::string bytes(header);
  bytes.resize(944, ' ');
  auto const size = static_cast<std::uint64_t>(bytes.size());
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  file += bytes;
  file.append(reinterpret_cast<char const*>(numbers), sizeof(numbers));
  return file;
}
void step(Training& m, AdamW<float>& optimiser) {
  static float const x[] = {1, -1, 0.5F, 2, -1, 3}, dy[] = {1, 2, 3, 4, 5, 6};
  m.forward({x, 3, 2});
  m.zero_gradients();
  m.backward({dy, 3, 2});
  optimiser.step(1e-2);
}

}  // namespace

TEST_CASE("checkpoint: one of before the change of random streams is loaded, and its training goes on") {
  headmix::test::Folder folder;
  std::string const path = folder / "old.safetensors";
  std::ofstream(path, std::ios::binary) << old_file();

  Training m(1);
  AdamW<float> optimiser(m.parameters());
  load(path, m, optimiser);
  CHECK(m.seed() == 7);
  CHECK(m.passes() == 3);
  CHECK(optimiser.steps() == 3);
  CHECK(m.get<Layer::W_k>().value(0, 0) == __builtin_bit_cast(float, numbers[0]));
  CHECK(m.get<Layer::W_v>().value(1, 1) == __builtin_bit_cast(float, numbers[15]));

  // The continuation is a function of the file.
  Training other(2);
  AdamW<float> another(other.parameters());
  load(path, other, another);
  for (int s = 0; s < 3; ++s) {
    step(m, optimiser);
    step(other, another);
  }
  for (std::size_t p = 0; p < m.parameters().size(); ++p) {
    CHECK(std::memcmp(m.parameters()[p].value.data, other.parameters()[p].value.data, 4 * sizeof(float)) == 0);
  }
  // The module draws pass 3 of seed 7 like any other module.
  Training fresh(7);
  fresh.continue_from(7, 3);
  Training loaded(1);
  AdamW<float> unused(loaded.parameters());
  load(path, loaded, unused);
  for (std::size_t p = 0; p < 4; ++p) {
    std::memcpy(fresh.parameters()[p].value.data, loaded.parameters()[p].value.data, 4 * sizeof(float));
  }
  float const x[] = {1, -1, 0.5F, 2, -1, 3};
  auto const y = loaded.forward({x, 3, 2}), z = fresh.forward({x, 3, 2});
  for (Index i = 0; i < 6; ++i) CHECK(y.data[i] == z.data[i]);
}

}  // namespace old_checkpoint_test
