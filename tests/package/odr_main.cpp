// SPDX-License-Identifier: MIT
// Two translation units with every header: a function that is not inline, or a variable defined twice, does not link.
#include <headmix/headmix.hpp>

int version_seen_by_other();

int main() { return version_seen_by_other() == HEADMIX_VERSION_MINOR ? 0 : 1; }
