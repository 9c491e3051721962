/* SPDX-License-Identifier: Apache-2.0 */
#include "rule/names.h"

#include <fnmatch.h>

enum {
    NAME_BYTES_MAX = 200 /* no name of a count is longer */
};

static const char *const counts[] = {
    "num_questions",
    "num_samples",
    "num_items",
    "num_records",
    "num_examples",
    "num_results",
    "num_correct",
    "num_errors",
    "num_failed",
    "n_correct",
    "n_samples",
    "n_items",
    "n_total",
    "correct",
    "incorrect",
    "total",
    "count",
    "seen",
    "errors",
    "failed",
    "skipped",
    "true_positive",
    "true_negative",
    "false_positive",
    "false_negative",
    "tp",
    "tn",
    "fp",
    "fn",
    "*_count",
    "*_total",
    "total_*",
    "*_samples",
};

const char *const record_count_names[] = {
    "num_questions", "num_samples", "num_items", "num_records", "num_examples", "num_results", NULL,
};

uint64_t record_count_said(bool (*count_of)(const void *object, struct str name, uint64_t *count),
                           const void *object)
{
    uint64_t count;
    for (const char *const *name = record_count_names; *name; name++)
        if (count_of(object, str_of(*name), &count))
            return count;
    return UINT64_MAX;
}

/* Names such as max_samples are settings, not counts. */
static const char *const settings[] = {"max_*", "min_*"};

static bool fits_one(const char *name, const char *const *patterns, size_t n_patterns)
{
    for (size_t i = 0; i < n_patterns; i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

bool is_count_name(const char *name)
{
    return fits_one(name, counts, countof(counts)) && !fits_one(name, settings, countof(settings));
}

struct str counted_by(struct str name)
{
    static const char *const prefixes[] = {"num_", "n_"};
    char text[NAME_BYTES_MAX + 1];
    for (size_t i = 0; i < countof(prefixes) && name.len < sizeof(text); i++) {
        size_t len = strlen(prefixes[i]);
        if (!str_starts_with(name, str_of(prefixes[i])))
            continue;
        memcpy(text, name.at, name.len);
        text[name.len] = '\0';
        return is_count_name(text) ? (struct str){name.at + len, name.len - len}
                                   : (struct str){NULL, 0};
    }
    return (struct str){NULL, 0};
}

bool is_settings_name(struct str name)
{
    static const char *const names[] = {
        "args",    "arguments", "config",     "configuration",     "params",
        "options", "settings",  "parameters", "generation_config", "sampling_params",
    };
    for (size_t i = 0; i < countof(names); i++)
        if (str_equal(name, str_of(names[i])))
            return true;
    return false;
}

struct str share_stem(struct str name)
{
    static const char *const suffixes[] = {"_gpu_",  "_cpu_",  "_shard_",
                                           "_part_", "_rank_", "_worker_"};
    struct str stem = name;
    if (str_ends_with(name, STR("_merged")))
        return (struct str){name.at, name.len - strlen("_merged")};
    while (stem.len > 0 && stem.at[stem.len - 1] >= '0' && stem.at[stem.len - 1] <= '9')
        stem.len--;
    for (size_t i = 0; stem.len < name.len && i < countof(suffixes); i++)
        if (str_ends_with(stem, str_of(suffixes[i])))
            return (struct str){stem.at, stem.len - strlen(suffixes[i])};
    return name;
}

void merged_name_add(struct str stem, struct buf *out)
{
    buf_add_str(out, stem);
    buf_add_text(out, "_merged");
}
