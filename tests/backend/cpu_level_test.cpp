// SPDX-License-Identifier: MIT
// Levels without kernels of Cpu, and the notice of a slow build. Supported levels: tests/dispatch; the printed notice:
// tests/package.

#include <doctest/doctest.h>

#include "../error_of.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"

namespace cpu_level_test {

namespace {

using namespace headmix;
using headmix::test::error_of;

TEST_CASE("Cpu: a level without kernels is refused") {
  CHECK(Cpu<float>().level() == cpu_level::baseline);
  CHECK(Cpu<float>(cpu_level::baseline).level() == cpu_level::baseline);
  thread_pool pool(2);
  for (cpu_level const level : {cpu_level::avx2, cpu_level::avx512, cpu_level::avx512_bf16, cpu_level::amx}) {
    std::string const expected =
        std::string("headmix: Cpu: expected a level that kernels are compiled for, at most baseline, found ") +
        name_of(level) + "; headmix::compiled has higher ones";
    CHECK(error_of([&] { Cpu<bfloat16> const backend(level); }) == expected);
    CHECK(error_of([&] { Cpu<float, thread_pool> const backend(pool, level); }) == expected);
  }
}

TEST_CASE("Cpu: the notice of a build that is slow says what is missing") {
  std::string const begin = "headmix: the kernels of Cpu are compiled ", end = " and are many times slower";
  CHECK(detail::build_notice(true, false).empty());
  CHECK(detail::build_notice(false, false).starts_with(begin + "without optimisation" + end));
  CHECK(detail::build_notice(true, true).starts_with(begin + "without AVX, which this CPU has," + end));
  CHECK(detail::build_notice(false, true)
            .starts_with(begin + "without optimisation and without AVX, which this CPU has," + end));
}

}  // namespace

}  // namespace cpu_level_test
