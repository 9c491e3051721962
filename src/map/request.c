/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the request against what exists, the cheapest and most likely mistakes first, before anything is
 * made.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/named_files.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "data/format.h"
#include "map/output_identity.h"
#include "map/outputs.h"
#include "map/work.h"
#include "store/own_files.h"

enum {
    LINE_MAX_LEAST = 4096 /* less might not hold even a message without its result */
};

void map_request_defaults(void *request)
{
    struct map_request *r = request;
    r->schedule.retries = 2;
    r->schedule.seed = 42;
    r->run.grace_ms = 10000;
    r->run.line_max_bytes = (uint64_t)256 << 20;
    r->run.log_level = LOG_INFO;
}

/* Files that are written beside the output, and what they are. */
static const struct {
    const char *suffix, *what;
} replaced[] = {
    {"", "the output as well"},
    {".new", "where the output is written to before it is put in place"},
    {".failed.jsonl", "where the failed items are written to"},
    {".failed.jsonl.new", "where the failed items are written to"},
};

static int input_check(const char *input, const char *out_path, struct err *err)
{
    cleanup_free char *base = output_base_new(out_path);
    for (size_t i = 0; i < countof(replaced); i++) {
        cleanup_free char *path = xasprintf("%s%s", base, replaced[i].suffix);
        if (!output_is_direct(path) && path_is_same(input, path))
            return fail(err, ERR_USAGE,
                        "the input %s is %s (-o %s); rename it, or name another output", input,
                        replaced[i].what, out_path);
    }
    return 0;
}

static bool folder_holds(const char *folder, const char *path)
{
    cleanup_free char *parent = path_dirname(path);
    return path_exists(folder) && path_is_same(folder, parent);
}

/* Refuses an input in a folder for shards' files, whose names are not known yet. */
static int input_check_folder(const char *input, const char *folder, struct err *err)
{
    cleanup_free char *real = realpath(input, NULL);
    if (!folder_holds(folder, input) && !(real && folder_holds(folder, real)))
        return 0;
    return fail(err, ERR_USAGE,
                "the input %s lies in the output folder %s, where a shard's file may take its "
                "place; name another folder",
                input, folder);
}

static int input_check_beside(const char *input, const char *path, struct err *err)
{
    return (output_is_folder(path) ? input_check_folder : input_check)(input, path, err);
}

/* The run must not replace a file that it reads, now or when it is resumed. */
static int inputs_differ(const struct map_request *r, struct err *err)
{
    bool is_stdout = strcmp(r->out_path, "-") == 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n_inputs; i++) {
        if (strcmp(r->inputs[i], "-") == 0)
            continue;
        if (!is_stdout)
            rc = input_check(r->inputs[i], r->out_path, err);
        for (size_t k = 0; rc == 0 && k < also_len(r); k++)
            rc = input_check_beside(r->inputs[i], also_path(r, k), err);
        if (rc == 0 && output_is_folder(r->out_path))
            rc = input_check_folder(r->inputs[i], r->out_path, err);
        if (rc == 0 && r->run.run_dir)
            rc = own_files_check_input(r->inputs[i], r->run.run_dir, err);
    }
    return rc;
}

/* All that the run writes outside its folder, then all that it reads. */
static struct named_file *files_new(const struct map_request *r, const char *failed_list, size_t *n)
{
    struct named_file *files = xcalloc(also_len(r) + r->n_inputs + 3, sizeof(*files));
    *n = 0;
    files[(*n)++] = (struct named_file){r->out_path, "-o", true};
    files[(*n)++] = (struct named_file){failed_list, "the list of failed items", true};
    files[(*n)++] = (struct named_file){r->score.out_path, "--score-out", true};
    for (size_t i = 0; i < also_len(r); i++)
        files[(*n)++] = (struct named_file){also_path(r, i), "--also", true};
    for (size_t i = 0; i < r->n_inputs; i++)
        files[(*n)++] = (struct named_file){r->inputs[i], "the input", false};
    return files;
}

/* A file that the run writes may not be one that it reads, another one that it writes, or one of its own folder. */
static int outputs_differ(const struct map_request *r, struct err *err)
{
    size_t n;
    cleanup_free char *base = output_base_new(r->out_path);
    cleanup_free char *failed_list =
        output_is_direct(r->out_path) ? NULL : xasprintf("%s.failed.jsonl", base);
    cleanup_free struct named_file *files = files_new(r, failed_list, &n);
    int rc = named_files_check(files, n, err);
    for (size_t i = 0; rc == 0 && r->run.run_dir && i < n; i++)
        if (files[i].is_written && files[i].path)
            rc = own_files_check_output(&files[i], r->run.run_dir, err);
    return rc;
}

