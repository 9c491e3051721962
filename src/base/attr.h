/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiler attributes and the few macros that every file may use. No functions.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h> /* MIN, MAX */

#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MUST_CHECK        __attribute__((warn_unused_result))
#define NORETURN          __attribute__((noreturn))

#define countof(array) (sizeof(array) / sizeof((array)[0]))

/* Ends the program at a bug in muster itself. Active in every build, because a wrong result is
 * worse than none. */
#define BUG(...)                                                       \
    do {                                                               \
        fprintf(stderr, "muster: bug at %s:%d: ", __FILE__, __LINE__); \
        fprintf(stderr, __VA_ARGS__);                                  \
        fputc('\n', stderr);                                           \
        abort();                                                       \
    } while (0)

#define ASSERT(condition)          \
    do {                           \
        if (!(condition))          \
            BUG("%s", #condition); \
    } while (0)
