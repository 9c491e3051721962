/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "data/format.h"
#include "data/split/split.h"

static const char number_mark[] = "{n}", parts_mark[] = "{parts}";

/*
 * "in" and ".csv" for "a/in.csv.gz". For stdin the stem is "", and the format decides the
 * extension.
 */
static void input_name(const struct split_opts *opts, char **stem, char **extension)
{
    const char *base = path_basename(opts->paths[0]);
    if (strcmp(opts->paths[0], "-") == 0) {
        *stem = xstrdup("");
        *extension = opts->format == FORMAT_AUTO || opts->format == FORMAT_LINES
                         ? xstrdup("")
                         : xasprintf(".%s", record_format_name(opts->format));
        return;
    }
    cleanup_free char *name = xstrdup(base);
    if (packing_of_path(name) != PACK_NONE)
        name[strlen(name) - strlen(path_extension(name))] = '\0';
    const char *end = path_extension(name);
    *stem = xasprintf("%.*s.", (int)(strlen(name) - strlen(end)), name);
    *extension = xstrdup(end);
}

static bool is_folder(const char *path)
{
    size_t len = strlen(path);
    return (len > 0 && path[len - 1] == '/') || folder_exists(path);
}

static void names_in_folder(struct split_names *names, const char *folder,
                            const struct split_opts *opts)
{
    cleanup_free char *stem = NULL;
    input_name(opts, &stem, &names->after);
    cleanup_free char *name = xasprintf("%spart_", stem);
    names->before = path_join(folder, name);
}

static bool has_own_extension(const char *after, const struct split_opts *opts)
{
    cleanup_free char *stem = NULL, *extension = NULL, *name = xasprintf("0%s", after);
    input_name(opts, &stem, &extension);
    return extension[0] != '\0' && strcasecmp(path_extension(name), extension) == 0;
}

static int names_of_pattern(struct split_names *names, const char *pattern,
                            const struct split_opts *opts, struct err *err)
{
    const char *mark = strstr(pattern, number_mark);
    if (!mark)
        return fail(err, ERR_USAGE,
                    "'%s' is no folder, and no pattern either: put {n} where the number goes, or "
                    "end it with '/' for a folder that is to be made",
                    pattern);
    const char *after = mark + strlen(number_mark);
    if (strstr(after, number_mark))
        return fail(err, ERR_USAGE, "'%s' has {n} twice", pattern);
    if (strchr(after, '/'))
        return fail(err, ERR_USAGE, "'%s': {n} goes into the name of the file, not of its folder",
                    pattern);
    names->before = xstrndup(pattern, (size_t)(mark - pattern));
    names->after = xstrdup(after);
    names->has_parts = true;
    names->has_own_extension = has_own_extension(after, opts);
    return 0;
}

int split_names_init(struct split_names *names, const char *output, const struct split_opts *opts,
                     uint64_t digits_min, struct err *err)
{
    *names = (struct split_names){.digits = digits_min};
    bool is_stdin = strcmp(opts->paths[0], "-") == 0;
    if (output && !is_folder(output))
        return names_of_pattern(names, output, opts, err);
    if (!output && is_stdin)
        return fail(err, ERR_USAGE,
                    "stdin has no name to call its parts by; say -o FOLDER or -o 'part-{n}.csv'");
    cleanup_free char *beside = path_dirname(opts->paths[0]);
    bool is_here = !output && !strchr(opts->paths[0], '/');
    names_in_folder(names, output ? output : is_here ? "" : beside, opts);
    return 0;
}

int split_names_check(const struct split_names *names, enum record_format asked,
                      enum record_format format, struct err *err)
{
    if (!names->has_parts) /* in a folder parts have the input's extension */
        return 0;
    cleanup_free char *name = xasprintf("0%s", names->after);
    enum record_format named = record_format_of_path(name);
    if (out_packing_refuse(name, NULL) != 0)
        return fail(err, ERR_USAGE,
                    "'{n}%s': parts are not packed; name them without %s and pack them afterwards",
                    names->after, path_extension(name));
    /*
     * A name with the input's extension is accepted, as in a folder; so is any name if the user
     * stated the format. JSONL is lines as well.
     */
    bool is_known = names->has_own_extension || asked == format;
    bool is_lines = format == FORMAT_LINES && named == FORMAT_JSONL;
    bool is_other = named != FORMAT_LINES && named != format && !is_lines && !is_known;
    if (!is_other && (names->has_own_extension || out_format_check_path(name, NULL) == 0))
        return 0;
    return fail(err, ERR_USAGE,
                "the parts are %s, as the input is, and '{n}%s' names them as another format; "
                "muster merge INPUT -o FILE converts first",
                record_format_name(format), names->after);
}

void split_names_release(struct split_names *names)
{
    free(names->before);
    free(names->after);
    *names = (struct split_names){0};
}

static unsigned n_digits(const struct split_names *names, size_t n_parts)
{
    unsigned needed = 1;
    for (size_t last = n_parts - 1; last >= 10; last /= 10)
        needed++;
    return MAX(needed, (unsigned)names->digits);
}

