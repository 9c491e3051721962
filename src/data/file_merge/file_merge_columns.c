/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV and TSV: finds the output's columns, and the output column of each column of a file.
 */
#include "base/xalloc.h"
#include "data/file_merge/file_merge_impl.h"

/* Skips blank lines, which may have CRs before their LF; any other CR belongs to the header. */
static struct str blank_lines_skip(struct str text)
{
    for (size_t n = 0; n < text.len && (text.at[n] == '\r' || text.at[n] == '\n');) {
        bool is_line = text.at[n++] == '\n';
        if (is_line) {
            text = (struct str){text.at + n, text.len - n};
            n = 0;
        }
    }
    return text;
}

/* Takes the header's bytes for the output's header, and its line end for the output's. */
static int header_text(struct file_merge *merge, struct file_merge_input *file, struct err *err)
{
    cleanup_buf struct buf bytes = BUF_INIT;
    size_t len = (size_t)file->head.begin_at;
    buf_reserve(&bytes, len);
    int rc = input_read(&file->head.input, 0, bytes.at, len, err);
    if (rc)
        return rc;
    struct str text = blank_lines_skip(str_unmarked((struct str){bytes.at, len}));
    bool has_lf = str_ends_with(text, STR("\n"));
    text.len -= has_lf;
    bool has_cr = str_ends_with(text, STR("\r"));
    text.len -= has_cr; /* a header that ends in several CRs was refused */
    if (has_lf || has_cr)
        merge->line_end = has_cr ? "\r\n" : "\n";
    buf_add_str(&merge->header, text);
    return 0;
}

/*
 * Writes the names so far again, in quotes where they need them. A header of one line may have a
 * quote within an unquoted name; in a header of several lines that would be malformed.
 */
static void header_rewrite(struct file_merge *merge, char separator)
{
    buf_reset(&merge->header);
    for (size_t i = 0; i < merge->columns.len; i++) {
        if (i > 0)
            buf_add_char(&merge->header, separator);
        csv_add_field(&merge->header, name_index_get(&merge->columns, i), separator);
    }
}

static void columns_add(struct file_merge *merge, const struct name_index *names, char separator)
{
    for (size_t i = 0; i < names->len; i++) {
        struct str name = name_index_get(names, i);
        if (name_index_find(&merge->columns, name) != NAME_NONE)
            continue;
        if (memchr(name.at, '\n', name.len))
            header_rewrite(merge, separator);
        name_index_add(&merge->columns, name);
        buf_add_char(&merge->header, separator);
        csv_add_field(&merge->header, name, separator);
    }
}

/* Adds the names that `other` lacks, as a list for messages; returns how many they are. */
static size_t names_lacking(const struct name_index *names, const struct name_index *other,
                            struct buf *out)
{
    size_t n_lacking = 0;
    for (size_t i = 0; i < names->len; i++) {
        struct str name = name_index_get(names, i);
        if (name_index_find(other, name) != NAME_NONE)
            continue;
        if (++n_lacking <= 5)
            buf_addf(out, "%s'%.*s'", n_lacking > 1 ? ", " : "", (int)MIN(name.len, (size_t)40),
                     name.at);
    }
    if (n_lacking > 5)
        buf_addf(out, " and %zu more", n_lacking - 5);
    return n_lacking;
}

static int columns_differ(const struct file_merge *merge, const struct file_merge_input *first,
                          const struct file_merge_input *file, struct err *err)
{
    cleanup_buf struct buf lacks = BUF_INIT, extra = BUF_INIT;
    const char *name = file->head.input.name;
    size_t n_lacks = names_lacking(&merge->columns, &file->names, &lacks);
    size_t n_extra = names_lacking(&file->names, &merge->columns, &extra);
    if (n_lacks == 0 && n_extra == 0)
        return 0;
    return fail(err, ERR_DATA, "%s %s%s%s%s%s, unlike %s; --union leaves such cells empty", name,
                n_lacks > 0 ? "lacks " : "", n_lacks > 0 ? buf_text(&lacks) : "",
                n_lacks > 0 && n_extra > 0 ? " and " : "", n_extra > 0 ? "has " : "",
                n_extra > 0 ? buf_text(&extra) : "", first->head.input.name);
}

