/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch_settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/tree.h"
#include "base/xalloc.h"
#include "cli/tracin_settings.h"

enum {
    SETTINGS_BYTES_MAX = 1 << 20,
    LINES_SHOWN = 2, /* lines shown of each of the two files, so that the message has room for
                      * the cure */
    LINE_SHOWN = 60
};

static char *path_new(const struct tracin_request *ask)
{
    return path_join(ask->output_dir, "batch_tracin_settings.txt");
}

/* ---- the lines ---- */

static void triples_line_add(struct buf *out, const char *what, const struct triples *triples)
{
    buf_addf(out, "%s %zu/%016" PRIx64 "\n", what, triples->n, triples_hash(triples));
}

static int lines_make(const struct tracin_request *ask, const struct kge_data *data,
                      struct buf *out, struct err *err)
{
    /*
     * Options that change no result: which test triples are computed, in how much memory, and where
     * the files go.
     */
    static const char *const besides[] = {"test-triples", "start-index", "max-triples",
                                          "memory",       "output-dir",  "skip-tracin"};
    cleanup_buf struct buf words = BUF_INIT;
    const struct proximity_opts filter = kge_filter_opts(&ask->filter);
    struct tracin_request same = *ask; /* a given option with the default value is no other
                                        * setting */
    same.filter.n_hops = filter.n_hops;
    same.filter.min_degree = filter.min_degree;
    int rc = tracin_settings_add(&same, besides, countof(besides), &words, err);
    struct str rest = buf_str(&words), word;
    while (rc == 0 && str_next(&rest, '\0', &word)) {
        if (word.len == 0 || str_equal(word, STR("--")))
            continue;
        console_visible_add(out, word); /* a path may have newlines */
        buf_add_char(out, '\n');
    }
    triples_line_add(out, "training triples", &data->train);
    triples_line_add(out, "test triples", &data->test);
    return rc;
}

static bool has_line(struct str lines, struct str wanted)
{
    struct str line;
    while (str_next(&lines, '\n', &line))
        if (str_equal(line, wanted))
            return true;
    return false;
}

/* Adds a line. If it is too long, its end is shown, because paths differ there. */
static void line_add(struct buf *out, struct str line)
{
    size_t n_head = line.len;
    if (line.len > LINE_SHOWN) {
        const char *sign = memchr(line.at, '=', LINE_SHOWN / 2);
        n_head = sign ? (size_t)(sign + 1 - line.at) : 0;
    }
    console_visible_add(out, (struct str){line.at, n_head});
    if (n_head == line.len)
        return;
    size_t at = line.len - LINE_SHOWN / 2;
    while (at < line.len && ((unsigned char)line.at[at] & 0xc0) == 0x80) /* within a character */
        at++;
    buf_add_text(out, "...");
    console_visible_add(out, (struct str){line.at + at, line.len - at});
}

/* Adds the first lines that `lines` has and `other` does not: "a, b there". */
static void only_add(struct buf *out, struct str lines, struct str other, const char *where)
{
    struct str line;
    size_t n = 0;
    while (str_next(&lines, '\n', &line)) {
        if (line.len == 0 || has_line(other, line) || ++n > LINES_SHOWN)
            continue;
        buf_add_text(out, out->len > 0 ? ", " : "");
        line_add(out, line);
        buf_addf(out, " %s", where);
    }
    if (n > LINES_SHOWN)
        buf_addf(out, " and %zu more", n - LINES_SHOWN);
}

/* Reads the settings of the folder. *is_there is false if there are none. */
static int there_read(const struct tracin_request *ask, bool *is_there, struct buf *out,
                      struct err *err)
{
    cleanup_free char *path = path_new(ask);
    *is_there = path_exists(path);
    return *is_there ? plain_file_read(path, SETTINGS_BYTES_MAX, out, err) : 0;
}

/* ---- the results ---- */

/* triple_<index>_…<suffix>. */
static bool name_parse(const char *name, const char *const *suffixes, uint64_t *index)
{
    static const char prefix[] = "triple_";
    struct str at = str_of(name), digits;
    if (!str_starts_with(at, STR("triple_")))
        return false;
    at.at += sizeof(prefix) - 1;
    at.len -= sizeof(prefix) - 1;
    if (!str_next(&at, '_', &digits) || u64_parse(digits, 0, SIZE_MAX, index, NULL) != 0)
        return false;
    for (; *suffixes; suffixes++)
        if (str_ends_with(at, str_of(*suffixes)))
            return true;
    return false;
}

