// SPDX-License-Identifier: MIT
// exports LIBRARY: checks that the library exports every function that HEADMIX_C_DECLARE declares.
#include <dlfcn.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: exports LIBRARY\n", stderr), 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  int missing = 0;
  for (char const* const name :
       {"create", "destroy", "last_error", "input_width", "output_width", "parameter_count", "get_parameter", "forward",
        "backward", "zero_gradients", "loss_count", "loss", "run"}) {
    std::string const function = std::string("moa_") + name;
    if (dlsym(library, function.c_str()) != nullptr) continue;
    std::fprintf(stderr, "%s is not exported\n", function.c_str());
    ++missing;
  }
  return missing;
}
