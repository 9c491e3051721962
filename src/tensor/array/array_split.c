/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/array/array_split.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/share.h"
#include "base/xalloc.h"
#include "tensor/array/array_merge.h"

struct array_split {
    struct array_split_opts opts;
    struct array_set set;
    struct array_plan all; /* all arrays, in the order of the output */
    struct array_part *parts;
    size_t n_parts, cap;
    uint64_t n_records;
};

static void part_add(struct array_split *split, uint64_t n_records)
{
    const struct array_part *last = split->n_parts ? &split->parts[split->n_parts - 1] : NULL;
    uint64_t first = last ? last->first + last->n_records : 0;
    if (split->n_parts == split->cap) {
        split->cap = MAX(split->cap * 2, (size_t)16);
        split->parts = xrealloc(split->parts, split->cap * sizeof(*split->parts));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    split->parts[split->n_parts++] = (struct array_part){first, n_records};
}

static int too_many(struct err *err)
{
    return fail(err, ERR_USAGE, "that would make more than %d parts", ARRAY_PARTS_MAX);
}

static int by_count(struct array_split *split, struct err *err)
{
    uint64_t n = split->n_records, most = split->opts.records_max;
    if (n / most >= ARRAY_PARTS_MAX)
        return too_many(err);
    for (uint64_t first = 0; first < n; first += MIN(most, n - first))
        part_add(split, MIN(most, n - first));
    return 0;
}

/* ---- by rows ---- */

/* Finds the number of rows, which must be the same for all arrays with a dimension. */
static int rows_count(struct array_split *split, struct err *err)
{
    const struct array *first = NULL;
    for (size_t i = 0; i < split->all.len; i++) {
        const struct array *array = split->all.at[i].like;
        if (array->n_dims == 0)
            continue;
        if (!first)
            first = array;
        if (array->shape[0] != first->shape[0])
            return fail(err, ERR_DATA,
                        "'%.*s' has %lu rows and '%.*s' %lu, so they cannot be cut along them%s",
                        (int)MIN(first->name.len, (size_t)100), first->name.at, first->shape[0],
                        (int)MIN(array->name.len, (size_t)100), array->name.at, array->shape[0],
                        split->set.kind == TENSOR_SAFETENSORS
                            ? "; without --rows whole tensors go into the parts"
                            : "");
    }
    for (size_t i = 0; i < split->all.len && first && first->shape[0] > 0; i++) {
        const struct array *array = split->all.at[i].like;
        if (array->n_dims > 0 && (array->bytes % first->shape[0] != 0 ||
                                  (array->element_bits == 0 && array->npy_version == 0)))
            return fail(err, ERR_DATA, "a row of '%.*s' is not known to be whole bytes (%.*s)",
                        (int)MIN(array->name.len, (size_t)100), array->name.at,
                        (int)MIN(array->dtype.len, (size_t)40), array->dtype.at);
    }
    if (!first)
        return fail(err, ERR_DATA, "there is no array with a dimension along which to cut");
    split->n_records = first->shape[0];
    return 0;
}

/*
 * Bytes that are not rows (heads, arrays without a dimension) are counted as those of the whole
 * file, because a part does not have more of them.
 */
static int rows_by_bytes(struct array_split *split, struct err *err)
{
    uint64_t n_bytes, row_bytes = 0, rest;
    for (size_t i = 0; i < split->all.len; i++)
        if (split->all.at[i].like->n_dims > 0)
            row_bytes += array_row_bytes(split->all.at[i].like);
    int rc = array_write(&split->all, NULL, &n_bytes, err);
    if (rc)
        return rc;
    rest = n_bytes - row_bytes * split->n_records;
    uint64_t room = split->opts.bytes_max - MIN(split->opts.bytes_max, rest);
    split->opts.records_max = row_bytes > 0 ? MAX(room / row_bytes, 1) : UINT64_MAX;
    return by_count(split, err);
}

static int rows_plan(struct array_split *split, struct err *err)
{
    int rc = rows_count(split, err);
    if (rc || split->opts.records_max)
        return rc ? rc : by_count(split, err);
    if (split->opts.bytes_max)
        return rows_by_bytes(split, err);
    for (uint64_t i = 0; i < split->opts.n_parts; i++)
        part_add(split, share_of(split->n_records, split->opts.n_parts, i).count);
    return 0;
}

/* ---- by names ---- */

/* The number of parts if none may be larger than bytes_max, except a part of a single tensor. */
static uint64_t parts_needed(const struct array_plan *all, uint64_t bytes_max)
{
    uint64_t n_parts = 1, filled = 0;
    for (size_t i = 0; i < all->len; i++) {
        if (filled > 0 && all->at[i].bytes > bytes_max - MIN(bytes_max, filled)) {
            n_parts++;
            filled = 0;
        }
        filled += all->at[i].bytes;
    }
    return n_parts;
}

/* The smallest possible size of the largest part. */
static uint64_t balanced_bytes(const struct array_plan *all, uint64_t n_parts)
{
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < all->len; i++) {
        low = MAX(low, all->at[i].bytes);
        high += all->at[i].bytes;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (parts_needed(all, middle) <= n_parts)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Leaves no part without a tensor, unless there are fewer tensors than parts. */
static void names_balanced(struct array_split *split)
{
    const struct array_plan *all = &split->all;
    uint64_t bytes_max = balanced_bytes(all, split->opts.n_parts), filled = 0;
    size_t first = 0;
    for (size_t i = 0; i < all->len; i++) {
        uint64_t parts_left = split->opts.n_parts - split->n_parts - 1; /* parts after this one */
        bool is_full = all->at[i].bytes > bytes_max - MIN(bytes_max, filled);
        bool is_needed = all->len - i <= parts_left;
        if (i > first && parts_left > 0 && (is_full || is_needed)) {
            part_add(split, i - first);
            first = i;
            filled = 0;
        }
        filled += all->at[i].bytes;
    }
    part_add(split, all->len - first);
    while (split->n_parts < split->opts.n_parts)
        part_add(split, 0);
}

static int names_by_bytes(struct array_split *split, struct err *err)
{
    const struct array_plan *all = &split->all;
    size_t first = 0;
    uint64_t head = array_head_bytes(all), filled = head, data = 0;
    for (size_t i = 0; i < all->len; i++) {
        uint64_t more = array_head_more(&all->at[i], data) + all->at[i].bytes;
        if (i > first && more > split->opts.bytes_max - MIN(split->opts.bytes_max, filled)) {
            part_add(split, i - first);
            first = i;
            filled = head;
            data = 0;
            more = array_head_more(&all->at[i], data) + all->at[i].bytes;
        }
        if (split->n_parts == ARRAY_PARTS_MAX)
            return too_many(err);
        filled += more;
        data += all->at[i].bytes;
    }
    if (all->len > first)
        part_add(split, all->len - first);
    return 0;
}

static int names_plan(struct array_split *split, struct err *err)
{
    split->n_records = split->all.len;
    if (split->opts.records_max)
        return by_count(split, err);
    if (split->opts.bytes_max)
        return names_by_bytes(split, err);
    names_balanced(split);
    return 0;
}

/* ---- the whole ---- */

/* Makes a plan of all arrays, as a merge of one file without rules does. */
static int all_plan(struct array_split *split, struct err *err)
{
    const struct merge_rules none = {0};
    split->all.set = &split->set;
    for (size_t i = 0; i < split->set.n_files; i++)
        for (size_t k = 0; k < split->set.files[i].n_arrays; k++) {
            array_plan_add(&split->all, &split->set.files[i].arrays[k]);
            array_plan_whole(&split->all, (uint32_t)i, (uint32_t)k);
        }
    if (split->set.kind != TENSOR_SAFETENSORS)
        return 0;
    array_plan_sort(&split->all);
    return array_metadata_merge(&split->all, &none, err);
}

int array_split_open(struct array_split **out, enum tensor_kind kind, const char *path,
                     const struct array_split_opts *opts, struct err *err)
{
    struct array_split *split = xcalloc(1, sizeof(*split));
    split->opts = *opts;
    int rc = array_set_open(&split->set, kind, &path, 1, err);
    if (rc == 0)
        rc = all_plan(split, err);
    if (rc == 0) {
        rc = (opts->by_rows ? rows_plan : names_plan)(split, err);
        if (rc == ERR_DATA)
            wrap(err, rc, "%s", path);
    }
    if (rc == 0 && split->n_parts == 0)
        part_add(split, 0);
    if (rc) {
        array_split_close(split);
        return rc;
    }
    *out = split;
    return 0;
}

void array_split_close(struct array_split *split)
{
    if (!split)
        return;
    array_plan_release(&split->all);
    array_set_release(&split->set);
    free(split->parts);
    free(split);
}

const struct array_part *array_split_parts(const struct array_split *split, size_t *n_parts)
{
    *n_parts = split->n_parts;
    return split->parts;
}

bool array_split_is_input(const struct array_split *split, const struct stat *st)
{
    return array_set_has(&split->set, st) != NULL;
}

size_t array_split_n_files(const struct array_split *split)
{
    return split->set.n_files;
}

/* ---- a part ---- */

static void part_plan(const struct array_split *split, const struct array_part *part,
                      struct array_plan *plan)
{
    const struct array_plan *all = &split->all;
    bool by_rows = split->opts.by_rows;
    size_t begin = by_rows ? 0 : (size_t)part->first;
    size_t end = by_rows ? all->len : (size_t)(part->first + part->n_records);
    for (size_t i = begin; i < end; i++) {
        const struct array_new *whole = &all->at[i];
        struct array_piece piece = all->pieces[whole->first_piece];
        if (by_rows && whole->like->n_dims > 0) {
            piece.first_row = part->first;
            piece.n_rows = part->n_records;
        }
        array_plan_add(plan, whole->like);
        array_plan_piece(plan, piece);
        plan->at[plan->len - 1].is_fortran = whole->is_fortran;
    }
    buf_add_str(&plan->metadata, buf_str(&all->metadata));
}

static int all_verify(struct array_split *split, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < split->set.n_files; i++)
        for (size_t k = 0; k < split->set.files[i].n_arrays && rc == 0; k++)
            rc = array_verify(&split->set.files[i], &split->set.files[i].arrays[k], err);
    return rc;
}

int array_split_fill(struct array_split *split, size_t part, struct outfile *out, uint64_t *n_bytes,
                     struct err *err)
{
    struct array_plan plan = {.set = &split->set, .stop = split->opts.stop};
    part_plan(split, &split->parts[part], &plan);
    int rc = array_write(&plan, out, n_bytes, err);
    array_plan_release(&plan);
    return rc || part + 1 < split->n_parts ? rc : all_verify(split, err);
}

static int line_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void array_split_index(const struct array_split *split, const char *const *names, struct buf *out)
{
    const struct array_plan *all = &split->all;
    char **lines = xcalloc(all->len + 1, sizeof(*lines));
    uint64_t total_size = 0;
    for (size_t part = 0; part < split->n_parts; part++)
        for (size_t k = 0; k < split->parts[part].n_records; k++) {
            size_t i = (size_t)split->parts[part].first + k;
            struct buf line = BUF_INIT;
            buf_add_json(&line, all->at[i].like->name);
            buf_add_text(&line, ": ");
            buf_add_json(&line, str_of(names[part]));
            lines[i] = buf_steal(&line);
            total_size += all->at[i].bytes;
        }
    qsort(lines, all->len, sizeof(*lines), line_order);
    buf_addf(out, "{\n  \"metadata\": {\n    \"total_size\": %lu\n  },\n  \"weight_map\": {",
             total_size);
    for (size_t i = 0; i < all->len; i++) {
        buf_addf(out, "%s\n    ", i > 0 ? "," : "");
        buf_add_text(out, lines[i]);
        free(lines[i]);
    }
    buf_add_text(out, all->len > 0 ? "\n  }\n}\n" : "}\n}\n");
    free(lines);
}
