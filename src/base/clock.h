/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Monotonic, for measuring. */
uint64_t clock_now_ms(void);
uint64_t clock_now_ns(void);
/* Wall clock, milliseconds since the epoch, for records that people read. */
int64_t clock_wall_ms(void);
/* The time that the kernel gives to a file that is written now, nanoseconds since the epoch. */
int64_t clock_file_ns(void);
/* RFC 3339 with milliseconds and zone: 2026-01-31T09:08:07.123+01:00. */
void clock_rfc3339(char out[40], int64_t wall_ms);
/* Local time as YYYYmmdd_HHMMSS, the name of a run folder. */
void clock_stamp(char out[20], int64_t wall_ms);
