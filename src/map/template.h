/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts with placeholders: the command of a shard, and --collect. Pure.
 *
 *   {start}    a placeholder, where the word is one
 *   {{start}}  becomes "{start}"; the same for any word
 *   ${start}   left alone: a shell's variable
 *   {print}, {print $1}, {"a":{"b":1}}   left alone: not a placeholder
 *   {strat}    refused: not a placeholder, but so similar to one that it is taken for a mistake
 *
 * A word: a letter or _, then letters, digits and _.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* name, whether it alone makes a command a shard command, whether it differs from shard to shard */
#define PLACEHOLDERS(X)           \
    X(START, "start", 1, 1)       \
    X(COUNT, "count", 1, 0)       \
    X(END, "end", 1, 1)           \
    X(SHARD, "shard", 1, 1)       \
    X(INPUT, "input", 1, 1)       \
    X(OUTPUT, "output", 1, 1)     \
    X(SHARDS, "shards", 0, 0)     \
    X(GPU, "gpu", 0, 0)           \
    X(GPU_UUID, "gpu_uuid", 0, 0) \
    X(SEED, "seed", 0, 1)         \
    X(SUFFIX, "suffix", 0, 1)     \
    X(BATCH, "batch", 0, 0)       \
    X(DEVICES, "devices", 0, 0)   \
    X(RUN, "run", 0, 0)           \
    X(RUN_DIR, "run_dir", 0, 0)   \
    X(ATTEMPT, "attempt", 0, 1)

enum placeholder {
#define X(id, name, makes_shard, differs) PLACE_##id,
    PLACEHOLDERS(X)
#undef X
    PLACEHOLDERS_COUNT
};

/* The value of each placeholder. */
struct template_values {
    struct str of[PLACEHOLDERS_COUNT];
};

/* The placeholders in a text, as bits 1 << enum placeholder. */
uint32_t template_uses(struct str text);
/* The placeholders in all words of a list that ends with NULL; NULL is an empty list. */
uint32_t template_uses_all(const char *const *words);
/* The name of a placeholder that makes the command a shard command; NULL: there is none. */
const char *template_shard_word(uint32_t uses);
/* True if one of them has another value for each shard. */
bool template_tells_apart(uint32_t uses);
/* ERR_USAGE with a "did you mean" for a word in braces that is nearly a placeholder. */
MUST_CHECK int template_check(struct str text, struct err *err);
void template_fill(struct str text, const struct template_values *values, struct buf *out);
/* The same as a pattern for glob(); special characters in the values are escaped. */
void template_fill_glob(struct str text, const struct template_values *values, struct buf *out);
/* The text with all braces single, whether they hold a placeholder or are doubled to stand for themselves. */
void template_bare(struct str text, struct buf *out);
