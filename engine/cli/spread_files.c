/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spread_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/texts.h"
#include "base/xalloc.h"
#include "cli/kge_verbs.h"

enum {
    MEMORY_BYTES = 768 << 20 /* the most that muster kge tracin takes without --memory */
};

/* ---- options ---- */

/* True for options that change no result. A run is known by all others. */
static bool is_no_matter(const char *name)
{
    static const char *const idle[] = {"gpus",    "run-dir", "force",         "quiet",
                                       "threads", "dry-run", "skip-existing", "skip-filtering"};
    for (size_t i = 0; i < countof(idle); i++)
        if (strcmp(name, idle[i]) == 0)
            return true;
    return false;
}

/* Adds a record: "name=value" and a NUL. */
static void record_add(struct buf *out, const char *name, const char *value)
{
    buf_addf(out, "%s=%s", name, value);
    buf_add_char(out, '\0');
}

static void path_add(struct buf *out, const char *name, const char *path)
{
    cleanup_free char *absolute = path ? path_absolute(path) : NULL;
    record_add(out, name, absolute ? absolute : "");
}

static void number_add(struct buf *out, const char *name, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    record_add(out, name, digits);
}

static void option_add(const struct opt *opt, const void *field, struct buf *out)
{
    const struct texts *texts = field;
    const char *text;
    switch (opt->kind) {
    case OPT_FLAG:
    case OPT_UNSET:
        number_add(out, opt->name, *(const bool *)field);
        return;
    case OPT_TEXT:
        text = *(const char *const *)field;
        record_add(out, opt->name, text ? text : "");
        return;
    case OPT_PATH:
        path_add(out, opt->name, *(const char *const *)field);
        return;
    case OPT_WORDS:
        for (size_t i = 0; i < texts->len; i++)
            record_add(out, opt->name, texts->at[i]);
        return;
    case OPT_TEXTS: /* checkpoints */
        for (size_t i = 0; i < texts->len; i++)
            path_add(out, opt->name, texts->at[i]);
        return;
    case OPT_U64:
    case OPT_SIZE:
    case OPT_DURATION:
        number_add(out, opt->name, *(const uint64_t *)field);
        return;
    case OPT_PARSE: /* an enum: its number */
        number_add(out, opt->name, (uint64_t) * (const int *)field);
        return;
    case OPT_END:
    case OPT_HEADING:
    case OPT_ALIAS:
        break;
    }
    BUG("option kind %d", (int)opt->kind);
}

