// SPDX-License-Identifier: MIT
// products headmix|eigen ROWS DEPTH COLUMNS TIMES: a product of floats so many times, for products.py.

#include <Eigen/Core>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "headmix/backend/cpu.hpp"

using namespace headmix;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main(int count, char** argument) {
  if (count != 6) return 2;
  bool const mine = std::string_view(argument[1]) == "headmix";
  Index const m = std::atol(argument[2]), k = std::atol(argument[3]), n = std::atol(argument[4]);
  auto const size = [](Index rows, Index cols) { return static_cast<std::size_t>(rows * cols); };
  std::vector<float> a(size(m, k), 0.5f), b(size(k, n), 0.25f), y(size(m, n));
  Cpu<float> cpu;
  for (int times = std::atoi(argument[5]); times > 0; --times) {
    if (mine) {
      cpu.gemm(view<float>(y.data(), m, n), view<float const>(a.data(), m, k), view<float const>(b.data(), k, n),
               false);
    } else {
      Eigen::Map<Matrix>(y.data(), m, n).noalias() =
          Eigen::Map<Matrix const>(a.data(), m, k) * Eigen::Map<Matrix const>(b.data(), k, n);
    }
  }
  return y[0] == 0.125f * static_cast<float>(k) ? EXIT_SUCCESS : EXIT_FAILURE;
}
