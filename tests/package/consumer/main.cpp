// SPDX-License-Identifier: MIT
#include <headmix/headmix.hpp>

#include <cstdio>

int main() { std::printf("headmix %d.%d.%d\n", HEADMIX_VERSION_MAJOR, HEADMIX_VERSION_MINOR, HEADMIX_VERSION_PATCH); }
