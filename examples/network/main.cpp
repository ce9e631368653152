// SPDX-License-Identifier: MIT
// A network of layers as one program with one workspace: six decoder blocks of chosen heads and sparse experts learn
// the running mean of a sequence. The backward pass recomputes the values of a block, so only those of one block are
// kept.

#include <headmix/headmix.hpp>

#include "../common.hpp"

using namespace headmix;

namespace {

constexpr Index width = 32, length = 32, sequence_count = 4, row_count = sequence_count * length;
using Heads = Moh<width, 16, TwoStage<1, 3, 1>, causal, rope<>>;
using Ffn = Smoe<width, SoftmaxTopK<4, 2>, FeedForward<48>>;

struct Block {
  struct x : input<tokens, size<width>> {};
  struct attn_gain : param<size<width>> {
    using initializer = ones;
  };
  struct ffn_gain : param<size<width>> {
    using initializer = ones;
  };
  static constexpr auto attn = use<Heads, "attn">(rms_norm(x{}, attn_gain{}));
  struct h : let<decltype(x{} + attn.y)> {};
  static constexpr auto ffn = use<Ffn, "ffn">(rms_norm(h{}, ffn_gain{}));
  static constexpr auto y = h{} + ffn.y;
  using losses = losses_of<attn, ffn>;
  using observed = observed_of<attn, ffn>;
};

struct depth : size<dynamic> {};
struct Network {
  using x = Block::x;
  static constexpr auto blocks = repeat<depth, Block, "blocks", recompute>(x{});
  static constexpr auto y = blocks.y;
  using losses = losses_of<blocks>;
  using observed = observed_of<blocks>;
};

/// Row t of a sequence is the mean of its rows 0 .. t of x.
std::vector<float> running_means(std::vector<float> const& x) {
  std::vector<float> mean(x.size());
  for (Index b = 0; b < sequence_count; ++b) {
    for (Index j = 0; j < width; ++j) {
      float sum = 0;
      for (Index t = 0; t < length; ++t) {
        auto const i = static_cast<std::size_t>((b * length + t) * width + j);
        sum += x[i];
        mean[i] = sum / static_cast<float>(t + 1);
      }
    }
  }
  return mean;
}

}  // namespace

int main() {
  Module<Network, Cpu<float>> network(/*seed*/ 1, {}, at<depth>(6));
  AdamW<float, Cpu<float>> optimiser(network.parameters());
  auto const x = example::random_numbers(row_count * width);
  auto const target = running_means(x);
  std::vector<float> dy(x.size());
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    auto const y = network.forward({x.data(), row_count, width}, uniform(sequence_count, length));
    last = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      float const error = y.data[i] - target[i];
      dy[i] = 2 * error / static_cast<float>(dy.size());
      last += error * error / static_cast<double>(dy.size());
    }
    if (step == 0) first = last;
    network.zero_gradients();
    network.backward({dy.data(), row_count, width}, {0.001, 0.001, 0.001});  // weights of the losses of all blocks
    optimiser.step(3e-3);
  }
  auto const& p = network.parameters().back();
  std::printf("%zu parameters, the last one %s; mean squared error %.3f, after 20 steps %.3f\n",
              network.parameters().size(), std::string(p.name).c_str(), first, last);
  return last < 0.2 * first ? 0 : 1;
}
