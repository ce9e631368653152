// SPDX-License-Identifier: MIT
// Rotary position embedding of two heads.
#include "headmix/expr/rotary.hpp"

#include "../expression.hpp"

namespace {

using namespace bench;

int const registered = [] {
  add("rotary", headmix::rotary<headmix::size<2>>(x{}, headmix::number<10000>{}));
  return 0;
}();

}  // namespace
