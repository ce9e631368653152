// SPDX-License-Identifier: MIT
// The four devices have the functions of the archetypes; the emulated ones pass device_conformance, and a device with a
// wrong function does not.

#include "headmix/testing/device_conformance.hpp"

#include <doctest/doctest.h>

#include "headmix/testing/emulated_sm90.hpp"

using namespace headmix;

static_assert(DevicePolicy<archetype::device> && !WarpgroupDevice<archetype::device>);
static_assert(WarpgroupDevice<archetype::warpgroup_device>);
static_assert(DevicePolicy<Emulated> && !WarpgroupDevice<Emulated>);
static_assert(WarpgroupDevice<EmulatedSm90a>);

namespace {

/// A device whose function f is wrong.
template <class Wrong>
struct broken : Emulated {
  using Emulated::Emulated;
  struct queue : Emulated::queue {
    template <cuda_kernels::Kernel K>
    void launch(K const& kernel, Index blocks) const {
      launch_on<Wrong>(kernel, blocks);
    }
  };
};
struct wrong_shuffle : broken<wrong_shuffle> {
  using broken::broken;
  template <class T>
  T shuffle_xor(T value, int mask) const {
    return Emulated::shuffle_xor(value, mask ^ 1);
  }
};
struct wrong_mma : broken<wrong_mma> {
  using broken::broken;
  void mma_m16n8k16(float (&c)[4], words<4> const& a, words<2> const& b) const {
    Emulated::mma_m16n8k16(c, a, {{b.word[1], b.word[0]}});
  }
};
struct wrong_copy : broken<wrong_copy> {
  using broken::broken;
  template <class T>
  void cp_async16(shared_pointer<T> to, std::type_identity_t<T> const* from, bool) const {
    Emulated::cp_async16(to, from, true);
  }
};

template <class Device>
conformance_result run() {
  typename Device::queue queue;
  return device_conformance<Device>(queue);
}
template <class Device>
std::string kernel_of_failure() {
  auto const found = run<Device>();
  return found.failures.size() == 1 ? found.failures[0].kernel : message(found.failures.size(), " failures");
}

}  // namespace

TEST_CASE("cuda, emulated: the devices conform to the archetypes") {
  auto const plain = run<Emulated>();
  CHECK_MESSAGE(plain.ok(), plain.text());
  CHECK(plain.skips.size() == 1);
  auto const hopper = run<EmulatedSm90a>();
  CHECK_MESSAGE(hopper.ok(), hopper.text());
  CHECK(hopper.skips.empty());
  CHECK(hopper.checks > plain.checks);
}

TEST_CASE("cuda, emulated: device_conformance names the function that is wrong") {
  CHECK(kernel_of_failure<wrong_mma>() == "ldmatrix_x4, ldmatrix_x4_trans, mma_m16n8k16");
  CHECK(kernel_of_failure<wrong_copy>() == "cp_async16, cp_async_commit, cp_async_wait");
  CHECK(run<wrong_shuffle>().failures.size() == 4);  // four types of numbers
}
