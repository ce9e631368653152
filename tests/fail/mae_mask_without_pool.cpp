// expect: headmix: Mae has no default pool for a mask of your own
// SPDX-License-Identifier: MIT
#include "headmix/layer/mae.hpp"

using namespace headmix;
struct every_second {
  static constexpr bool sees(Index t, Index s) { return s <= t && (t - s) % 2 == 0; }
};
#ifdef MUST_FAIL
using layer = Mae<8, 2, 4, every_second>;
#else
using layer = Mae<8, 2, 4, every_second, pool::prefix>;
#endif
constexpr auto y = layer::y;
