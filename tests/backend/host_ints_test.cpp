// SPDX-License-Identifier: MIT
// Device copies of host integers when an allocation or a copy fails.

#include <doctest/doctest.h>

#include <new>

#include "headmix/contract/memory.hpp"

namespace host_ints_test {

using namespace headmix;

namespace {
/// A device that refuses allocations or copies.
struct device {
  static constexpr bool host_memory = false;
  static inline bool refuses_memory = false;
  struct memory : AlignedBuffer {
    memory() = default;
    explicit memory(std::size_t bytes) : AlignedBuffer((refuses_memory ? throw std::bad_alloc() : 0, bytes)) {}
  };
  bool refuses_copies = false;
  void upload(void* to, void const* from, std::size_t bytes) const {
    if (refuses_copies) throw std::bad_alloc();
    std::memcpy(to, from, bytes);
  }
};
}  // namespace

TEST_CASE("host ints: after a copy that failed, the same numbers are copied again") {
  device d;
  HostInts<device> ints;
  Int const few[] = {1, 2}, many[] = {3, 4, 5, 6}, others[] = {7, 8};
  CHECK(ints.assign(d, few, 2)[1] == 2);
  device::refuses_memory = true;
  CHECK_THROWS_AS(ints.assign(d, many, 4), std::bad_alloc);
  device::refuses_memory = false;
  CHECK(ints.assign(d, many, 4)[3] == 6);
  d.refuses_copies = true;
  CHECK_THROWS_AS(ints.assign(d, others, 2), std::bad_alloc);
  d.refuses_copies = false;
  CHECK(ints.assign(d, others, 2)[1] == 8);
}

}  // namespace host_ints_test
