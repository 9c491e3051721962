/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/names.h"

#include "base/cleanup.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "graph/lines.h"

enum {
    INDICES_MIN = 64
};

#define NO_INDEX UINT32_MAX

/* A dictionary as it stands in its file: names in the order of the lines, and the index of each. */
struct draft {
    struct name_index names;
    uint32_t *indices;
    size_t cap;
};

static void draft_add(struct draft *draft, struct str name, uint32_t index)
{
    size_t at = name_index_number(&draft->names, name);
    if (at == draft->cap) {
        draft->cap = draft->cap > 0 ? draft->cap * 2 : INDICES_MIN;
        draft->indices = xrealloc(draft->indices, draft->cap * sizeof(*draft->indices));
    }
    draft->indices[at] = index;
}

static void draft_line(struct draft *draft, struct str line, uint64_t number, struct flaws *flaws)
{
    struct str fields[FIELDS_MAX];
    uint64_t index;
    size_t n_fields = line_fields(line, fields);
    if (line.len == 0) {
        flaw_add(flaws, FLAW_BLANK, number, line);
    } else if (n_fields != 2) {
        flaw_add(flaws, FLAW_FIELDS, number, line);
    } else if (u64_parse(fields[1], 0, NO_INDEX - 1, &index, NULL) != 0) {
        flaw_add(flaws, FLAW_INDEX, number, fields[1]);
    } else {
        size_t known = name_index_find(&draft->names, fields[0]);
        ASSERT(known == NAME_NONE || draft->indices);
        if (known == NAME_NONE)
            draft_add(draft, fields[0], (uint32_t)index);
        else if (draft->indices[known] == index)
            flaw_add(flaws, FLAW_DUPLICATE, number, line);
        else
            flaw_add(flaws, FLAW_REPEATED_NAME, number, line);
    }
}

static int draft_read(struct draft *draft, const char *path, struct flaws *flaws, struct err *err)
{
    cleanup_lines struct lines lines = LINES_INIT;
    struct str line;
    int rc = lines_open(&lines, path, err);
    while (rc == 0 && (rc = lines_next(&lines, &line, err)) > 0) {
        draft_line(draft, line, lines.number, flaws);
        rc = 0;
    }
    lines_notes(&lines, flaws);
    return rc;
}

/*
 * Checks that the indices are 0 … n-1, each once; sets order[i] to the place of index i in the
 * file.
 */
static int draft_order(const struct draft *draft, const char *path, uint32_t *order,
                       struct err *err)
{
    size_t n = draft->names.len;
    memset(order, 0xff, n * sizeof(*order));
    for (size_t i = 0; i < n; i++) {
        uint32_t index = draft->indices[i];
        struct str name = name_index_get(&draft->names, i);
        if (index >= n)
            return fail(
                err, ERR_DATA,
                "%s: '%.*s' has index %u, but %zu names have the indices 0 to %zu: names are "
                "missing, or were left out",
                path, (int)MIN(name.len, 80u), name.at, index, n, n - 1);
        if (order[index] != NO_INDEX) {
            struct str other = name_index_get(&draft->names, order[index]);
            return fail(err, ERR_DATA, "%s: '%.*s' and '%.*s' have the same index %u", path,
                        (int)MIN(other.len, 80u), other.at, (int)MIN(name.len, 80u), name.at,
                        index);
        }
        order[index] = (uint32_t)i;
    }
    return 0;
}

static int draft_settle(const struct draft *draft, const char *path, struct name_index *names,
                        struct err *err)
{
    size_t n = draft->names.len;
    if (n == 0)
        return fail(err, ERR_DATA, "%s: no names in it", path);
    cleanup_free uint32_t *order = xmalloc(n * sizeof(*order));
    int rc = draft_order(draft, path, order, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        name_index_number(names, name_index_get(&draft->names, order[i]));
    return rc;
}

int names_read(struct name_index *names, const char *path, bool is_lenient, struct flaws *flaws,
               struct err *err)
{
    struct draft draft = {.names = NAME_INDEX_INIT};
    int rc = draft_read(&draft, path, flaws, err);
    if (rc == 0)
        rc = flaws_check(flaws, path, is_lenient, err);
    if (rc == 0)
        rc = draft_settle(&draft, path, names, err);
    name_index_release(&draft.names);
    free(draft.indices);
    return rc;
}

int names_write(const struct name_index *names, const char *path, bool overwrite, struct err *err)
{
    struct outfile file = OUTFILE_INIT;
    int rc = outfile_open(&file, path, overwrite, err);
    for (size_t i = 0; rc == 0 && i < names->len; i++) {
        buf_add_str(&file.pending, name_index_get(names, i));
        buf_addf(&file.pending, "\t%zu\n", i);
        rc = outfile_pump(&file, err);
    }
    if (rc == 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    return rc;
}
