// SPDX-License-Identifier: MIT
// Compiled with flags that any header refuses.

#include "headmix/core/config.hpp"
