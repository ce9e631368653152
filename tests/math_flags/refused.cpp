// SPDX-License-Identifier: MIT
// Compiled with flags that every header refuses.

#include "headmix/core/config.hpp"
