/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/array/array_merge.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/array/array_cast.h"

enum {
    WINDOW_BYTES = 256 * 1024
};

/* An array of an input. Arrays of one name stand together, in the order of the files. */
struct member {
    uint32_t file, array;
    uint64_t order; /* where the name occurs first */
};

struct merging {
    const struct array_merge_opts *opts;
    const char *const *paths;
    size_t n_paths;
    struct array_set *set;
    struct array_plan *plan;
    struct member *members;
    size_t n_members;
    struct err *err;
};

/* All arrays of one name. */
struct group {
    const struct member *at;
    size_t len;
};

static struct array *array_of(const struct merging *m, const struct member *member)
{
    return &m->set->files[member->file].arrays[member->array];
}

static const char *path_of(const struct merging *m, const struct member *member)
{
    return m->set->files[member->file].path;
}

/* ---- names ---- */

static int member_order(const void *a, const void *b, void *context)
{
    const struct merging *m = context;
    const struct member *left = a, *right = b;
    int order = str_compare(array_of(m, left)->name, array_of(m, right)->name);
    return order ? order : (left->order > right->order) - (left->order < right->order);
}

static int first_order(const void *a, const void *b)
{
    const struct member *left = a, *right = b;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    return (left->file > right->file) - (left->file < right->file);
}

static void members_take(struct merging *m)
{
    uint64_t order = 0;
    for (size_t i = 0; i < m->set->n_files; i++)
        m->n_members += m->set->files[i].n_arrays;
    m->members = xcalloc(m->n_members + 1, sizeof(*m->members));
    for (size_t i = 0; i < m->set->n_files; i++)
        for (size_t k = 0; k < m->set->files[i].n_arrays; k++, order++)
            m->members[order] = (struct member){(uint32_t)i, (uint32_t)k, order};
    if (m->n_members == 0)
        return;
    qsort_r(m->members, m->n_members, sizeof(*m->members), member_order, m);
    for (size_t i = 1; i < m->n_members; i++)
        if (str_equal(array_of(m, &m->members[i])->name, array_of(m, &m->members[i - 1])->name))
            m->members[i].order = m->members[i - 1].order;
    qsort(m->members, m->n_members, sizeof(*m->members), first_order);
}

/* Fails with the array's name and then `what`. The array of an npy file has no name. */
static int group_fail(const struct merging *m, const struct group *group, const char *what)
{
    struct str name = array_of(m, group->at)->name;
    if (m->set->kind == TENSOR_NPY)
        return fail(m->err, ERR_DATA, "the array %s", what);
    return fail(m->err, ERR_DATA, "'%.*s' %s", (int)MIN(name.len, (size_t)200), name.at, what);
}

/* ---- what fits together ---- */

/* Why the two arrays cannot be concatenated, a new string; NULL if they can be. */
static char *misfit_new(const struct merging *m, const struct member *a, const struct member *b)
{
    const struct array *left = array_of(m, a), *right = array_of(m, b);
    cleanup_buf struct buf left_shape = BUF_INIT, right_shape = BUF_INIT;
    if (left->n_dims == 0 || right->n_dims == 0)
        return xasprintf("has no dimension in %s along which it could be continued",
                         path_of(m, left->n_dims == 0 ? a : b));
    struct array_cast cast;
    if (!array_cast_find(left, right, &cast) && !array_cast_find(right, left, &cast))
        return xasprintf("is %.*s in %s and %.*s in %s: make them one type first",
                         (int)MIN(left->dtype.len, (size_t)100), left->dtype.at, path_of(m, a),
                         (int)MIN(right->dtype.len, (size_t)100), right->dtype.at, path_of(m, b));
    if (array_shapes_equal(left, right, 1))
        return NULL;
    array_shape_add(&left_shape, left->shape, left->n_dims);
    array_shape_add(&right_shape, right->shape, right->n_dims);
    return xasprintf("is %s in %s and %s in %s: all dimensions but the first must agree",
                     buf_text(&left_shape), path_of(m, a), buf_text(&right_shape), path_of(m, b));
}

/*
 * The member whose type the new array gets: the widest type of texts, and little-endian if the byte
 * orders differ.
 */
static const struct member *type_member(const struct merging *m, const struct group *group)
{
    const struct member *best = group->at;
    for (size_t i = 1; i < group->len; i++) {
        const struct array *array = array_of(m, &group->at[i]), *so_far = array_of(m, best);
        bool is_wider = array->element_bits > so_far->element_bits;
        bool is_native = array->element_bits == so_far->element_bits && array->npy_version != 0 &&
                         array_type_of(so_far).order == '>' && array_type_of(array).order == '<';
        if (is_wider || is_native)
            best = &group->at[i];
    }
    return best;
}

