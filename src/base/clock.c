/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000u;
}

int64_t clock_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_file_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void clock_rfc3339(char out[40], int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm local;
    char date[24], zone[8];
    localtime_r(&seconds, &local);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &local);
    strftime(zone, sizeof(zone), "%z", &local);
    snprintf(out, 40, "%s.%03d%.3s:%.2s", date, (int)(wall_ms % 1000), zone, zone + 3);
}

void clock_stamp(char out[20], int64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm local;
    localtime_r(&seconds, &local);
    strftime(out, 20, "%Y%m%d_%H%M%S", &local);
}
