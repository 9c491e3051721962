/* SPDX-License-Identifier: Apache-2.0
 *
 * What every unit test includes first: cmocka with what it needs, less its macro `fail`, which is
 * the name of our error path (use fail_msg).
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#undef fail
#undef fail_msg
#define fail_msg(...)              \
    do {                           \
        print_error(__VA_ARGS__);  \
        print_error("\n");         \
        _fail(__FILE__, __LINE__); \
    } while (0)

/* gcc says so by a macro of its own, clang by a question. */
#ifdef __SANITIZE_ADDRESS__
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

/* Leaves a test of how long something takes: AddressSanitizer maps and unmaps what is large. */
#define SKIP_UNDER_ASAN() \
    do {                  \
        if (UNDER_ASAN) { \
            (void)state;  \
            return;       \
        }                 \
    } while (0)

/*
 * Leaves a test of what Valgrind cannot do: 3.19 does not know pidfd_open, reports no failure of
 * posix_spawn, and is thirty times slower than any limit in seconds allows for. (Not by skip(), which
 * is "not ok" in cmocka's TAP.)
 */
#define SKIP_UNDER_VALGRIND()           \
    do {                                \
        if (getenv("UNDER_VALGRIND")) { \
            (void)state;                \
            return;                     \
        }                               \
    } while (0)
