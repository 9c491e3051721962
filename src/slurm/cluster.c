/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/cluster.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include "base/parse.h"
#include "base/xalloc.h"
#include "slurm/sbatch_request.h"

enum {
    PARTITIONS_MAX = 4096,
    KINDS_MAX = 1 << 17,
    COUNT_MAX = 1 << 28
};

void cluster_words(enum cluster_text text, struct env_list *out)
{
    /*
     * With --exact, sinfo never puts two different nodes into one line. The last field of a line may contain the
     * separator.
     */
    static const char *const words[CLUSTER_TEXTS][8] = {
        [CLUSTER_CONFIG] = {"scontrol", "show", "config", NULL},
        [CLUSTER_PARTITIONS] = {"scontrol", "--all", "--oneliner", "show", "partition", NULL},
        [CLUSTER_NODES] = {"sinfo", "--all", "--noheader", "--exact", "--format=%R|%D|%c|%m|%T|%G",
                           NULL},
    };
    env_list_add_words(out, words[text]);
}

/* ---- lines ---- */

static bool text_is(struct str text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

/* Reads a count or "UNLIMITED"; 0 for any other text. */
static uint64_t limit_parse(struct str text)
{
    uint64_t count = 0;
    if (text_is(text, "UNLIMITED") || text_is(text, "INFINITE"))
        return UINT64_MAX;
    return u64_parse(text, 0, COUNT_MAX, &count, NULL) == 0 ? count : 0;
}

/* Reads a count. sinfo adds "+" to it where some nodes have more. */
static uint64_t least_parse(struct str text)
{
    uint64_t count = 0;
    if (str_ends_with(text, STR("+")))
        text.len--;
    return u64_parse(text, 0, COUNT_MAX, &count, NULL) == 0 ? count : 0;
}

static void config_read(struct str text, struct cluster *out)
{
    struct str line, name;
    while (text.len > 0 && str_next(&text, '\n', &line)) {
        if (!line.at || !str_next(&line, '=', &name))
            continue;
        name = str_trim(name);
        line = str_trim(line);
        if (text_is(name, "MaxArraySize"))
            out->array_max = limit_parse(line);
        else if (text_is(name, "JobSubmitPlugins"))
            out->may_change_jobs = line.len > 0 && !text_is(line, "(null)");
    }
}

static void partition_field(struct str word, struct cluster_partition *out)
{
    struct str name;
    if (!str_next(&word, '=', &name))
        return;
    if (text_is(name, "PartitionName"))
        out->name = word;
    else if (text_is(name, "State"))
        out->state = word;
    else if (text_is(name, "Default"))
        out->is_default = text_is(word, "YES");
    else if (text_is(name, "OverSubscribe"))
        out->is_exclusive = text_is(word, "EXCLUSIVE");
    else if (text_is(name, "MaxTime"))
        out->time_max_s = slurm_seconds(word);
    else if (text_is(name, "MaxNodes"))
        out->nodes_max = limit_parse(word);
    else if (text_is(name, "AllowAccounts"))
        out->accounts = word;
    else if (text_is(name, "DenyAccounts"))
        out->accounts_denied = word;
}

static void partitions_read(struct str text, struct cluster *out)
{
    struct str line, word;
    size_t cap = 0;
    while (text.len > 0 && out->n_partitions < PARTITIONS_MAX && str_next(&text, '\n', &line)) {
        struct cluster_partition partition = {.name = STR("")};
        while (line.len > 0 && str_next(&line, ' ', &word))
            if (word.len > 0)
                partition_field(word, &partition);
        if (partition.name.len == 0)
            continue;
        if (out->n_partitions == cap) {
            cap = cap * 2 + 8;
            out->partitions = xrealloc(out->partitions, cap * sizeof(*out->partitions));
        }
        out->partitions[out->n_partitions++] = partition;
    }
}

/* `state` is for example "idle", "down*", "drained$" or "mixed". */
static bool state_is_up(struct str state)
{
    static const char *const lost[] = {"down", "drain", "fail", "inval", "unknown", "future"};
    for (size_t i = 0; i < countof(lost); i++)
        if (state.len >= strlen(lost[i]) && strncasecmp(state.at, lost[i], strlen(lost[i])) == 0)
            return false;
    return true;
}

static bool kind_read(struct str line, struct cluster_kind *out)
{
    struct str field[5];
    for (size_t i = 0; i < countof(field); i++)
        if (line.len == 0 || !str_next(&line, '|', &field[i]))
            return false;
    *out = (struct cluster_kind){.partition = field[0],
                                 .n_nodes = least_parse(field[1]),
                                 .n_cpus = least_parse(field[2]),
                                 .mib = least_parse(field[3]),
                                 .is_up = state_is_up(field[4]),
                                 .gres = str_trim(line)};
    return out->partition.len > 0 && out->n_nodes > 0;
}

static void kinds_read(struct str text, struct cluster *out)
{
    struct str line;
    size_t cap = 0;
    while (text.len > 0 && out->n_kinds < KINDS_MAX && str_next(&text, '\n', &line)) {
        struct cluster_kind kind;
        if (!kind_read(line, &kind))
            continue;
        if (out->n_kinds == cap) {
            cap = cap * 2 + 16;
            out->kinds = xrealloc(out->kinds, cap * sizeof(*out->kinds));
        }
        out->kinds[out->n_kinds++] = kind;
    }
}

void cluster_read(const struct str texts[CLUSTER_TEXTS], struct cluster *out)
{
    *out = (struct cluster){0};
    config_read(texts[CLUSTER_CONFIG], out);
    partitions_read(texts[CLUSTER_PARTITIONS], out);
    kinds_read(texts[CLUSTER_NODES], out);
}

void cluster_release(struct cluster *cluster)
{
    free(cluster->partitions);
    free(cluster->kinds);
    *cluster = (struct cluster){0};
}

/* ---- questions ---- */

const struct cluster_partition *cluster_partition_find(const struct cluster *cluster,
                                                       struct str name)
{
    for (size_t i = 0; i < cluster->n_partitions; i++)
        if (str_equal(cluster->partitions[i].name, name))
            return &cluster->partitions[i];
    return NULL;
}

uint64_t cluster_kind_gpus(const struct cluster_kind *kind, struct str type)
{
    struct str list = kind->gres, found;
    uint64_t n = 0, count;
    while (slurm_gres_next(&list, STR("gpu"), &found, &count))
        if (type.len == 0 ||
            (found.len == type.len && strncasecmp(found.at, type.at, type.len) == 0))
            n += count;
    return n;
}
