// SPDX-License-Identifier: MIT
// The second translation unit: a non-inline function of the library, or a variable defined twice, would not link. It
// also defines macros that must not break our headers. Those of the standard library and of Eigen are not immune, so
// they come first.
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <memory>
#include <numbers>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unsupported/Eigen/CXX11/ThreadPool>
#include <unsupported/Eigen/SpecialFunctions>
#include <utility>
#include <vector>

#define min(a, b) ((a) < (b) ? (a) : (b))  // windows.h
#define max(a, b) ((a) > (b) ? (a) : (b))
#define near
#define far
#define small char
#define I _Complex_I  // complex.h
#define N 64
#define B0 0000000      // termios.h
#define CHECK(x) ((x))  // test frameworks, glog
#define Status int      // X11
#define None 0L

#include <headmix/headmix.hpp>

#if !defined(min) || !defined(max)
#error "libstdc++ undefines min and max: what headmix includes of it must be included above"
#endif

int version_seen_by_other();

int version_seen_by_other() { return HEADMIX_VERSION; }
