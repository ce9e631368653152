// SPDX-License-Identifier: MIT
// A text read byte by byte, as in sampling, has the loss that training computes for the whole text.

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "model.hpp"

namespace {

template <class T>
using Cpu = headmix::Cpu<T, headmix::thread_pool>;
using Backend = Cpu<float>;
using lm::Index, lm::Int;

/// -log of the probability of byte `next`.
double loss_of(std::vector<float> const& logits, Int next) {
  double sum = 0;
  for (float const x : logits) sum += std::exp(static_cast<double>(x));
  return std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(next)]);
}

/// True if both agree up to `tolerance`, for the model of these options.
template <class Backend>
bool agrees(std::string const& kind, lm::MakeSublayer<Backend> make_attention, std::vector<std::string_view> options,
            double tolerance = 1e-4) {
  using T = typename Backend::scalar;
  for (char const* const o : {"--width", "16", "--context", "24", "--layers", "2"}) options.emplace_back(o);
  lm::Options const o = lm::parse_options(options);
  headmix::thread_pool threads(1);
  lm::LanguageModel<Backend> model(o, Backend(threads), make_attention,
                                   &lm::make_feed_forward<lm::Weights::real, Backend>);
  // Larger weights than the initial ones, so that all terms matter.
  for (auto const& p : model.parameters()) {
    headmix::Random const random(headmix::named_seed(1, p.name));
    for (Index i = 0; i < p.value.size(); ++i)
      p.value.data[i] = static_cast<T>(static_cast<float>(p.value.data[i]) +
                                       0.3f * static_cast<float>(random.normal(static_cast<std::uint64_t>(i))));
  }
  headmix::Random const random(2);
  std::vector<Int> text;
  for (std::uint64_t i = 0; i < 25; ++i) text.push_back(static_cast<Int>(random.below(i, 256)));
  double const loss = model.forward(text.data(), text.data() + 1, headmix::uniform(1, 24));

  double by_bytes = 0;
  model.begin_text();
  for (std::size_t i = 0; i < 24; ++i) {
    by_bytes += loss_of(model.continue_text(text.data() + i, 1), text[i + 1]) / 24;
  }
  model.begin_text();
  double const last = loss_of(model.continue_text(text.data(), 24), text[24]);
  double const last_of_forward = 24 * loss - 23 * model.forward(text.data(), text.data() + 1, headmix::uniform(1, 23));
  model.end_text();
  bool const same = std::abs(by_bytes - loss) < tolerance && std::abs(last - last_of_forward) < 10 * tolerance;
  std::printf("%s: loss %.6f, byte by byte %.6f; of the last byte %.4f, read at once %.4f: %s\n", kind.c_str(), loss,
              by_bytes, last_of_forward, last, same ? "agree" : "DIFFER");
  return same;
}

}  // namespace

int main() {
  bool all = agrees<Backend>("dense", &lm::make_dense<Backend>, {"--attention", "dense", "--heads", "2"});
  all = agrees<Backend>("moa", &lm::make_moa<Backend>, {"--attention", "moa", "--experts", "3", "--top-k", "2"}) && all;
  all = agrees<Backend>("moh", &lm::make_moh<Backend>, {"--attention", "moh"}) && all;
  all = agrees<Backend>("moh, query norm", &lm::make_moh<Backend>, {"--attention", "moh", "--router", "query_norm"}) &&
        all;
  all = agrees<Backend>("mae", &lm::make_mae<Backend>, {"--attention", "mae", "--pool", "window:5"}) && all;
  all = agrees<Backend>("mae, uniform", &lm::make_mae<Backend>, {"--attention", "mae", "--training", "uniform"}) && all;
  all = agrees<Backend>("mh_moe", &lm::make_dense<Backend>, {"--ffn", "mh_moe"}) && all;
  using Narrow = Cpu<headmix::bfloat16>;
  all = agrees<Narrow>("moa, bfloat16", &lm::make_moa<Narrow>, {"--attention", "moa", "--experts", "3", "--top-k", "2"},
                       0.02) &&
        all;
  return all ? 0 : 1;
}
