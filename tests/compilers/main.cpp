// SPDX-License-Identifier: MIT
// A program for other compilers and standard libraries: all headers of the CPU, a layer on Cpu<float> against
// Reference<double>, ternary experts, JSON numbers. Exits with 1 if they differ.
#include <cmath>
#include <cstdio>
#include <headmix/headmix.hpp>
#include <headmix/io/checkpoint.hpp>
#include <headmix/io/json.hpp>
#include <headmix/io/weights.hpp>

using namespace headmix;

namespace {

template <class Layer, class Backend>
std::vector<double> results(Index tokens, Index width) {
  Module<Layer, Backend> m(1);
  using T = typename Backend::scalar;
  std::vector<T> x(static_cast<std::size_t>(tokens * width));
  double angle = 0;
  for (auto& number : x) number = static_cast<T>(std::sin(angle += 0.7));
  auto const y = m.forward({x.data(), tokens, width});
  m.backward(y);
  std::vector<double> all(y.data, y.data + y.size());
  for (auto const& p : m.parameters()) all.insert(all.end(), p.gradient.data, p.gradient.data + p.gradient.size());
  return all;
}

template <class Layer>
bool agree(char const* name, double tolerance) {
  auto const found = results<Layer, Cpu<float>>(19, 24), expected = results<Layer, Reference<double>>(19, 24);
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  std::printf("%s: %zu numbers, relative error %.2g\n", name, found.size(), std::sqrt(error / norm));
  return std::sqrt(error / norm) < tolerance;
}

bool reads(char const* text, double expected) {
  JsonReader in(text, "numbers");
  double const found = in.number();
  if (found != expected) std::printf("%s: expected %.17g, found %.17g\n", text, expected, found);
  return found == expected;
}

bool refuses(char const* text) {
  try {
    static_cast<void>(JsonReader(text, "numbers").number());
  } catch (Error const&) {
    return true;
  }
  std::printf("%s: expected an error\n", text);
  return false;
}

}  // namespace

int main() {
  bool right = agree<Moa<24, 8, SoftmaxTopK<5, 2>, causal, rope<>>>("MoA", 1e-5);
  right &= agree<Smoe<24, SoftmaxTopK<4, 2>, FeedForward<32, activation::swiglu, weights::ternary>>>("ternary", 2e-2);
  right &= reads("0.1", 0.1) && reads("-1.7976931348623157e308", -1.7976931348623157e308) && reads("2.5E-3", 2.5e-3);
  right &= refuses("1e999") && refuses("0x10") && refuses("1.") && refuses("inf");
  return right ? 0 : 1;
}
