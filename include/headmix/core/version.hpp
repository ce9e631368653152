#pragma once
// SPDX-License-Identifier: MIT
// The library's version: the single source, which CMakeLists.txt reads too.

/// Of semantic versioning.
#define HEADMIX_VERSION_MAJOR 0
/// Of semantic versioning.
#define HEADMIX_VERSION_MINOR 1
/// Of semantic versioning.
#define HEADMIX_VERSION_PATCH 0
/// major * 10000 + minor * 100 + patch, for comparisons in the preprocessor.
#define HEADMIX_VERSION (HEADMIX_VERSION_MAJOR * 10000 + HEADMIX_VERSION_MINOR * 100 + HEADMIX_VERSION_PATCH)
