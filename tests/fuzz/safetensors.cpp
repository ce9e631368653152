// SPDX-License-Identifier: MIT
// Any bytes as a safetensors file.

#include "formats.hpp"

using namespace headmix;
using namespace headmix::test;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static Folder const folder;
  auto const file = std::as_bytes(std::span(data, size));
  try {
    auto const f = Safetensors::parse(file, "f");
    check_taken(f, file);
    check_round_trip(f, folder / "copy");
    for (auto const& entry : f.tensors()) {
      try {
        static_cast<void>(f.values<float>(entry.first));
      } catch (Error const& e) {
        check_error(e, "headmix: f: ");
      }
    }
  } catch (Error const& e) {
    check_error(e, "headmix: f: ");
  }
  return 0;
}
