/* SPDX-License-Identifier: Apache-2.0 */
#include "map/run_opts.h"

#include "base/parse.h"

const struct choice map_visible_names[] = {{"index", VISIBLE_INDEX}, {"uuid", VISIBLE_UUID}, {0}};

/* The struct around failures_max: failures_percent is set as well. */
static struct schedule *schedule_of(const void *failures_max)
{
    return (struct schedule *)((uintptr_t)failures_max - offsetof(struct schedule, failures_max));
}

int map_failures_store(struct str text, void *field, struct err *err)
{
    struct schedule *schedule = schedule_of(field);
    uint64_t value = 0;
    bool percent = text.len > 1 && text.at[text.len - 1] == '%';
    int rc = u64_parse((struct str){text.at, text.len - percent}, 1, percent ? 100 : UINT32_MAX,
                       &value, err);
    schedule->failures_max = percent ? 0 : value;
    schedule->failures_percent = percent ? (uint32_t)value : 0;
    return rc;
}

bool map_failures_text(const void *field, struct buf *out)
{
    const struct schedule *schedule = schedule_of(field);
    if (schedule->failures_percent > 0)
        buf_addf(out, "%u%%", schedule->failures_percent);
    else
        buf_addf(out, "%lu", schedule->failures_max);
    return schedule->failures_percent > 0 || schedule->failures_max > 0;
}

int map_log_level_store(struct str text, void *field, struct err *err)
{
    return log_level_parse(text, field, err);
}

bool map_log_level_text(const void *field, struct buf *out)
{
    buf_add_text(out, log_level_name(*(const enum log_level *)field));
    return true;
}
