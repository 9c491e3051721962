/* SPDX-License-Identifier: Apache-2.0 */
#include "data/file_merge/score.h"

#include <xxhash.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_identity.h"
#include "base/xalloc.h"
#include "data/file_merge/file_merge.h"
#include "data/file_merge/score_impl.h"

int score_fields_parse(struct str text, struct score_opts *out, struct err *err)
{
    struct str rest = text;
    bool has_both = str_next(&rest, '=', &out->true_field) && out->true_field.len > 0 && rest.at &&
                    rest.len > 0;
    out->predicted_field = rest;
    if (has_both)
        return 0;
    return fail(err, ERR_USAGE,
                "expected two fields as in true_label=predicted_label, found '%.*s'",
                (int)MIN(text.len, (size_t)60), text.at);
}

int score_opts_check(const struct score_opts *opts, struct err *err)
{
    bool has_others = opts->by_field || opts->positive || opts->ignored.len > 0 || opts->out_path;
    if (has_others && !opts->true_field.at)
        return fail(err, ERR_USAGE,
                    "--by, --positive, --ignore and --score-out need --score TRUE=PREDICTED");
    if (opts->out_path && out_format_of_path(opts->out_path) == OUT_LINES)
        return fail(err, ERR_USAGE,
                    "--score-out %s: the extension must be .json, .jsonl, .csv or .tsv",
                    opts->out_path);
    return 0;
}

/* ---- counting ---- */

struct score *score_new(const struct score_opts *opts)
{
    struct score *score = xcalloc(1, sizeof(*score));
    score->opts = *opts;
    score->fields[SCORE_TRUE] = opts->true_field;
    score->fields[SCORE_PREDICTED] = opts->predicted_field;
    score->fields[SCORE_BY] = str_of(opts->by_field);
    score->n_slots = 64;
    score->cells = xcalloc(score->n_slots, sizeof(*score->cells));
    score->is_true = xcalloc(SCORE_NAMES_MAX, sizeof(*score->is_true));
    return score;
}

void score_free(struct score *score)
{
    if (!score)
        return;
    name_index_release(&score->labels);
    name_index_release(&score->groups);
    free(score->cells);
    free(score->is_true);
    buf_release(&score->text);
    free(score->positive);
    free(score);
}

static struct score_cell *cell_find(struct score_cell *cells, size_t n_slots,
                                    const struct score_cell *like)
{
    const uint32_t key[] = {like->group, like->is, like->said};
    size_t i = XXH3_64bits(key, sizeof(key)) & (n_slots - 1);
    while (cells[i].count > 0 && (cells[i].group != like->group || cells[i].is != like->is ||
                                  cells[i].said != like->said))
        i = (i + 1) & (n_slots - 1);
    return &cells[i];
}

static void cells_grow(struct score *score)
{
    size_t n_slots = score->n_slots * 2;
    struct score_cell *cells = xcalloc(n_slots, sizeof(*cells));
    for (size_t i = 0; i < score->n_slots; i++)
        if (score->cells[i].count > 0)
            *cell_find(cells, n_slots, &score->cells[i]) = score->cells[i];
    free(score->cells);
    score->cells = cells;
    score->n_slots = n_slots;
}

static void cell_count(struct score *score, struct score_cell like)
{
    struct score_cell *cell = cell_find(score->cells, score->n_slots, &like);
    if (cell->count == 0) {
        *cell = like;
        score->n_cells++;
    }
    cell->count++;
    if (score->n_cells * 2 > score->n_slots)
        cells_grow(score);
}

/* A value as text, valid until the next call. Equal numbers have one text (1.0 is 1); null is an
 * empty text. White space is part of a label, as it is for scikit-learn. */
static struct str value_text(struct score *score, struct str value)
{
    buf_reset(&score->text);
    if (json_kind_of(value) == JSON_STRING)
        (void)json_to_text(value, &score->text);
    else if (json_kind_of(value) != JSON_NULL)
        buf_add_json_identity(&score->text, value);
    return buf_str(&score->text);
}

/* True if `option` is another spelling of the number in `text`, as 1.0 and 1e0 are of 1. */
static bool is_number_named(const char *option, struct str text)
{
    cleanup_buf struct buf number = BUF_INIT;
    return buf_add_number_identity(&number, str_of(option)) && str_equal(buf_str(&number), text);
}