static const char *const result_suffixes[] = {"_tracin.json", "_tracin.csv", NULL};
static const char *const filter_suffixes[] = {"_filtered_train.txt", NULL};

static bool is_of_folder(const struct tree_entry *entry)
{
    return entry->depth == 1 && S_ISREG(entry->st.st_mode);
}

static int result_remove(void *context, const struct tree_entry *entry, struct err *err)
{
    uint64_t index;
    (void)context;
    if (S_ISDIR(entry->st.st_mode))
        return entry->depth == 0 ? 0 : TREE_SKIP;
    if (!is_of_folder(entry) || (!name_parse(entry->name, result_suffixes, &index) &&
                                 !name_parse(entry->name, filter_suffixes, &index)))
        return 0;
    if (unlink(entry->path) != 0 && errno != ENOENT)
        return fail_errno(err, "remove %s", entry->path);
    return 0;
}

static int results_remove(const struct tracin_request *ask, struct err *err)
{
    cleanup_free char *filtered = path_join(ask->output_dir, "filtered_training");
    int rc = tree_walk(ask->output_dir, result_remove, NULL, err);
    return rc ? rc : tree_walk(filtered, result_remove, NULL, err);
}

struct search {
    const struct tracin_request *ask;
    const struct batch_names *names;
};

static bool is_of_command(const struct batch_names *names, size_t index, const char *name)
{
    const char *own = names->base_name(names->context, index);
    return own && str_starts_with(str_of(name), str_of(own)) &&
           str_starts_with(str_of(name + strlen(own)), STR("_tracin."));
}

/* Fails if the file is a result that this command does not replace. */
static int result_refuse(void *context, const struct tree_entry *entry, struct err *err)
{
    const struct search *search = context;
    uint64_t index;
    if (S_ISDIR(entry->st.st_mode))
        return entry->depth == 0 ? 0 : TREE_SKIP;
    if (!is_of_folder(entry) || !name_parse(entry->name, result_suffixes, &index))
        return 0;
    bool is_own = is_of_command(search->names, (size_t)index, entry->name);
    if (is_own && search->ask->overwrite)
        return 0;
    return fail(err, ERR_USAGE,
                "%s exists, and no batch_tracin_settings.txt says what it was computed from: %s",
                entry->path,
                is_own ? "--force replaces it" : "remove it, or name another --output-dir");
}

/* ---- both ---- */

int batch_settings_check(const struct tracin_request *ask, const struct kge_data *data,
                         const struct batch_names *names, struct err *err)
{
    cleanup_buf struct buf here = BUF_INIT, there = BUF_INIT, differences = BUF_INIT;
    const struct search search = {ask, names};
    bool is_there = false;
    int rc = there_read(ask, &is_there, &there, err);
    if (rc == 0 && !is_there && folder_exists(ask->output_dir))
        return tree_walk(ask->output_dir, result_refuse, (void *)(uintptr_t)&search, err);
    if (rc == 0 && is_there)
        rc = lines_make(ask, data, &here, err);
    if (rc || !is_there || ask->overwrite || str_equal(buf_str(&here), buf_str(&there)))
        return rc;
    only_add(&differences, buf_str(&there), buf_str(&here), "there");
    only_add(&differences, buf_str(&here), buf_str(&there), "here");
    return fail(err, ERR_USAGE,
                "%s holds results of a batch with other settings: %s; --force removes them and "
                "begins anew, another --output-dir keeps them",
                ask->output_dir, buf_text(&differences));
}

int batch_settings_begin(const struct tracin_request *ask, const struct kge_data *data,
                         struct err *err)
{
    cleanup_free char *path = path_new(ask);
    cleanup_buf struct buf here = BUF_INIT, there = BUF_INIT;
    bool is_there = false;
    int rc = there_read(ask, &is_there, &there, err);
    if (rc == 0)
        rc = lines_make(ask, data, &here, err);
    if (rc || (is_there && str_equal(buf_str(&here), buf_str(&there))))
        return rc;
    if (is_there)
        rc = results_remove(ask, err);
    return rc ? rc : outfile_put(path, buf_str(&here), err);
}
