// SPDX-License-Identifier: MIT
// Any bytes as JSON.

#include "formats.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  headmix::test::check_json({reinterpret_cast<char const*>(data), size});
  return 0;
}
