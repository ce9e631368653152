// SPDX-License-Identifier: MIT
// headmix-lm: trains a small byte-level language model with mixture-of-attention-heads, mixture-of-head or
// attentive-expert layers, and mixtures of feed-forward experts, on real text.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint.hpp"
#include "ending.hpp"
#include "options.hpp"
#include "report.hpp"
#include "text.hpp"
#include "train.hpp"

namespace {

int train(lm::Options const& options, lm::Text const& text) {
  if (options.backend == lm::Device::cuda) {
#ifdef HEADMIX_LM_CUDA
    return lm::train_cuda(options, text);
#else
    throw lm::UsageError("--backend cuda is not in this build: configure with HEADMIX_CUDA=ON");
#endif
  }
  if (options.backend == lm::Device::emulated) {
#ifdef HEADMIX_LM_EMULATED
    return lm::train_emulated(options, text);
#else
    throw lm::UsageError("--backend emulated is not in this build: configure with HEADMIX_BUILD_TESTS=ON");
#endif
  }
  return lm::train_cpu(options, text);
}

int headmix_lm(std::vector<std::string_view> const& arguments) {
  lm::Options const options = lm::parse_options(arguments);
  if (options.help) {
    std::fputs(lm::help_text().c_str(), stdout);
    return program::done;
  }
  if (options.parallel != lm::Parallel::none) {
#ifdef HEADMIX_LM_MPI
    return lm::train_parallel(options);
#else
    throw lm::UsageError("--parallel is not in this build: MPI was not found when it was configured");
#endif
  }
  for (auto const& note : options.notes) program::complain("note: " + note);
  lm::Text const text = lm::load_text(options);
  lm::create_report_folder(options);
  lm::create_checkpoint_folder(options);
  lm::note_signals();
  return train(options, text);
}

}  // namespace

int main(int argc, char** argv) {
  return program::run("headmix-lm", [&] {
    std::vector<std::string_view> const arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
#ifdef HEADMIX_LM_MPI
    auto const is_parallel = [](std::string_view a) { return a == "--parallel" || a.starts_with("--parallel="); };
    if (std::any_of(arguments.begin(), arguments.end(), is_parallel)) {
      return lm::in_processes([&] { return headmix_lm(arguments); });
    }
#endif
    return headmix_lm(arguments);
  });
}
