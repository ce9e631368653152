// SPDX-License-Identifier: MIT
// headmix-replay CASE OUT: runs one layer, forward and backward, on the tensors of a safetensors file and writes the
// results. Every mistake of the caller or of the file is one line on stderr.

#include <cstdio>
#include <string_view>

#include "../program.hpp"
#include "case.hpp"
#include "moh_case.hpp"

namespace {

constexpr char usage[] =
    "usage: headmix-replay [--backend cpu|cuda|emulated] CASE.safetensors OUT.safetensors\n"
    "Runs the layer that CASE describes, forward and backward, and writes its result, gradients and losses to OUT.\n"
    "The backend `emulated` runs the kernels of the GPU on the CPU, slowly. It and `cuda` compute in F64 only.\n"
    "OUT is replaced when its new content is complete; a pipe or a device such as /dev/stdout is written as it is.\n\n"
    "Exit status:\n"
    "  0  OUT is written\n"
    "  1  OUT, or stdout, could not be written; a file that was there stays as it was\n"
    "  2  bad arguments, a bad case, too little memory: nothing is written\n";

template <class T, class On>
void replay_numbers(std::string_view layer, replay::Case& c, replay::Result& result) {
  if (layer == "moa") return replay::replay_moa<T, On>(c, result);
  if (layer == "moh") return replay::replay_moh<T, On>(c, result);
  if (layer == "mae") return replay::replay_mae<T, On>(c, result);
  replay::replay_mh_moe<T, On>(c, result);
}
template <class On>
void replay_layer(replay::Case& c, replay::Result& result) {
  bool const wide = c.float_type("x") == headmix::dtype::f64;
  auto const layer = c.require("layer", {"moa", "moh", "mae", "mh_moe"});
  if (wide) return replay_numbers<double, On>(layer, c, result);
  // On a GPU and on its emulator, double suffices to check a layer, and each type takes minutes to compile.
  if constexpr (std::is_same_v<On, replay::on_cpu>) {
    replay_numbers<float, On>(layer, c, result);
  } else {
    c.reject("x", "F64 with this backend", "F32");
  }
}

/// The function that replays a layer on a backend of this name; null if it is not in this build.
using Replay = void (*)(replay::Case&, replay::Result&);
Replay find_replay(std::string_view backend) {
  if (backend == "cpu") return &replay_layer<replay::on_cpu>;
#ifdef HEADMIX_REPLAY_CUDA
  if (backend == "cuda") return &replay_layer<replay::on_cuda>;
#endif
#ifdef HEADMIX_REPLAY_EMULATED
  if (backend == "emulated") return &replay_layer<replay::on_emulated>;
#endif
  return nullptr;
}

int headmix_replay(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    std::fputs(usage, stdout);
    return program::done;
  }
  std::string_view backend = "cpu";
  if (argc > 2 && std::string_view(argv[1]) == "--backend") {
    backend = argv[2];
    argv += 2;
    argc -= 2;
  }
  if (argc != 3) headmix::fail("expected two file names, found ", argc - 1, "; see --help");
  Replay const replay_on = find_replay(backend);
  if (replay_on == nullptr) {
    bool const known = backend == "cuda" || backend == "emulated";
    if (known) headmix::fail("--backend ", backend, " is not in this build");
    headmix::fail("--backend: expected cpu, cuda or emulated, found '", backend, "'");
  }
  replay::Case c(argv[1]);
  replay::Result result;
  replay_on(c, result);
  try {
    result.write(argv[2]);
  } catch (headmix::Error const& e) {
    program::complain(program::reason(e));
    return program::not_written;
  }
  return program::done;
}

}  // namespace

int main(int argc, char** argv) {
  return program::run("headmix-replay", [&] { return headmix_replay(argc, argv); });
}
