// SPDX-License-Identifier: MIT
// A second unit, which needs little. A hostile one with everything is other.cpp, once.
#include <headmix/core/version.hpp>

int version_seen_by_other();

int version_seen_by_other() { return HEADMIX_VERSION; }
