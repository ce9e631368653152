// SPDX-License-Identifier: MIT
// headmix-lm: trains a small byte-level language model with mixture-of-attention-heads, mixture-of-head or
// attentive-expert layers, and mixtures of feed-forward experts, on real text.

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

[[noreturn]] void not_built(std::string_view what, std::string_view how) {
  throw lm::UsageError(std::string(what) + " is not in this build" + std::string(how));
}

using Train = int (*)(lm::Options const&, lm::Text const&);
/// One of these, in the order of lm::Attention.
Train pick(lm::Options const& options, Train dense, Train moa, Train moh, Train mae) {
  Train const all[] = {dense, moa, moh, mae};
  return all[static_cast<std::size_t>(options.attention)];
}

int train(lm::Options const& options, lm::Text const& text) {
  if (options.backend == lm::Device::cuda) {
#ifdef HEADMIX_LM_CUDA
    return pick(options, &lm::train_dense_cuda, &lm::train_moa_cuda, &lm::train_moh_cuda, &lm::train_mae_cuda)(options,
                                                                                                               text);
#else
    not_built("--backend cuda", ": configure with HEADMIX_CUDA=ON");
#endif
  }
  if (options.backend == lm::Device::emulated) {
#ifdef HEADMIX_LM_EMULATED
    Train const run = pick(options, nullptr, &lm::train_moa_emulated, &lm::train_moh_emulated, &lm::train_mae_emulated);
    if (run == nullptr) not_built("--backend emulated with --attention " + std::string(name(options.attention)), "");
    return run(options, text);
#else
    not_built("--backend emulated", ": configure with HEADMIX_BUILD_TESTS=ON");
#endif
  }
  return pick(options, &lm::train_dense, &lm::train_moa, &lm::train_moh, &lm::train_mae)(options, text);
}

int headmix_lm(std::vector<std::string_view> const& arguments) {
  lm::Options const options = lm::parse_options(arguments);
  if (options.help) {
    std::fputs(lm::help_text().c_str(), stdout);
    return program::done;
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
  return program::run("headmix-lm", [&] { return headmix_lm({argv + (argc > 0 ? 1 : 0), argv + argc}); });
}
