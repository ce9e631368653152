#pragma once
// SPDX-License-Identifier: MIT
// Kernels for tests of the emulated device. Each kernel with a planted fault has a twin without the fault, which must
// pass.

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "../error_of.hpp"
#include "headmix/testing/emulated.hpp"

namespace headmix::test {

/// The body of a kernel of these tests.
using body = std::function<void(Emulated&)>;

template <int threads_, int shared_, bool cooperative_>
struct probe {
  static constexpr char const* name = "probe";
  static constexpr int threads = threads_;
  static constexpr bool cooperative = cooperative_;
  static constexpr int shared_bytes = shared_;
  body const* f;
  void operator()(Emulated& device) const { (*f)(device); }
};

template <int threads = 32, int shared_bytes = 1024>
void run(body const& f, Index blocks = 1) {
  Emulated::queue().launch(probe<threads, shared_bytes, true>{&f}, blocks);
}
template <int threads = 32>
void run_alone(body const& f, Index blocks = 1) {  // threads that do not meet
  Emulated::queue().launch(probe<threads, 0, false>{&f}, blocks);
}

inline void check_has(std::string const& text, std::string const& part) {
  CHECK_MESSAGE(text.find(part) != std::string::npos, "'", text, "' lacks '", part, "'");
}

/// Runs what takes (device, planted): without the fault nothing is found, with it an error that says all parts.
template <int threads = 32, int shared_bytes = 1024>
void check_found(std::function<void(Emulated&, bool)> const& f, std::vector<std::string> const& parts,
                 Index blocks = 1) {
  auto const with = [&](bool planted) {
    return error_of([&] { run<threads, shared_bytes>([&](Emulated& d) { f(d, planted); }, blocks); });
  };
  CHECK(with(false) == "");
  std::string const found = with(true);
  check_has(found, "headmix: kernel probe, block ");
  for (auto const& part : parts) check_has(found, part);
  CHECK(with(false) == "");  // nothing is left behind
}

template <class T>
struct array_of {
  explicit array_of(std::size_t n) : memory(n * sizeof(T)) {}
  T* data() const { return memory.as<T>(); }
  T& operator[](std::size_t i) const { return data()[i]; }

  Emulated::memory memory;
};

}  // namespace headmix::test