static int checkpoint_add(const char *path, struct buf *out, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    buf_addf(out, "checkpoint %jd %jd.%09ld", (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec,
             st.st_mtim.tv_nsec);
    buf_add_char(out, '\0');
    return 0;
}

int spread_options_add(const struct tracin_request *ask, struct buf *out, struct err *err)
{
    int rc = 0;
    for (const struct opt *opt = cmd_kge_tracin.opts; opt->kind != OPT_END; opt++)
        if (opt->kind != OPT_HEADING && opt->kind != OPT_ALIAS && !is_no_matter(opt->name))
            option_add(opt, (const char *)ask + opt->offset, out);
    for (size_t i = 0; rc == 0 && i < ask->models.paths.len; i++)
        rc = checkpoint_add(ask->models.paths.at[i], out, err);
    return rc;
}

static const struct opt *option_find(struct str name)
{
    for (const struct opt *opt = cmd_kge_tracin.opts; opt->kind != OPT_END; opt++)
        if (opt->name && str_equal(name, str_of(opt->name)))
            return opt;
    return NULL;
}

static void text_append(struct texts *texts, const char *text)
{
    texts->at = xrealloc(texts->at, (texts->len + 1) * sizeof(*texts->at));
    texts->at[texts->len++] = text;
}

static int option_take(const struct opt *opt, const char *value, void *field, struct err *err)
{
    uint64_t number = 0;
    bool is_list = opt->kind == OPT_TEXTS || opt->kind == OPT_WORDS;
    if (is_list)
        text_append(field, value);
    if (opt->kind == OPT_TEXT || opt->kind == OPT_PATH)
        *(const char **)field = *value ? value : NULL;
    if (is_list || opt->kind == OPT_TEXT || opt->kind == OPT_PATH)
        return 0;
    int rc = u64_parse(str_of(value), 0, UINT64_MAX, &number, err);
    if (opt->kind == OPT_FLAG || opt->kind == OPT_UNSET)
        *(bool *)field = number != 0;
    else if (opt->kind == OPT_PARSE)
        *(int *)field = (int)number;
    else
        *(uint64_t *)field = number;
    return rc ? wrap(err, rc, "--%s", opt->name) : 0;
}

int spread_options_read(struct tracin_request *ask, const char *dir, struct buf *bytes,
                        struct err *err)
{
    cleanup_free char *path = path_join(dir, SPREAD_OPTIONS);
    int rc = file_read(path, SIZE_MAX / 2, bytes, err);
    struct str rest = buf_str(bytes), record;
    *ask = (struct tracin_request){0};
    while (rc == 0 && str_next(&rest, '\0', &record)) {
        const char *equals = memchr(record.at, '=', record.len);
        const struct opt *opt =
            equals ? option_find((struct str){record.at, (size_t)(equals - record.at)}) : NULL;
        if (opt)
            rc = option_take(opt, equals + 1, (char *)ask + opt->offset, err);
    }
    return rc;
}

/* ---- the plan ---- */

int spread_plan_make(struct spread_plan *plan, const struct tracin_request *ask,
                     struct kge_models *models, const struct spread_tests *tests, size_t n_train,
                     struct err *err)
{
    struct tracin_plan at_once;
    if (n_train > UINT32_MAX)
        return fail(err, ERR_USAGE, "%zu training triples are more than %u", n_train, UINT32_MAX);
    if (models->opts.memory_bytes == 0)
        models->opts.memory_bytes = MEMORY_BYTES;
    int rc = tracin_plan(models->checkpoints, models->n, &models->opts, tests->n, n_train, &at_once,
                         err);
    const struct spread_sizes sizes = {.n_train = n_train,
                                       .top_k = (size_t)ask->top_k,
                                       .tests_max = at_once.tests_at_once,
                                       .is_matrix = tracin_is_matrix(ask)};
    if (rc == 0)
        spread_plan_init(plan, &sizes, tests->at, tests->n);
    return rc;
}

/* ---- the folder ---- */

static const char *const names[] = {
    SPREAD_PLACING, SPREAD_OPTIONS, SPREAD_TRAIN,   SPREAD_TESTS, SPREAD_ITEMS,    SPREAD_MAP,
    SPREAD_VALUES,  SPREAD_WHY,     SPREAD_ANSWERS, SPREAD_LOCK,  SPREAD_MAP_LOCK, SPREAD_REPLACES};

/* True too for NAME.new, a file being written, and for what muster puts beside its output. */
static bool is_of_a_run(const char *name)
{
    if (strncmp(name, SPREAD_ANSWERS ".", strlen(SPREAD_ANSWERS ".")) == 0)
        return true;
    for (size_t i = 0; i < countof(names); i++) {
        size_t len = strlen(names[i]);
        if (strncmp(name, names[i], len) == 0 &&
            (name[len] == '\0' || strcmp(name + len, ".new") == 0))
            return true;
    }
    return false;
}

static bool is_no_entry(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/*
 * Removes the options first: without them there is no run. Removes the lock last: a folder that has
 * it is recognized as a run's by spread_files_are_all().
 */
int spread_files_remove(const char *dir, struct err *err)
{
    cleanup_free char *options = path_join(dir, SPREAD_OPTIONS);
    cleanup_free char *lock = path_join(dir, SPREAD_LOCK);
    int rc = remove_tree(options, err);
    DIR *folder = rc == 0 ? opendir(dir) : NULL;
    const struct dirent *entry;
    while (rc == 0 && folder && (entry = readdir(folder))) {
        cleanup_free char *path = path_join(dir, entry->d_name);
        if (is_of_a_run(entry->d_name) && strcmp(entry->d_name, SPREAD_LOCK) != 0)
            rc = remove_tree(path, err);
    }
    if (folder)
        closedir(folder);
    if (rc == 0)
        rc = remove_tree(lock, err);
    if (rc == 0 && rmdir(dir) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
        rc = fail_errno(err, "remove %s", dir);
    return rc;
}

bool spread_files_are_all(const char *dir)
{
    cleanup_free char *lock = path_join(dir, SPREAD_LOCK);
    DIR *folder = path_exists(lock) ? opendir(dir) : NULL;
    bool are_all = folder != NULL;
    const struct dirent *entry;
    while (are_all && (entry = readdir(folder)))
        are_all = is_no_entry(entry->d_name) || is_of_a_run(entry->d_name);
    if (folder)
        closedir(folder);
    return are_all || folder_is_empty(dir);
}