/*
 * `text` with {parts} replaced by the number of parts, padded to the width of the parts' numbers.
 */
static char *expanded(const struct split_names *names, const char *text, size_t n_parts)
{
    struct buf out = BUF_INIT;
    const char *mark;
    while (names->has_parts && (mark = strstr(text, parts_mark))) {
        buf_add(&out, text, (size_t)(mark - text));
        buf_addf(&out, "%0*zu", (int)n_digits(names, n_parts), n_parts);
        text = mark + strlen(parts_mark);
    }
    buf_add_text(&out, text);
    return buf_steal(&out);
}

char *split_name_new(const struct split_names *names, size_t number, size_t n_parts)
{
    cleanup_free char *before = expanded(names, names->before, n_parts);
    cleanup_free char *after = expanded(names, names->after, n_parts);
    return xasprintf("%s%0*zu%s", before, (int)n_digits(names, n_parts), number, after);
}

char *split_journal_name_new(const struct split_names *names, size_t n_parts)
{
    cleanup_free char *before = expanded(names, names->before, n_parts);
    cleanup_free char *after = expanded(names, names->after, n_parts);
    return xasprintf("%s%s.naming", before, after);
}

/* Is `name` made of `before`, digits and `after`? */
static bool is_part_name(struct str name, struct str before, struct str after)
{
    if (!str_starts_with(name, before) || name.len <= before.len + after.len ||
        !str_ends_with(name, after))
        return false;
    for (size_t i = before.len; i < name.len - after.len; i++)
        if (name.at[i] < '0' || name.at[i] > '9')
            return false;
    return true;
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/*
 * Is the path one of the target's names? The names differ only in their numbers, which have one
 * width, so they are sorted.
 */
static bool is_of(const struct split_target *target, size_t n_parts, const char *path)
{
    return bsearch(&path, target->names, n_parts, sizeof(*target->names), name_compare) != NULL;
}

/*
 * The final name of a part that still has a temporary name beside its final one (base/outfile.h);
 * "" for other names.
 */
static struct str leftover_stem(struct str name)
{
    static const char digits[] = "0123456789";
    if (!str_ends_with(name, STR(".new")))
        return STR("");
    name.len -= strlen(".new");
    size_t len = name.len;
    while (len > 0 && (strchr(digits, name.at[len - 1]) || name.at[len - 1] == '-'))
        len--;
    bool has_pid = len > 0 && name.at[len - 1] == '.' && memchr(name.at + len, '-', name.len - len);
    return has_pid ? (struct str){name.at, len - 1} : name;
}

static void list_add(struct split_list *list, char *path)
{
    list->paths = xrealloc(list->paths, (list->n_paths + 1) * sizeof(*list->paths));
    list->paths[list->n_paths++] = path;
}

static void list_sort(struct split_list *list)
{
    if (list->n_paths > 0)
        qsort(list->paths, list->n_paths, sizeof(*list->paths), name_compare);
}

void split_list_release(struct split_list *list)
{
    for (size_t i = 0; i < list->n_paths; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct split_list){0};
}

/*
 * Called when the target folder does not exist. Finds half-made folders beside it, left by splits
 * that were killed before they renamed them.
 */
static void folders_find(const char *folder, struct split_list *leftovers)
{
    cleanup_free char *above = path_dirname(folder);
    struct str wanted = str_of(path_basename(folder));
    DIR *dir = opendir(above);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        cleanup_free char *path = path_join(above, entry->d_name);
        if (str_equal(leftover_stem(str_of(entry->d_name)), wanted) && folder_exists(path) &&
            !folder_is_empty(path))
            list_add(leftovers, steal_ptr(&path));
    }
    if (dir)
        closedir(dir);
    list_sort(leftovers);
}

int split_stale_find(const struct split_names *names, const struct split_target *target,
                     size_t n_parts, struct split_list *stale, struct split_list *leftovers,
                     struct err *err)
{
    cleanup_free char *before = expanded(names, names->before, n_parts);
    cleanup_free char *after = expanded(names, names->after, n_parts);
    struct str begin = str_of(path_basename(before)), end = str_of(after);
    DIR *dir = opendir(target->folder);
    if (!dir && errno == ENOENT) {
        folders_find(target->folder, leftovers);
        return 0;
    }
    if (!dir)
        return fail_errno_as(err, ERR_USAGE, "open folder %s", target->folder);
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        bool is_part = is_part_name(str_of(entry->d_name), begin, end);
        if (!is_part && !is_part_name(leftover_stem(str_of(entry->d_name)), begin, end))
            continue;
        size_t prefix = strlen(before) - begin.len;
        cleanup_free char *path = xasprintf("%.*s%s", (int)prefix, before, entry->d_name);
        if (!is_part || !is_of(target, n_parts, path))
            list_add(is_part ? stale : leftovers, steal_ptr(&path));
    }
    closedir(dir);
    list_sort(stale);
    list_sort(leftovers);
    return 0;
}
