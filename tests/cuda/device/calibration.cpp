// SPDX-License-Identifier: MIT
// The emulator's side of the calibration.
#include "cuda/device/calibration.hpp"

#include "headmix/testing/emulated.hpp"

namespace headmix::testing {

std::vector<std::uint32_t> emulated_calibration() {
  std::vector<std::uint32_t> words(calibration::threads * calibration::words_per_thread);
  std::vector<bfloat16> const input = calibration_input();
  Emulated::queue queue;
  Emulated::memory from(input.size() * sizeof(bfloat16)), to(words.size() * sizeof(std::uint32_t));
  queue.upload(from.as<bfloat16>(), input.data(), input.size() * sizeof(bfloat16));
  queue.launch(calibration{from.as<bfloat16>(), to.as<std::uint32_t>()}, 1);
  queue.download(words.data(), to.as<std::uint32_t>(), words.size() * sizeof(std::uint32_t));
  return words;
}

}  // namespace headmix::testing
