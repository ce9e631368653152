// SPDX-License-Identifier: MIT
// Any bytes as a case of headmix-replay: the checks of the case, then the layer, forward and backward.

#include <fstream>
#include <new>

#include "../../examples/replay/case.hpp"
#include "formats.hpp"

using namespace headmix::test;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static Folder const folder;
  static std::string const path = folder / "case";
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<char const*>(data), static_cast<std::streamsize>(size));
  try {
    replay::Case c(path);
    if (c.float_type("x") != headmix::dtype::f64) return 0;
    replay::Result result;
    if (c.require("layer", {"moa", "mh_moe"}) == "moa") {
      replay::replay_moa<double, replay::on_cpu>(c, result);
    } else {
      replay::replay_mh_moe<double, replay::on_cpu>(c, result);
    }
    result.write(folder / "result");
  } catch (headmix::Error const& e) {
    check_error(e, "headmix: ");
  } catch (std::bad_alloc const&) {  // a small file may name sizes that are consistent but exceed memory
  }
  return 0;
}
