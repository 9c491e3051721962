/* SPDX-License-Identifier: Apache-2.0
 *
 * What `muster sim` is told: distributions, shares, and files of times. What is accepted lies within
 * the limits that the simulator counts on, and so does whatever is drawn from it.
 *
 *   1 byte   which: the text of a time, of a share, a file of times      then the text
 */
#include <math.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "cli/sim_args.h"
#include "fuzz.h"

static void check_draws(const struct dist *dist)
{
    for (uint64_t item = 0; item < 50; item++) {
        uint64_t us = dist_us(dist, item / 5, item);
        ASSERT(us <= DIST_MAX_S * UINT64_C(1000000));
        ASSERT(us == dist_us(dist, item / 5, item));
    }
}

static void check_time(struct str text)
{
    struct dist dist = {0};
    struct err err = {0};
    if (text.len > 0 && text.at[0] == '@') /* any file of this machine */
        return;
    int rc = dist_parse(text, &dist, &err);
    if (rc) {
        ASSERT(rc == ERR_USAGE && err.text[0]);
        return;
    }
    ASSERT(dist.mean_ms >= 0 && dist.mean_ms <= DIST_MAX_S * 1e3 && isfinite(dist.spread));
    ASSERT(dist.kind != DIST_UNIFORM || (dist.spread >= 0 && dist.spread <= 1));
    ASSERT(dist.kind != DIST_PARETO || dist.spread > 1);
    ASSERT(dist.kind != DIST_CONSTANT || dist_us(&dist, 1, 1) == (uint64_t)(dist.mean_ms * 1000));
    check_draws(&dist);
}

static void check_share(struct str text)
{
    double share = -1;
    struct err err = {0};
    int rc = share_parse(text, &share, &err);
    ASSERT(rc ? rc == ERR_USAGE && err.text[0] : share >= 0 && share <= 1);
}

static size_t filled_lines(struct str rest)
{
    size_t n = 0;
    for (struct str line; rest.len > 0 && str_next(&rest, '\n', &line);)
        n += str_trim(line).len > 0;
    return n;
}

static void check_file(struct str content)
{
    struct dist dist = {0};
    struct err err = {0};
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "@%s", fuzz_file("times", content));
    int rc = dist_parse(buf_str(&text), &dist, &err);
    if (rc) {
        ASSERT(rc == ERR_DATA && strstr(err.text, buf_text(&text) + 1));
        return;
    }
    ASSERT(dist.kind == DIST_LIST && dist.n_list == filled_lines(content) && dist.n_list > 0);
    for (size_t i = 0; i < dist.n_list; i++)
        ASSERT(dist.list_ms[i] >= 0 && dist.list_ms[i] <= DIST_MAX_S * 1e3);
    check_draws(&dist);
    free((void *)(uintptr_t)dist.list_ms);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    static void (*const checks[])(struct str text) = {check_time, check_share, check_file};
    struct str text = {(const char *)data, size};
    unsigned choice = fuzz_choice(&text);
    checks[choice % countof(checks)](text);
    return 0;
}