static int cat0_check(const struct merging *m, const struct group *group, const struct member *type)
{
    uint64_t n_rows = 0;
    for (size_t i = 0; i < group->len; i++) {
        const struct array *array = array_of(m, &group->at[i]);
        cleanup_free char *misfit = misfit_new(m, &group->at[0], &group->at[i]);
        if (misfit)
            return group_fail(m, group, misfit);
        if (m->set->kind == TENSOR_SAFETENSORS && array->element_bits == 0 && group->len > 1)
            return group_fail(m, group, "is of a type whose elements' size is not known");
        if (__builtin_add_overflow(n_rows, array->shape[0], &n_rows) || n_rows > INT64_MAX)
            return group_fail(m, group, "would have more rows than 63 bits count");
    }
    const struct array *like = array_of(m, type);
    uint64_t n_bytes = like->element_bits / 8;
    for (size_t i = 1; i < like->n_dims; i++)
        if (__builtin_mul_overflow(n_bytes, like->shape[i], &n_bytes))
            n_bytes = UINT64_MAX;
    if (__builtin_mul_overflow(n_bytes, n_rows, &n_bytes) || n_bytes > INT64_MAX)
        return group_fail(m, group, "would have more bytes than 63 bits count");
    return 0;
}

/* ---- same ---- */

static int bytes_compare(const struct merging *m, const struct member *a, const struct member *b,
                         bool *are_equal)
{
    struct array *left = array_of(m, a), *right = array_of(m, b);
    cleanup_free char *window = xmalloc((size_t)2 * WINDOW_BYTES);
    int rc = 0;
    for (uint64_t at = 0; at < left->bytes && *are_equal && rc == 0; at += WINDOW_BYTES) {
        size_t len = (size_t)MIN(left->bytes - at, (uint64_t)WINDOW_BYTES);
        rc = array_read(&m->set->files[a->file], left, at, window, len, m->err);
        if (rc == 0)
            rc = array_read(&m->set->files[b->file], right, at, window + WINDOW_BYTES, len, m->err);
        *are_equal = rc == 0 && memcmp(window, window + WINDOW_BYTES, len) == 0;
    }
    /* Damage is the likelier reason of a difference, so it is reported first. */
    if (rc == 0)
        rc = array_verify(&m->set->files[a->file], left, m->err);
    if (rc == 0)
        rc = array_verify(&m->set->files[b->file], right, m->err);
    array_rest(&m->set->files[b->file], right);
    return rc;
}

/* *what says in what the two arrays differ; NULL if they are the same. */
static int difference(const struct merging *m, const struct member *a, const struct member *b,
                      const char **what)
{
    const struct array *left = array_of(m, a), *right = array_of(m, b);
    bool are_equal = true;
    *what = NULL;
    if (!array_types_equal(left, right))
        *what = "type";
    else if (!array_shapes_equal(left, right, 0) || left->bytes != right->bytes)
        *what = "shape";
    else if (left->is_fortran != right->is_fortran)
        *what = "order of the elements";
    if (*what)
        return 0;
    int rc = bytes_compare(m, a, b, &are_equal);
    if (!are_equal)
        *what = "elements";
    return rc;
}

static int same_add(struct merging *m, const struct group *group)
{
    const char *what = NULL;
    int rc = 0;
    for (size_t i = 1; i < group->len && rc == 0 && !what; i++) {
        rc = difference(m, &group->at[0], &group->at[i], &what);
        if (rc || !what)
            continue;
        struct str name = array_of(m, group->at)->name;
        cleanup_free char *misfit = misfit_new(m, &group->at[0], &group->at[i]);
        cleanup_free char *text = xasprintf(
            "is in %s and in %s, and the two differ in their %s; --rule '%.*s=%s",
            path_of(m, &group->at[0]), path_of(m, &group->at[i]), what,
            (int)MIN(name.len, (size_t)100), name.at,
            misfit ? "first' keeps the first file's, drop leaves it out"
                   : "cat0' puts them one behind the other, first keeps the first file's");
        rc = group_fail(m, group, text);
    }
    array_rest(&m->set->files[group->at->file], array_of(m, group->at));
    if (rc)
        return rc;
    array_plan_add(m->plan, array_of(m, group->at));
    array_plan_whole(m->plan, group->at[0].file, group->at[0].array);
    return 0;
}

/* ---- cat0 ---- */

/* The new array is column-major if all pieces are; else it is row-major, and the column-major
 * pieces are transposed. */
static int cat0_add(struct merging *m, const struct group *group)
{
    bool any_is_fortran = false, all_are_fortran = true;
    const struct member *type = type_member(m, group);
    int rc = cat0_check(m, group, type);
    if (rc)
        return rc;
    array_plan_add(m->plan, array_of(m, type));
    for (size_t i = 0; i < group->len; i++) {
        const struct array *array = array_of(m, &group->at[i]);
        array_plan_whole(m->plan, group->at[i].file, group->at[i].array);
        any_is_fortran = any_is_fortran || array->is_fortran;
        all_are_fortran = all_are_fortran && (array->is_fortran || array->is_either);
    }
    m->plan->at[m->plan->len - 1].is_fortran = any_is_fortran && all_are_fortran;
    return 0;
}