static bool is_ignored(struct score *score, struct str value)
{
    const struct texts *ignored = &score->opts.ignored;
    struct str text = ignored->len > 0 ? value_text(score, value) : (struct str){NULL, 0};
    for (size_t i = 0; i < ignored->len; i++)
        if (str_equal(text, str_of(ignored->at[i])) ||
            (json_kind_of(value) == JSON_NUMBER && is_number_named(ignored->at[i], text)))
            return true;
    return false;
}

static int value_number(struct score *score, enum score_field field, struct str value,
                        uint32_t *out, struct err *err)
{
    struct name_index *names = field == SCORE_BY ? &score->groups : &score->labels;
    struct str name = score->fields[field];
    size_t number = name_index_number(names, value_text(score, value));
    if (number >= SCORE_NAMES_MAX)
        return fail(err, ERR_DATA, "'%.*s' has more than %d values; is it a label?", (int)name.len,
                    name.at, SCORE_NAMES_MAX);
    *out = (uint32_t)number;
    return 0;
}

/* Finds the members that are scored; at == NULL where there is none. */
static void values_find(const struct score *score, struct str object,
                        struct str values[N_SCORE_FIELDS])
{
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value))
        for (size_t i = 0; i < N_SCORE_FIELDS; i++)
            if (!values[i].at && json_key_equal(key, score->fields[i]))
                values[i] = value;
}

int score_add(struct score *score, struct str object, struct err *err)
{
    struct str values[N_SCORE_FIELDS] = {0};
    uint32_t numbers[N_SCORE_FIELDS] = {0};
    values_find(score, object, values);
    for (enum score_field i = 0; i < N_SCORE_FIELDS; i++) {
        struct str name = score->fields[i];
        if (name.at && !values[i].at)
            return fail(err, ERR_DATA, "it has no '%.*s' to be scored by", (int)name.len, name.at);
    }
    if (is_ignored(score, values[SCORE_TRUE]) || is_ignored(score, values[SCORE_PREDICTED])) {
        score->n_ignored++;
        return 0;
    }
    for (enum score_field i = 0; i < N_SCORE_FIELDS; i++) {
        int rc = score->fields[i].at ? value_number(score, i, values[i], &numbers[i], err) : 0;
        if (rc)
            return rc;
    }
    struct score_cell like = {
        .group = numbers[SCORE_BY], .is = numbers[SCORE_TRUE], .said = numbers[SCORE_PREDICTED]};
    score->n_records++;
    if (name_index_get(&score->labels, like.is).len == 0) {
        score->n_unlabelled++;
        return 0;
    }
    score->is_true[like.is]++;
    cell_count(score, like);
    return 0;
}

/*
 * Finds the true label that --positive names. A label that is spelled like the option goes before
 * one of equal value.
 */
static bool positive_find(struct score *score)
{
    bool is_found = false;
    for (size_t i = 0; i < score->labels.len && !is_found; i++)
        is_found = score->is_true[i] > 0 &&
                   str_equal(name_index_get(&score->labels, i), str_of(score->opts.positive));
    for (size_t i = 0; i < score->labels.len && !is_found; i++) {
        struct str label = name_index_get(&score->labels, i);
        is_found = score->is_true[i] > 0 && is_number_named(score->opts.positive, label);
        if (is_found)
            score->opts.positive = score->positive = xstrndup(label.at, label.len);
    }
    return is_found;
}

int score_check(struct score *score, struct err *err)
{
    if (score->n_records == score->n_unlabelled && score->n_ignored > 0)
        return fail(
            err, ERR_DATA,
            "no record is left to score: --ignore and missing true labels leave out all %lu",
            score->n_ignored + score->n_unlabelled);
    if (score->n_records == score->n_unlabelled)
        return fail(err, ERR_DATA, "no record has a '%.*s', so there is nothing to score",
                    (int)score->opts.true_field.len, score->opts.true_field.at);
    return score->opts.positive && !positive_find(score)
               ? fail(err, ERR_DATA, "--positive: no record has '%s' as its true label",
                      score->opts.positive)
               : 0;
}

static int look_take(void *context, struct str object, struct err *err)
{
    return score_add(context, object, err);
}

static int look_end(void *context, struct err *err)
{
    return score_check(context, err);
}

int score_file(const struct score_opts *opts, const char *path, struct score **score_out,
               struct err *err)
{
    struct score *score = score_new(opts);
    struct file_merge_stats stats = {0};
    const struct file_merge_opts look = {
        .expect = UINT64_MAX, .look = look_take, .look_end = look_end, .look_context = score};
    int rc = file_merge_check(&look, &path, 1, "-", &stats, err);
    if (rc)
        score_free(steal_ptr(&score));
    *score_out = score;
    return rc;
}
