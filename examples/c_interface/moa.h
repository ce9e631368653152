/* SPDX-License-Identifier: MIT
 * The functions of one layer, for both sides. */
#ifndef MOA_H
#define MOA_H

#include <headmix/interop/c.h>

/** A mixture of attention heads of float numbers: moa_create(), moa_forward(), ... */
HEADMIX_C_DECLARE(moa, float)

#endif
