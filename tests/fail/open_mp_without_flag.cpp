// expect: add -fopenmp
// SPDX-License-Identifier: MIT
#include "headmix/backend/executor.hpp"

#ifdef MUST_FAIL
#include "headmix/backend/open_mp.hpp"
#endif