/* ---- by rule, or by kind ---- */

/*
 * npy files are concatenated. In npz an array that all files have is a share of the whole, unless
 * it has no dimension.
 */
enum merge_verb array_verb_by_kind(enum tensor_kind kind, const struct array *array, bool is_shared)
{
    switch (kind) {
    case TENSOR_NPY:
        return MERGE_CAT0;
    case TENSOR_NPZ:
        return is_shared && array->n_dims > 0 ? MERGE_CAT0 : MERGE_SAME;
    case TENSOR_SAFETENSORS:
    case TENSOR_TORCH:
    case TENSOR_NONE:
    case N_TENSOR_KINDS:
        break;
    }
    return MERGE_SAME;
}

static int group_add(struct merging *m, const struct group *group)
{
    struct str name = array_of(m, group->at)->name;
    cleanup_free char *path = xstrndup(name.at, name.len);
    const struct merge_rule *rule = merge_rule_find(m->opts->rules, path);
    bool is_shared = group->len > 1 && group->len == m->set->n_files;
    enum merge_verb verb =
        rule ? rule->verb : array_verb_by_kind(m->set->kind, array_of(m, group->at), is_shared);
    struct group first = {group->at, 1};
    if (verb == MERGE_DROP)
        return 0;
    if (verb == MERGE_CAT0)
        return cat0_add(m, group);
    if (verb == MERGE_FIRST)
        return same_add(m, &first);
    if (verb == MERGE_SAME || verb == MERGE_UNION)
        return same_add(m, group);
    return fail(m->err, ERR_USAGE,
                "'%s' is an array, which does not go by %s; cat0, same, union, first and drop do",
                path, merge_verb_name(verb));
}

static int groups_add(struct merging *m)
{
    int rc = 0;
    for (size_t i = 0; i < m->n_members && rc == 0;) {
        struct group group = {&m->members[i], 0};
        while (i < m->n_members && m->members[i].order == group.at->order) {
            group.len++;
            i++;
        }
        rc = group_add(m, &group);
    }
    if (rc == 0 && m->plan->len == 0 && m->n_members > 0)
        rc = fail(m->err, ERR_USAGE, "the rules drop everything");
    return rc;
}

static int plan_make(struct merging *m)
{
    members_take(m);
    int rc = groups_add(m);
    if (rc == 0 && m->set->kind == TENSOR_SAFETENSORS) {
        array_plan_sort(m->plan);
        rc = array_metadata_merge(m->plan, m->opts->rules, m->err);
    }
    return rc ? rc : merge_rules_check(m->opts->rules, m->err);
}

/* ---- the file ---- */

/*
 * Does a path that the caller named lead to this file? An index file is among the paths, but not in
 * the set.
 */
static bool is_named(const struct merging *m, const struct stat *st)
{
    struct stat other;
    for (size_t i = 0; i < m->n_paths; i++)
        if (stat(m->paths[i], &other) == 0 && other.st_ino == st->st_ino &&
            other.st_dev == st->st_dev)
            return true;
    return false;
}

static int output_write(const struct merging *m, const char *out_path, uint64_t *n_bytes)
{
    struct outfile out = OUTFILE_INIT;
    struct stat st;
    struct err *err = m->err;
    if (m->set->kind == TENSOR_NPZ && output_is_direct(out_path))
        return fail(err, ERR_USAGE,
                    "an npz cannot be written to a pipe or a device; -o names a file");
    if (stat(out_path, &st) == 0 && (array_set_has(m->set, &st) || is_named(m, &st)))
        return fail(err, ERR_USAGE, "the output %s is one of the files", out_path);
    int rc = outfile_open(&out, out_path, m->opts->force, err);
    if (rc == 0)
        rc = array_write(m->plan, m->opts->dry_run ? NULL : &out, n_bytes, err);
    if (rc == 0 && !m->opts->dry_run && m->opts->placing) {
        rc = outfile_sync(&out, err);
        if (rc == 0)
            rc = m->opts->placing(m->opts->context, out.fd, err);
    }
    if (rc == 0 && !m->opts->dry_run)
        rc = outfile_commit(&out, err);
    outfile_close(&out);
    return rc;
}

int array_merge(const struct array_merge_opts *opts, enum tensor_kind kind,
                const char *const *paths, size_t n_paths, const char *out_path, uint64_t *n_bytes,
                struct err *err)
{
    struct array_set set;
    struct array_plan plan = {.set = &set, .is_only = true, .stop = opts->stop};
    struct merging merging = {
        .opts = opts, .paths = paths, .n_paths = n_paths, .set = &set, .plan = &plan, .err = err};
    int rc = array_set_open(&set, kind, paths, n_paths, err);
    if (rc == 0)
        rc = plan_make(&merging);
    if (rc == 0)
        rc = output_write(&merging, out_path, n_bytes);
    free(merging.members);
    array_plan_release(&plan);
    array_set_release(&set);
    return rc;
}
