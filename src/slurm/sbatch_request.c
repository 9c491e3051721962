/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/sbatch_request.h"

#include <ctype.h>
#include <strings.h>

#include "base/parse.h"
#include "slurm/sbatch_options.h"

enum {
    MINUTE_S = 60,
    HOUR_S = 3600,
    DAY_S = 86400,
    COUNT_MAX = 1 << 24 /* the highest number that counts as valid */
};

static bool count_parse(struct str text, uint64_t *out)
{
    return u64_parse(text, 0, COUNT_MAX, out, NULL) == 0;
}

static bool text_is(struct str text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

/* ---- one value ---- */

/* Reads at most three numbers with colons between them, and returns how many; 0 for any other text. */
static size_t clock_parse(struct str text, uint64_t out[3])
{
    size_t n = 0;
    struct str piece;
    while (str_next(&text, ':', &piece)) {
        if (n == 3 || !count_parse(piece, &out[n]))
            return 0;
        n++;
    }
    return n;
}

uint64_t slurm_seconds(struct str text)
{
    uint64_t part[3] = {0}, n_days = 0;
    if (text_is(text, "UNLIMITED") || text_is(text, "INFINITE") || text_is(text, "-1"))
        return UINT64_MAX;
    const char *dash = text.len > 0 ? memchr(text.at, '-', text.len) : NULL;
    if (dash) {
        size_t len = (size_t)(dash - text.at);
        if (!count_parse((struct str){text.at, len}, &n_days))
            return 0;
        text = (struct str){dash + 1, text.len - len - 1};
        return clock_parse(text, part) == 0
                   ? 0
                   : n_days * DAY_S + part[0] * HOUR_S + part[1] * MINUTE_S + part[2];
    }
    switch (clock_parse(text, part)) {
    case 1:
        return part[0] == 0 ? UINT64_MAX : part[0] * MINUTE_S; /* 0 means no limit to sbatch */
    case 2:
        return part[0] * MINUTE_S + part[1];
    case 3:
        return part[0] * HOUR_S + part[1] * MINUTE_S + part[2];
    default:
        return 0;
    }
}

uint64_t slurm_mib(struct str text)
{
    static const char units[] = "KMGTP";
    uint64_t count;
    size_t unit = 1;
    if (text.len > 1 && (text.at[text.len - 1] == 'B' || text.at[text.len - 1] == 'b'))
        text.len--;
    const char *found =
        text.len > 0 ? strchr(units, toupper((unsigned char)text.at[text.len - 1])) : NULL;
    if (found && *found) {
        unit = (size_t)(found - units);
        text.len--;
    }
    if (u64_parse(text, 1, UINT32_MAX, &count, NULL) != 0)
        return 0;
    return unit == 0 ? (count + 1023) / 1024 : count << 10 * (unit - 1);
}

/* Cuts off the piece before the next comma that is not inside "(S:0,1)". */
static bool entry_next(struct str *list, struct str *entry)
{
    size_t len = 0, depth = 0;
    if (list->len == 0)
        return false;
    for (; len < list->len && (depth > 0 || list->at[len] != ','); len++)
        depth += (size_t)(list->at[len] == '(') - (size_t)(list->at[len] == ')' && depth > 0);
    *entry = (struct str){list->at, len};
    list->at += MIN(len + 1, list->len);
    list->len -= MIN(len + 1, list->len);
    const char *open = len > 0 ? memchr(entry->at, '(', len) : NULL;
    entry->len = open ? (size_t)(open - entry->at) : len;
    return true;
}

/* Reads "h200:8", "8", "h200" or "". */
static void typed_count(struct str text, struct str *type, uint64_t *count)
{
    const char *colon = text.len > 0 ? memrchr(text.at, ':', text.len) : NULL;
    struct str last =
        colon ? (struct str){colon + 1, text.len - (size_t)(colon + 1 - text.at)} : text;
    *type = (struct str){text.at, colon ? (size_t)(colon - text.at) : 0};
    if (count_parse(last, count))
        return;
    *count = 1;
    *type = text;
}

/*
 * Cuts `name` and the separator after it off an entry. Returns false if the entry has another name, such as
 * "gpu_mem:1".
 */
static bool name_cut(struct str *entry, struct str name)
{
    if (str_starts_with(*entry, STR("gres/")) || str_starts_with(*entry, STR("gres:")))
        *entry = (struct str){entry->at + 5, entry->len - 5};
    if (!str_starts_with(*entry, name))
        return false;
    *entry = (struct str){entry->at + name.len, entry->len - name.len};
    if (entry->len == 0)
        return true;
    bool is_separator = entry->at[0] == ':' || entry->at[0] == '=';
    *entry = (struct str){entry->at + 1, entry->len - 1};
    return is_separator;
}

bool slurm_gres_next(struct str *list, struct str name, struct str *type, uint64_t *count)
{
    struct str entry;
    while (entry_next(list, &entry)) {
        entry = str_trim(entry);
        if (name.len > 0 && !name_cut(&entry, name))
            continue;
        typed_count(entry, type, count);
        return true;
    }
    return false;
}

/* ---- options ---- */

static struct str value_of(const struct env_list *options, const char *name)
{
    const char *value = sbatch_value(options, name);
    return str_of(value ? value : "");
}

static uint64_t count_of(const struct env_list *options, const char *name)
{
    uint64_t count = 0;
    return count_parse(value_of(options, name), &count) ? count : 0;
}

/* Reads --nodes: "2" or "2-4". */
static void nodes_read(struct str text, struct sbatch_request *out)
{
    struct str first, last;
    uint64_t low, high;
    if (!str_next(&text, '-', &first))
        return;
    last = text.len > 0 ? text : first;
    if (!count_parse(first, &low) || !count_parse(last, &high) || high < low)
        return;
    out->nodes_min = low;
    out->nodes_max = high;
}

/* Adds the tasks of one piece of --array: "3", "0-15" or "0-15:4". */
static bool indexes_add(struct str text, struct sbatch_request *out)
{
    struct str range, first, last;
    uint64_t low, high, step = 1;
    if (!str_next(&text, ':', &range) || (text.len > 0 && !count_parse(text, &step)) || step == 0)
        return false;
    if (!str_next(&range, '-', &first))
        return false;
    last = range.len > 0 ? range : first;
    if (!count_parse(first, &low) || !count_parse(last, &high) || high < low)
        return false;
    out->n_array += (high - low) / step + 1;
    out->array_last = MAX(out->array_last, high);
    return true;
}

/* Reads --array: "0-15,20%4". */
static void array_read(struct str text, struct sbatch_request *out)
{
    struct str indexes, piece;
    bool is_known = text.len > 0 && str_next(&text, '%', &indexes);
    while (is_known && str_next(&indexes, ',', &piece))
        is_known = indexes_add(piece, out);
    if (!is_known)
        out->n_array = out->array_last = 0;
}

static void gpus_read(const struct env_list *options, struct sbatch_request *out)
{
    static const struct {
        const char *option, *name;
        enum sbatch_gpus_per per;
    } rows[] = {
        {"gpus", "", SBATCH_PER_JOB},           {"gpus-per-node", "", SBATCH_PER_NODE},
        {"gres", "gpu", SBATCH_PER_NODE},       {"gpus-per-socket", "", SBATCH_PER_SOCKET},
        {"gpus-per-task", "", SBATCH_PER_TASK}, {"tres-per-task", "gpu", SBATCH_PER_TASK},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        struct str list = value_of(options, rows[i].option);
        struct sbatch_gpus gpus = {.option = rows[i].option, .per = rows[i].per};
        while (out->n_gpus < SBATCH_GPUS_MAX &&
               slurm_gres_next(&list, str_of(rows[i].name), &gpus.type, &gpus.count))
            out->gpus[out->n_gpus++] = gpus;
    }
}

void sbatch_request_read(const struct env_list *options, struct sbatch_request *out)
{
    *out = (struct sbatch_request){
        .n_tasks = count_of(options, "ntasks"),
        .tasks_per_node = count_of(options, "ntasks-per-node"),
        .cpus_per_task = count_of(options, "cpus-per-task"),
        .node_mib = slurm_mib(value_of(options, "mem")),
        .cpu_mib = slurm_mib(value_of(options, "mem-per-cpu")),
        .gpu_mib = slurm_mib(value_of(options, "mem-per-gpu")),
        .time_s = slurm_seconds(value_of(options, "time")),
    };
    nodes_read(value_of(options, "nodes"), out);
    array_read(value_of(options, "array"), out);
    gpus_read(options, out);
}
