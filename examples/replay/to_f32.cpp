// SPDX-License-Identifier: MIT
// headmix-replay-to-f32 IN OUT: rounds the F64 tensors of a file to F32, for tests of cases in that type.

#include <deque>
#include <span>
#include <vector>

#include "../program.hpp"
#include "headmix/io/safetensors.hpp"

int main(int argc, char** argv) {
  auto const round_file = [&] {
    if (argc != 3) headmix::fail("usage: headmix-replay-to-f32 IN.safetensors OUT.safetensors");
    auto const in = headmix::Safetensors::read(argv[1]);
    headmix::TensorMap out = in.tensors();
    std::deque<std::vector<float>> memory;
    for (auto& [name, tensor] : out) {
      if (tensor.type != headmix::dtype::f64) continue;
      auto& rounded = memory.emplace_back();
      for (double const x : in.values<double>(name)) rounded.push_back(static_cast<float>(x));
      tensor = {headmix::dtype::f32, tensor.shape, std::as_bytes(std::span(rounded))};
    }
    headmix::write_safetensors(argv[2], out, in.metadata());
    return 0;
  };
  return program::run("headmix-replay-to-f32", round_file, program::refused);
}
