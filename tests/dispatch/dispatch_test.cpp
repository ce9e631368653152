// SPDX-License-Identifier: MIT
// Cpu with headmix::compiled in a unit without instruction-set flags, at every level that this machine supports.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "../difference.hpp"
#include "../error_of.hpp"
#include "headmix/backend/build_info.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"
#include "headmix/testing/backend_conformance.hpp"

namespace {

using namespace headmix;
using headmix::test::error_of, headmix::test::relative_error;

std::vector<cpu_level> levels() {
  std::vector<cpu_level> all{cpu_level::baseline};
  for (cpu_level const level : {cpu_level::avx2, cpu_level::avx512, cpu_level::avx512_bf16, cpu_level::amx})
    if (cpu_supports(level)) all.push_back(level);
  return all;
}

/// Sets or clears HEADMIX_CPU_LEVEL during its lifetime.
class Environment {
 public:
  explicit Environment(char const* value) {
    if (char const* const before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Environment() { set(before_ ? before_->c_str() : nullptr); }
  Environment(Environment const&) = delete;

 private:
  static constexpr char const* name = "HEADMIX_CPU_LEVEL";
  static void set(char const* value) { value ? setenv(name, value, 1) : unsetenv(name); }
  std::optional<std::string> before_;
};

/// The results of a training step: y, and the gradients of the input and of all parameters.
template <class Backend>
std::vector<double> step_of(Backend backend) {
  using T = typename Backend::scalar;
  // Prepared weights, slots of experts, a bias of scores, attention with a precompiled mask.
  Module<Moa<16, 8, SoftmaxTopK<5, 2, loss::load_balance>, causal, query_bias>, Backend> m(1, backend);
  for (auto const& p : m.parameters()) {
    for (Index i = 0; i < p.value.size(); ++i)
      p.value.data[i] = static_cast<T>(bfloat16(static_cast<double>(p.value.data[i])));
  }
  std::vector<T> x(16 * 70), dy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(bfloat16(Random(2).normal(i)));
    dy[i] = static_cast<T>(bfloat16(Random(3).normal(i)));
  }
  std::vector<double> all;
  auto const keep = [&all](auto const& v) {
    for (Index i = 0; i < v.size(); ++i) all.push_back(static_cast<double>(v.data[i]));
  };
  keep(m.forward({x.data(), 70, 16}, uniform(2, 35)));
  m.backward({dy.data(), 70, 16}, {0.1});
  keep(m.input_gradient());
  for (auto const& p : m.parameters()) keep(p.gradient);
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("every level does what the reference does, on two threads to the same bits", T, float, bfloat16) {
  std::vector<std::uint64_t> digests;
  for (cpu_level const level : levels()) {
    CAPTURE(name_of(level));
    std::uint64_t digest[2];
    for (Index const threads : {1, 2}) {
      thread_pool pool(threads);
      Cpu<T, thread_pool> backend(pool, level);
      CHECK(backend.level() == level);
      auto const found = backend_conformance<full, causal>(backend);
      INFO(found.text());
      CHECK(found.ok());
      digest[threads - 1] = found.digest;
    }
    CHECK(digest[0] == digest[1]);
    digests.push_back(digest[0]);
  }
  // The kernels were those of the level: fused multiply-adds give other bits than separate rounding, and products of
  // pairs give other bits than those of float.
  if (digests.size() > 1) CHECK(digests[0] != digests[1]);
  if (std::is_same_v<T, bfloat16> && levels().back() > cpu_level::avx512) CHECK(digests.back() != digests.end()[-2]);
}
TEST_CASE_TEMPLATE("a layer at every level", T, float, bfloat16) {
  auto const expected = step_of(Reference<double>{});
  for (cpu_level const level : levels()) {
    CAPTURE(name_of(level));
    auto const found = step_of(Cpu<T>(level));
    CHECK(relative_error(found, expected) < (std::is_same_v<T, float> ? 1e-6 : 2e-2));
    thread_pool pool(2);
    CHECK(step_of(Cpu<T, thread_pool>(pool, level)) == found);
  }
}
TEST_CASE("prepared weights at every level give the bits of those that are not") {
  using L = Moa<16, 8, SoftmaxTopK<5, 2>>;
  std::vector<float> x(16 * 70);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(Random(2).normal(i));
  for (cpu_level const level : levels()) {
    Module<L, Cpu<float>, inference> m(1, Cpu<float>(level)), prepared(1, m.backend());
    prepared.prepare_weights();
    auto const a = m.forward({x.data(), 70, 16}), b = prepared.forward({x.data(), 70, 16});
    CHECK(std::equal(a.data, a.data + a.size(), b.data));
  }
}
TEST_CASE("the level is the highest one, or what HEADMIX_CPU_LEVEL says") {
  {
    Environment const none(nullptr);
    CHECK(Cpu<float>().level() == levels().back());
  }
  for (cpu_level const level : levels()) {
    Environment const forced(name_of(level));
    CHECK(Cpu<float>().level() == level);
    CHECK(Cpu<float>(cpu_level::baseline).level() == cpu_level::baseline);
  }
  {
    Environment const none(nullptr);
    build_information const b = build_info();
    CHECK(b.machine == levels().back());
    CHECK(b.level == b.machine);
    CHECK(b.compiled_kernels);
#if defined(__x86_64__) && !defined(__SSE3__)
    CHECK(b.instruction_set == "sse2");
#endif
  }
  if (levels().size() > 1) {
    Environment const lowest("baseline");
    std::string const machine = name_of(levels().back());
    std::string const expected =
        std::string("headmix ") + std::to_string(HEADMIX_VERSION_MAJOR) + "." + std::to_string(HEADMIX_VERSION_MINOR) +
        "." + std::to_string(HEADMIX_VERSION_PATCH) + "; " + std::string(build_info().compiler) +
        "; unit: " + std::string(build_info().instruction_set) + "; headmix::compiled: baseline; machine: " + machine;
    CHECK(build_info().text() == expected);
  }
  for (cpu_level const level : {cpu_level::avx2, cpu_level::avx512, cpu_level::avx512_bf16, cpu_level::amx}) {
    if (cpu_supports(level)) continue;
    CHECK(error_of([level] { Cpu<float> const backend(level); }) ==
          message("headmix: Cpu: expected a level that this machine runs, found ", name_of(level)));
  }
  Environment const wrong("sse9");
  CHECK(error_of([] { (void)build_info(); }) ==
        "headmix: HEADMIX_CPU_LEVEL: expected baseline, avx2, avx512, avx512_bf16 or amx, found sse9");
  CHECK(error_of([] { Cpu<float> backend; }) ==
        "headmix: HEADMIX_CPU_LEVEL: expected baseline, avx2, avx512, avx512_bf16 or amx, found sse9");
}
