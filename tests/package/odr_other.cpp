// SPDX-License-Identifier: MIT
#include <headmix/headmix.hpp>

int version_seen_by_other();

int version_seen_by_other() { return HEADMIX_VERSION_MINOR; }
