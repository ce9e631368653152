// SPDX-License-Identifier: MIT
// headmix-replay CASE OUT: runs one layer, forward and backward, on the tensors of a safetensors file and writes what
// came out. Every mistake of the caller or of the file is one line on stderr and exit status 2.

#include <cstdio>
#include <exception>
#include <new>

#include "case.hpp"

namespace {

constexpr char usage[] =
    "usage: headmix-replay CASE.safetensors OUT.safetensors\n"
    "Runs the layer that CASE describes, forward and backward, and writes its result, gradients and losses to OUT.\n";

void replay_case(char const* from, char const* to) {
  replay::Case c(from);
  replay::Result result;
  bool const wide = c.float_type("x") == headmix::dtype::f64;
  c.require("layer", {"moa"});
  wide ? replay::replay_moa<double>(c, result) : replay::replay_moa<float>(c, result);
  result.write(to);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::fputs(usage, stdout);
    return 0;
  }
  if (argc != 3) {
    std::fprintf(stderr, "headmix-replay: expected two file names, found %d; see --help\n", argc - 1);
    return 2;
  }
  try {
    replay_case(argv[1], argv[2]);
    return 0;
  } catch (headmix::Error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
  } catch (std::bad_alloc const&) {
    std::fputs("headmix-replay: not enough memory\n", stderr);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "headmix-replay: %s\n", e.what());
  }
  return 2;
}