/* False for a file that muster did not write: another command's output may have such a name. */
static bool is_failed_list(const char *path)
{
    char first[8];
    struct stat st;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    ssize_t got = read(fd, first, sizeof(first));
    return got == 0 || (got == sizeof(first) && memcmp(first, "{\"item\":", sizeof(first)) == 0);
}

/* Checks that the list of failed items can be written when all the work is done. Only its final name is checked:
 * if the temporary name, which is longer, is too long, outfile.h takes a short one. */
static int failed_list_check(const char *out_path, bool overwrite, struct err *err)
{
    cleanup_free char *base = output_base_new(out_path);
    cleanup_free char *path = xasprintf("%s.failed.jsonl", base);
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode) && !overwrite && !is_failed_list(path))
        return fail(err, ERR_USAGE,
                    "%s exists and is no list of failed items, which would take its place; move "
                    "it, name another output, or replace it by --force",
                    path);
    if (lstat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? fail(err, ERR_USAGE,
                                          "%s is a folder, and failed items are listed in a file "
                                          "of that name; move it, or name another output",
                                          path)
                                   : 0;
    if (errno != ENAMETOOLONG)
        return 0;
    return fail(err, ERR_USAGE,
                "the output's name is too long: failed items are listed in a file called <name>"
                ".failed.jsonl, and the name has %zu bytes",
                strlen(path_basename(base)));
}

/* A folder for the shards' files must be new or empty, or given with --force. */
static int folder_check(const char *folder, bool overwrite, struct err *err)
{
    cleanup_free char *path = output_base_new(folder);
    cleanup_free char *parent = path_dirname(path);
    struct stat st;
    if (stat(folder, &st) != 0 && errno == ENOTDIR)
        return fail(err, ERR_USAGE, "the output %s is a file, not a folder", path);
    if (stat(folder, &st) != 0)
        return access(parent, W_OK) == 0
                   ? 0
                   : fail_errno_as(err, ERR_USAGE, "the output's folder %s", parent);
    if (access(folder, W_OK) != 0)
        return fail_errno_as(err, ERR_USAGE, "the output %s", folder);
    if (!overwrite && !folder_is_empty(folder))
        return fail(err, ERR_USAGE,
                    "the output folder %s is not empty; --force puts the files beside what is "
                    "there",
                    folder);
    return 0;
}

/* Checks that a file can be put at `path`. */
static int place_check(const char *path, bool overwrite, struct err *err)
{
    struct stat st;
    int rc = out_packing_refuse(path, err);
    if (rc)
        return rc;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return fail(err, ERR_USAGE, "the output %s is a folder", path);
    if (stat(path, &st) == 0 && (S_ISSOCK(st.st_mode) || S_ISBLK(st.st_mode)))
        return fail(err, ERR_USAGE,
                    "the output %s is a %s; name a file, a pipe, or - for standard output", path,
                    S_ISSOCK(st.st_mode) ? "socket" : "block device");
    if (output_is_direct(path)) /* /dev/null, a pipe: nothing is replaced */
        return 0;
    cleanup_free char *place = NULL;
    rc = output_follow(path, &place, err);
    if (rc)
        return rc;
    if (!overwrite && path_exists(path))
        return fail(err, ERR_USAGE, "the output %s exists; --force replaces it", path);
    cleanup_free char *folder = path_dirname(place);
    if (stat(folder, &st) == 0 && !S_ISDIR(st.st_mode))
        return fail(err, ERR_USAGE, "the output's folder %s is a file", folder);
    if (access(folder, W_OK) != 0)
        return fail_errno_as(err, ERR_USAGE, "the output's folder %s", folder);
    return 0;
}

static int output_check(const struct map_request *r, struct err *err)
{
    if (!r->out_path || !r->out_path[0])
        return fail(err, ERR_USAGE,
                    "no output: say where the results go with -o FILE (- is standard output)");
    bool is_stdout = strcmp(r->out_path, "-") == 0;
    if (is_stdout && r->run.detach)
        return fail(err, ERR_USAGE,
                    "--detach leaves standard output as well: name the output with -o FILE");
    int rc = inputs_differ(r, err);
    rc = rc ? rc : outputs_differ(r, err);
    if (rc || is_stdout)
        return rc;
    if (!output_is_direct(r->out_path))
        rc = failed_list_check(r->out_path, r->overwrite, err);
    if (rc)
        return rc;
    if (output_is_folder(r->out_path))
        return folder_check(r->out_path, r->overwrite, err);
    bool is_named_by_format = r->format_out != OUT_AUTO || !r->work->keeps_workers;
    rc = is_named_by_format ? 0 : out_format_check_path(r->out_path, err);
    return rc ? rc : place_check(r->out_path, r->overwrite, err);
}

