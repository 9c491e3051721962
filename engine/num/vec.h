/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors of LANES numbers in float32; the file that includes this one defines LANES.
 */
#pragma once

#include <stdint.h>
#include <string.h>

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t vec_int __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vec load(const float *at)
{
    return *(const vec *)at;
}

static inline void store(float *at, vec v)
{
    *(vec *)at = v;
}

static inline float sum_of(vec v)
{
    float at[LANES];
    memcpy(at, &v, sizeof(at));
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            at[i] += at[i + half];
    return at[0];
}

/* Returns max(v, 0); NaN stays NaN. */
static inline vec positive(vec v)
{
    return (vec)((vec_int)v & ~(v < 0));
}

static inline vec vec_where(vec_int mask, vec yes, vec no)
{
    return (vec)(((vec_int)yes & mask) | ((vec_int)no & ~mask));
}
