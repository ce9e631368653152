// SPDX-License-Identifier: MIT
// 16-bit kernels without tensor cores print a notice, once, with the reason.

#include <stdio.h>
#include <unistd.h>

#include <string>

#include "cuda/attention_test.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;
using headmix::testing::attention_case;
using headmix::testing::attention_layout;
using headmix::testing::check_attention;

namespace {

/// The text that f writes to stderr.
template <class F>
std::string written_by(F const& f) {
  FILE* const file = tmpfile();
  REQUIRE(file != nullptr);
  fflush(stderr);
  int const before = dup(2);
  dup2(fileno(file), 2);
  f();
  fflush(stderr);
  dup2(before, 2);
  close(before);
  rewind(file);
  std::string text;
  for (int c = fgetc(file); c != EOF; c = fgetc(file)) text += static_cast<char>(c);
  fclose(file);
  return text;
}

}  // namespace

TEST_CASE("cuda: a kernel says once that it does without tensor cores") {
  std::string const text = written_by([] {
    cuda_kernels::notify_plain_kernel("a kernel of this test", "its reason");
    cuda_kernels::notify_plain_kernel("a kernel of this test", "another reason");
  });
  CHECK(text == "headmix: a kernel of this test in 16 bits runs without tensor cores, many times slower: its reason\n");
}

TEST_CASE("cuda: why attention does without tensor cores") {
  attention_extents x;
  x.queries = x.keys = uniform(1, 8);
  x.head_dim = 64;
  attention_scores<bfloat16> scores;
  bfloat16 numbers[65 * 8] = {};
  view<bfloat16 const> const aligned(numbers, 8, 64), odd(numbers, 8, 65);
  CHECK(cuda_kernels::plain_kernel_reason(x, scores, aligned) == nullptr);
  auto const why = [&](auto const& extents, auto const& of, auto const& operand) {
    char const* const found = cuda_kernels::plain_kernel_reason(extents, of, operand);
    return std::string(found == nullptr ? "" : found);
  };
  CHECK(why(x, scores, odd).find("multiples of 16 bytes") != std::string::npos);
  attention_extents far = x;
  far.queries = uniform(1, Index{1} << 31);
  CHECK(why(far, scores, aligned).find("too many rows") != std::string::npos);
  far.queries = uniform(1, 1 << 20);
  far.rows_per_token = 64;  // 2^26 rows of 64 a token: positions are found by division in 32 bits
  CHECK(why(far, scores, aligned).find("too many rows") != std::string::npos);
  attention_extents narrow = x;
  narrow.head_dim = 32;
  CHECK(why(narrow, scores, aligned).find("neither 64 nor 128") != std::string::npos);
  attention_scores<bfloat16> biased = scores;
  biased.bias = aligned;
  CHECK(why(x, biased, aligned).find("bias") != std::string::npos);
  attention_scores<bfloat16> negative = scores;
  negative.scale = -1;
  CHECK(why(x, negative, aligned).find("more than 0") != std::string::npos);
}

TEST_CASE("cuda, emulated: attention that does without tensor cores says so") {
  attention_case const c{"columns of q lie apart", {0, 5}, {0, 5}, 1, 2, 1, 64};
  std::string const text =
      written_by([&] { check_attention<causal, bfloat16, Emulated>(c, {.layout = attention_layout::transposed}); });
  // Unless another test of this process was first.
  CHECK((text.empty() || text.find("headmix: attention in 16 bits runs without tensor cores") != std::string::npos));
  CHECK(cuda_kernels::plain_notices::instance().printed("attention"));
  CHECK(cuda_kernels::plain_notices::instance().printed("the gradient of attention"));
  CHECK(written_by([&] {
          check_attention<causal, bfloat16, Emulated>(c, {.layout = attention_layout::transposed});
        }).empty());
}