/* The first column that has the name of an earlier one. */
static size_t column_again(const struct name_index *names)
{
    for (size_t i = 0; i < names->len; i++)
        if (name_index_find(names, name_index_get(names, i)) != i)
            return i;
    return NAME_NONE;
}

/* ERR_DATA if two columns have one name, because it is unknown which one is meant. */
static int again_refuse(const struct file_merge_input *file, const char *why, struct err *err)
{
    size_t again = column_again(&file->names);
    if (again == NAME_NONE)
        return 0;
    struct str name = name_index_get(&file->names, again);
    return fail(err, ERR_DATA, "%s has two columns '%.*s', %s; give them different names",
                file->head.input.name, (int)MIN(name.len, (size_t)40), name.at, why);
}

/* Maps each column of the output to a field of the file; sets no map where the columns are the same
 * and in the same order. */
static int columns_map(struct file_merge *merge, const struct file_merge_input *first,
                       struct file_merge_input *file, struct err *err)
{
    size_t n_columns = merge->columns.len, n_same = 0;
    while (n_same < MIN(n_columns, file->names.len) &&
           str_equal(name_index_get(&merge->columns, n_same), name_index_get(&file->names, n_same)))
        n_same++;
    if (n_same == n_columns && n_same == file->names.len)
        return 0;
    static const char why[] = "so which of them goes where is not known";
    int rc = again_refuse(file, why, err);
    if (rc == 0)
        rc = again_refuse(first, why, err);
    if (rc)
        return rc;
    file->field_of = xcalloc(n_columns, sizeof(*file->field_of));
    for (size_t i = 0; i < n_columns; i++)
        file->field_of[i] = name_index_find(&file->names, name_index_get(&merge->columns, i));
    return 0;
}

static void names_read(const struct csv_row *header, struct name_index *names)
{
    for (size_t i = 0; i < header->n_fields; i++)
        name_index_add(names, csv_field(header, i));
}

int file_merge_columns(struct file_merge *merge, struct err *err)
{
    struct file_merge_input *first = NULL;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < merge->n_files; i++) {
        struct file_merge_input *file = &merge->files[i];
        if (file->header.n_fields == 0)
            continue;
        names_read(&file->header, &file->names);
        if (!first) {
            first = file;
            rc = header_text(merge, file, err);
            names_read(&file->header, &merge->columns);
        } else if (!merge->opts->is_union) {
            rc = columns_differ(merge, first, file, err);
        }
        if (rc == 0 && merge->opts->is_union)
            rc = again_refuse(file, "and --union goes by the names", err);
        if (rc == 0 && merge->opts->is_union)
            columns_add(merge, &file->names, file->separator);
    }
    for (size_t i = 0; rc == 0 && i < merge->n_files; i++)
        if (merge->files[i].header.n_fields > 0)
            rc = columns_map(merge, first, &merge->files[i], err);
    return rc;
}

int file_merge_id_columns(struct file_merge *merge, struct err *err)
{
    for (size_t i = 0; merge->opts->id_field && i < merge->n_files; i++) {
        struct file_merge_input *file = &merge->files[i];
        if (file->format == FORMAT_LINES)
            return fail(err, ERR_USAGE, "%s holds lines, which have no fields",
                        file->head.input.name);
        if (file->header.n_fields == 0)
            continue;
        file->id_field = name_index_find(&file->names, str_of(merge->opts->id_field));
        if (file->id_field == NAME_NONE)
            return fail(err, ERR_USAGE, "%s has no column '%s', which --id names",
                        file->head.input.name, merge->opts->id_field);
        for (size_t k = file->id_field + 1; k < file->header.n_fields; k++)
            if (str_equal(csv_field(&file->header, k), str_of(merge->opts->id_field)))
                return fail(
                    err, ERR_DATA,
                    "%s has two columns '%s', and --id needs one; give them different names",
                    file->head.input.name, merge->opts->id_field);
    }
    return 0;
}
