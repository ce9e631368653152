// SPDX-License-Identifier: MIT
// Attention of the Cuda backend on an emulated device with the shared memory per block of compute capability 8.6, 8.9
// and 12.0.

#include "cuda/attention_test.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;
using headmix::testing::attention_case;
using headmix::testing::check_attention;

namespace {

struct EmulatedSm86 : Emulated {
  struct queue : Emulated::queue {
    queue() : Emulated::queue(99 << 10) {}
  };
};
struct large_kernel {
  static constexpr int threads = 32;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 100 << 10;
  template <class Device>
  void operator()(Device&) const {}
};

}  // namespace

TEST_CASE_TEMPLATE("cuda, emulated: attention with 99 KiB of shared memory", Width, std::integral_constant<Index, 64>,
                   std::integral_constant<Index, 128>) {
  using enum headmix::testing::heads_chosen;
  attention_case const grouped{"grouped queries", {0, 50}, {0, 50}, 1, 4, 2, Width::value};
  attention_case const ragged{"ragged", {0, 0, 1, 40, 40, 47, 48}, {0, 3, 4, 43, 51, 51, 84}, 2, 2, 1, Width::value};
  attention_case const rows{"rows shared by blocks", {0, 180}, {0, 180}, 3, 1, 1, Width::value};
  attention_case const chosen{"chosen", {0, 90, 100}, {0, 90, 100}, 3, 4, 2, Width::value, false, nothing_often};
  check_attention<causal, bfloat16, EmulatedSm86>(grouped, {.gate = true});
  check_attention<testing::every_third, bfloat16, EmulatedSm86>(ragged, {.odd = true});
  check_attention<causal, bfloat16, EmulatedSm86>(rows);
  check_attention<causal, bfloat16, EmulatedSm86>(chosen, {.odd = true});
  check_attention<causal, bfloat16, EmulatedSm86, testing::scores_after<testing::slopes_and_cap>>(grouped);
}
TEST_CASE("cuda, emulated: a kernel with more shared memory than the device has is refused") {
  EmulatedSm86::queue const queue;
  CHECK(queue.shared_bytes() == 99 << 10);
  CHECK_THROWS_WITH_AS(queue.launch(large_kernel{}, 1),
                       doctest::Contains("large_kernel takes 102400 bytes of shared memory, a block of this device has "
                                         "101376"),
                       Error);
}
