// SPDX-License-Identifier: MIT
// A small second unit; the one with macros and all headers is other.cpp.
#include <headmix/core/version.hpp>

int version_seen_by_other();

int version_seen_by_other() { return HEADMIX_VERSION; }
