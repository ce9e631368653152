#pragma once
// SPDX-License-Identifier: MIT
// The library's version, its single source; CMakeLists.txt reads it too.

/// Major version (semantic versioning).
#define HEADMIX_VERSION_MAJOR 0
/// Minor version (semantic versioning).
#define HEADMIX_VERSION_MINOR 1
/// Patch version (semantic versioning).
#define HEADMIX_VERSION_PATCH 0
/// major * 10000 + minor * 100 + patch, for comparisons in the preprocessor.
#define HEADMIX_VERSION (HEADMIX_VERSION_MAJOR * 10000 + HEADMIX_VERSION_MINOR * 100 + HEADMIX_VERSION_PATCH)
