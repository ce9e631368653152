// SPDX-License-Identifier: MIT
// headmix-replay-compare FOUND EXPECTED: prints the largest error of every tensor, which may be 1e-9 + 1e-8 of the
// largest expected element in F64 and 1e-6 + 2e-5 of it in F32; other types must be equal. Exit status 1 if tensors
// differ by more, 2 if they cannot be compared or the errors not printed.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "../program.hpp"
#include "headmix/io/safetensors.hpp"

namespace {

using headmix::dtype;
using headmix::Safetensors;

template <class T>
bool close(Safetensors const& found, Safetensors const& expected, std::string const& name) {
  auto const a = found.values<T>(name), b = expected.values<T>(name);
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    double const e = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    error = e > error || std::isnan(e) ? e : error;
    largest = std::fmax(largest, std::abs(static_cast<double>(b[i])));
  }
  bool const wide = sizeof(T) == 8;
  double const allowed = wide ? 1e-9 + 1e-8 * largest : 1e-6 + 2e-5 * largest;
  bool const ok = error <= allowed;
  std::printf("%-24s error %.2e, allowed %.2e%s\n", name.c_str(), error, allowed, ok ? "" : "  DIFFERS");
  return ok;
}

bool equal(headmix::tensor_view const& a, headmix::tensor_view const& b, std::string const& name) {
  bool const ok = std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
  std::printf("%-24s %s\n", name.c_str(), ok ? "equal" : "DIFFERS");
  return ok;
}

bool compare(Safetensors const& found, Safetensors const& expected) {
  bool ok = true;
  for (auto const& [name, b] : expected.tensors()) {
    auto const& a = found.tensor(name);
    if (a.type != b.type || a.shape != b.shape) {
      headmix::fail(headmix::shown(name), ": expected ", headmix::type_text(b.type, b.shape), ", found ",
                    headmix::type_text(a.type, a.shape));
    }
    bool const same = b.type == dtype::f64   ? close<double>(found, expected, name)
                      : b.type == dtype::f32 ? close<float>(found, expected, name)
                                             : equal(a, b, name);
    ok = ok && same;
  }
  for (auto const& [name, a] : found.tensors()) {
    if (!expected.tensors().contains(name)) headmix::fail(headmix::shown(name), ": expected no such tensor, found one");
  }
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  auto const compare_files = [&] {
    if (argc != 3) headmix::fail("usage: headmix-replay-compare FOUND.safetensors EXPECTED.safetensors");
    return compare(Safetensors::read(argv[1]), Safetensors::read(argv[2])) ? 0 : 1;
  };
  return program::run("headmix-replay-compare", compare_files, program::refused);
}
