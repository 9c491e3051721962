/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells the compiler that the elements of a loop do not depend on each other. The output may be one of the inputs,
 * whose elements are then read before they are written.
 */
#pragma once

#if defined(__clang__)
#define EACH_ELEMENT(i, n) \
    _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; (i) < (n); (i)++)
#else
#define EACH_ELEMENT(i, n) _Pragma("GCC ivdep") for (size_t i = 0; (i) < (n); (i)++)
#endif