/* A file that the run itself put there, before it was killed, may be replaced. */
static int also_outputs_check(const struct map_request *r, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < also_len(r); i++) {
        cleanup_free char *named =
            r->resume_dir ? output_path_new(also_path(r, i), r->resume_dir) : NULL;
        const char *path = named ? named : also_path(r, i);
        bool to_folder = output_is_folder(path);
        bool is_own = r->resume_dir && (to_folder ? output_folder_is_begun(r->resume_dir, i + 1)
                                                  : output_identity_is(r->resume_dir, i + 1, path));
        rc = (to_folder ? folder_check : place_check)(path, r->overwrite || is_own, err);
    }
    return rc;
}

/* Checks --score now: the figures are computed of the output, when all the work is done. */
static int score_check_request(const struct map_request *r, struct err *err)
{
    int rc = score_opts_check(&r->score, err);
    if (rc || !r->score.true_field.at || !r->out_path)
        return rc;
    enum out_format out =
        r->format_out == OUT_AUTO ? out_format_of_path(r->out_path) : r->format_out;
    if (strcmp(r->out_path, "-") == 0 || output_is_folder(r->out_path) || out == OUT_LINES)
        return fail(err, ERR_USAGE,
                    "--score reads two fields of the output's records: name the output .jsonl, "
                    ".json, .csv or .tsv (--join writes the input's fields into it as well)");
    return r->score.out_path ? place_check(r->score.out_path, r->overwrite, err) : 0;
}

/* A resume reads the copy in the run's folder. */
static int stdin_check(const struct map_request *r, struct err *err)
{
    struct stat st;
    bool is_read = false;
    for (size_t i = 0; i < r->n_inputs; i++)
        is_read = is_read || strcmp(r->inputs[i], "-") == 0;
    if (!is_read || r->resume_dir)
        return 0;
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    /* If standard input was closed, the program's start has put a write-only descriptor there. */
    if (flags < 0 || fstat(STDIN_FILENO, &st) != 0 || (flags & O_ACCMODE) == O_WRONLY)
        return fail(err, ERR_USAGE,
                    "the input -, standard input, is closed, or open for writing only");
    return S_ISDIR(st.st_mode)
               ? fail(err, ERR_USAGE,
                      "the input -, standard input, is a folder; name the files in it")
               : 0;
}

int request_check(const struct map_request *r, struct err *err)
{
    if (!r->command || !r->command[0])
        return fail(err, ERR_USAGE, "no command: put the worker's command behind --");
    int rc = score_check_request(r, err);
    if (rc)
        return rc;
    if (r->n_inputs == 0 && r->work->keeps_workers)
        return fail(err, ERR_USAGE, "no input: name a data file (- is standard input)");
    rc = stdin_check(r, err);
    if (rc)
        return rc;
    if (r->run.line_max_bytes < LINE_MAX_LEAST)
        return fail(err, ERR_USAGE, "--line-max: at least %d bytes are needed", LINE_MAX_LEAST);
    if (r->schedule.fixed_batches && r->schedule.batch == 0)
        return fail(err, ERR_USAGE, "--fixed-batches needs --batch N");
    if (r->schedule.fixed_batches && (r->schedule.longest_first || r->schedule.weight_field))
        return fail(err, ERR_USAGE, "--fixed-batches and longest-first exclude each other");
    if (r->join && r->any_order)
        return fail(err, ERR_USAGE, "--join needs the input's order; leave out --order any");
    /* With hosts, each host looks for the program; with --setup, the setup may decide where it is found. */
    if (!r->allocation.hosts && !r->environment.setup)
        rc = program_check(r->command[0], err);
    if (rc == 0)
        rc = output_check(r, err);
    return rc ? rc : also_outputs_check(r, err);
}

void request_work(const struct map_request *r, struct buf *json_out)
{
    buf_addf(json_out, "{\"limit\":%lu,\"raw\":%s,\"fixed_batches\":%lu", r->limit,
             r->is_raw ? "true" : "false", r->schedule.fixed_batches ? r->schedule.batch : 0);
    if (r->work->identity_add)
        r->work->identity_add(r, json_out);
    if (r->format != FORMAT_AUTO)
        buf_addf(json_out, ",\"format\":\"%s\"", record_format_name(r->format));
    buf_add_char(json_out, '}');
}

char *output_name_new(const char *out_path)
{
    return strcmp(out_path, "-") == 0 ? xstrdup("-") : path_absolute(out_path);
}
