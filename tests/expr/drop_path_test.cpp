// SPDX-License-Identifier: MIT
// Stochastic depth: a branch is kept or dropped for a whole sequence.

#include "headmix/expr/drop_path.hpp"

#include <array>

#include "../test_program.hpp"

namespace drop_path_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct x : input<tokens, size<3>> {};
std::array<Int, 5> const offsets{0, 3, 3, 4, 9};

gradcheck_options ragged_options() {
  gradcheck_options o;
  o.token_sequences = ragged(offsets.data(), 4);
  return o;
}

}  // namespace

TEST_CASE("drop_path: the sequence's own number decides") {
  constexpr auto y = drop_path<1, 3>(x{}) + number<10>{} * drop_path<1, 3, random_stream::user>(x{});
  std::array<int, 2> dropped{};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TestProgram<roots<type_of<decltype(y)>>> p(ragged_options(), at<tokens>(9));
    std::copy_n(randomness(seed).word, 6, p.values(random_key{}).data());
    auto const found = p.forward();
    p.backward();
    for (std::uint64_t b = 0; b < 4; ++b) {
      auto const factor = [&](random_stream stream) { return Random(seed, 0, stream).uniform(b) < 1.0 / 3 ? 0 : 1.5; };
      double const first = factor(random_stream::drop_path), second = factor(random_stream::user);
      dropped[0] += first == 0, dropped[1] += second == 0;
      for (Index i = offsets[b]; i < offsets[b + 1]; ++i) {
        for (Index j = 0; j < 3; ++j) {
          CHECK(close(found(i, j), (first + 10 * second) * p.in(x{})(i, j)));
          CHECK(close(p.gradient(x{})(i, j), (first + 10 * second) * p.dy(i, j)));
        }
      }
    }
  }
  for (int const n : dropped) CHECK((10 < n && n < 45));  // of 80
}
TEST_CASE("drop_path: its gradient, and the branch itself without randomness") {
  check_gradient(drop_path<1, 2>(x{} * x{}));
  CHECK(gradcheck(drop_path<1, 2>(x{} * x{}), ragged_options(), at<tokens>(9)).ok());
  TestProgram<roots<type_of<decltype(drop_path<1, 2>(x{}))>>, inference> p(at<tokens>(3));
  p.values(random_key{}).assign(6, 0);
  auto const y = p.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == p.values(x{})[static_cast<std::size_t>(i)]);
}

}  // namespace drop_path_test
