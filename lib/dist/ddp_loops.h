/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain loops over gradients.
 */
#pragma once

#include "muster/dist.h"

/*
 * to[i] = from[i] × factor, rounded once to the wire's type. Returns whether all results are finite.
 * to may be from if the types are the same.
 */
bool md_pack(void *to, enum muster_type wire, const void *from, enum muster_type type, size_t count,
             double factor);
bool md_are_finite(const void *values, enum muster_type type, size_t count);
/* to[i] = from[i], from the wire's type. */
void md_unpack(void *to, enum muster_type type, const void *from, enum muster_type wire,
               size_t count);
/* sums[i] = left[i] + right[i]; float32 or float64. sums may be left. */
void md_add(void *sums, const void *left, const void *right, enum muster_type type, size_t count);
/* The following take float32 or float64. */
void md_divide(void *values, enum muster_type type, size_t count, double divisor);
double md_squares(const void *values, enum muster_type type, size_t count);
void md_scale(void *values, enum muster_type type, size_t count, double factor);
uint64_t md_hash(const void *at, size_t bytes);
