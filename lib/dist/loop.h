/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop whose elements do not depend on each other, which is said to the compiler: the output may be
 * one of the inputs, and is then read before it is written.
 */
#pragma once

#if defined(__clang__)
#define EACH_ELEMENT(i, n) \
    _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; (i) < (n); (i)++)
#else
#define EACH_ELEMENT(i, n) _Pragma("GCC ivdep") for (size_t i = 0; (i) < (n); (i)++)
#endif
