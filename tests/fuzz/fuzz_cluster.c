/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of sbatch's options, and behind it what Slurm's commands say about the cluster, one after the other with a line
 * "%%" between them.
 */
#include "base/cleanup.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "fuzz.h"
#include "slurm/cluster.h"
#include "slurm/judge.h"
#include "slurm/sbatch_options.h"

static const struct sbatch_own own[] = {{"dry-run", 0, false}, {"stage", 'f', true}};

/* The text up to the next separator. */
static struct str part_cut(struct str *rest)
{
    const char *at = rest->len > 0 ? memmem(rest->at, rest->len, "\n%%\n", 4) : NULL;
    struct str part = {rest->at, at ? (size_t)(at - rest->at) : rest->len};
    rest->at += MIN(part.len + 4, rest->len);
    rest->len -= MIN(part.len + 4, rest->len);
    return part;
}

/* Options that are spelt out are read as what they are. */
static void check_words(const struct sbatch_words *words)
{
    struct sbatch_words again;
    struct env_list copy = {0};
    struct err err = {0};
    for (size_t i = 0; i < words->options.len; i++)
        env_list_add(&copy, xstrdup(words->options.at[i]));
    env_end(&copy);
    if (sbatch_words_read(NULL, (int)copy.len, copy.at, &again, &err) != 0)
        BUG("%s", err.text);
    ASSERT(again.options.len == words->options.len && again.n_read == (int)copy.len);
    for (size_t i = 0; i < copy.len; i++)
        ASSERT(strcmp(again.options.at[i], copy.at[i]) == 0);
    sbatch_words_release(&again);
    env_list_release(&copy);
}

static void check_judgement(const struct str texts[CLUSTER_TEXTS], struct env_list *options)
{
    struct cluster cluster;
    struct judgement found;
    struct env_list told = {0};
    cluster_read(texts, &cluster);
    cluster_judge(&cluster, options, &found);
    size_t n = options->len;
    cluster_complete(&cluster, options, &told);
    ASSERT(options->len <= n + 2 && told.len <= 1);
    n = options->len;
    cluster_complete(&cluster, options, &told); /* all is said now */
    ASSERT(options->len == n);
    env_list_release(&told);
    judgement_release(&found);
    cluster_release(&cluster);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str rest = {size ? (const char *)data : "", size}, texts[CLUSTER_TEXTS];
    struct str first = part_cut(&rest);
    cleanup_free char *line = xstrndup(first.at, first.len);
    struct env_list typed = {0};
    struct sbatch_words words;
    const struct sbatch_beside beside = {.own = own, .n_own = countof(own)};
    for (size_t i = 0; i < countof(texts); i++)
        texts[i] = part_cut(&rest);
    if (shell_words(line, &typed, NULL) == 0) {
        env_end(&typed);
        if (sbatch_words_read(&beside, (int)typed.len, typed.at, &words, NULL) == 0) {
            ASSERT(words.n_read <= (int)typed.len);
            check_words(&words);
            check_judgement(texts, &words.options);
            sbatch_words_release(&words);
        }
    }
    env_list_release(&typed);
    return 0;
}
