/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/graph_arg.h"

#include "base/parse.h"
#include "core/dag.h"

enum {
    PRIORITY_STEP = 10
};

void job_options_default(struct job_options *options)
{
    *options = (struct job_options){.n_devices = 1};
}

int job_devices_make(const struct job_options *options, struct plan_devices *out, struct err *err)
{
    bool is_part = options->share_percent > 0 && options->share_percent < 100;
    if (options->n_devices == 0 && (is_part || options->mem_bytes > 0))
        return fail(err, ERR_USAGE, "--share and --memory are of devices, and --gpus-per-job is 0");
    *out = (struct plan_devices){.n_min = (uint32_t)options->n_devices,
                                 .n_max = (uint32_t)options->n_devices,
                                 .share = is_part ? (uint32_t)options->share_percent * 10 : 0,
                                 .mem_bytes = options->mem_bytes};
    return 0;
}

bool priority_text(const void *field, struct buf *out)
{
    buf_addf(out, "%d", *(const int32_t *)field);
    return true;
}

int priority_store(struct str text, void *field, struct err *err)
{
    static const struct {
        const char *name;
        int32_t value;
    } names[] = {{"low", -PRIORITY_STEP}, {"normal", 0}, {"high", PRIORITY_STEP}};
    int32_t *out = field;
    bool is_negative = str_starts_with(text, STR("-"));
    struct str digits = {text.at + is_negative, text.len - is_negative};
    uint64_t number = 0;
    for (size_t i = 0; i < countof(names); i++)
        if (str_equal(text, str_of(names[i].name))) {
            *out = names[i].value;
            return 0;
        }
    if (u64_parse(digits, 0, DAG_PRIORITY_MAX, &number, NULL) != 0)
        return fail(err, ERR_USAGE, "'%.*s': expected -%d to %d, low, normal or high",
                    (int)text.len, text.at, DAG_PRIORITY_MAX, DAG_PRIORITY_MAX);
    *out = is_negative ? -(int32_t)number : (int32_t)number;
    return 0;
}
