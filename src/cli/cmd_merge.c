/* SPDX-License-Identifier: Apache-2.0
 *
 * muster merge: checks files on disk and joins them into one.
 */
#include <ctype.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/named_files.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "cli/merge_tensors.h"
#include "cli/run_arg.h"
#include "cli/score_arg.h"
#include "data/file_merge/file_merge.h"
#include "data/inputs.h"
#include "shell/claim.h"
#include "tensor/inspect.h"
#include "tensor/torch/torch_merge.h"

enum {
    FILES_OF_OURS = 128
};

struct merge_request {
    const char *out_path;
    struct merge_options options;
    enum record_format format;
    enum out_format format_out;
    uint64_t expect;
    struct score_opts score;
    bool is_checked, force, inspect, reflink, dry_run, json, quiet;
};

/* Compares numbers in names by value: part_2 comes before part_10. */
static int natural_compare(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a += strspn(a, "0");
            b += strspn(b, "0");
            size_t n_a = strspn(a, "0123456789"), n_b = strspn(b, "0123456789");
            int order = n_a != n_b ? (n_a < n_b ? -1 : 1) : memcmp(a, b, n_a);
            if (order != 0)
                return order;
            a += n_a;
            b += n_b;
        } else if (*a++ != *b++) {
            return (unsigned char)a[-1] < (unsigned char)b[-1] ? -1 : 1;
        }
    }
    return (*a != '\0') - (*b != '\0');
}

/* True if the names differ only in their numbers. */
static bool is_series(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    while (*a && *b) {
        bool has_digits = isdigit((unsigned char)*a) && isdigit((unsigned char)*b);
        if (!has_digits && *a != *b)
            return false;
        a += has_digits ? strspn(a, digits) : 1;
        b += has_digits ? strspn(b, digits) : 1;
    }
    return *a == *b;
}

/* Warns if a shell's glob has put part_10 before part_2, since the records will have that order. */
static void order_warn(const struct app *app, char **paths, size_t n_paths)
{
    for (size_t i = 1; i < n_paths; i++) {
        if (!is_series(paths[i - 1], paths[i]) || natural_compare(paths[i - 1], paths[i]) <= 0)
            continue;
        say(app,
            "merge: %s comes before %s, as named; if their numbers are the order, name them by "
            "$(ls -v ...)",
            paths[i - 1], paths[i]);
        return;
    }
}

static void file_add(struct buf *out, const char *name, uint64_t n_records, bool is_json)
{
    char count[32];
    count_format(count, n_records);
    if (!is_json) {
        buf_addf(out, "%14s  ", count);
        console_visible_add(out, str_of(name));
        buf_add_char(out, '\n');
        return;
    }
    buf_add_text(out, "{\"file\":");
    buf_add_json(out, str_of(name));
    buf_addf(out, ",\"records\":%lu}\n", n_records);
}

/* Prints what would be done, one line for each file. */
static int plan_print(const struct merge_request *ask, char **paths, size_t n_paths,
                      const struct file_merge_stats *stats, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    if (!ask->json)
        buf_addf(&out, "%14s  FILE (%s)\n", "RECORDS", record_format_name(stats->format));
    for (size_t i = 0; i < n_paths; i++)
        file_add(&out, paths[i], stats->file_records[i], ask->json);
    if (!ask->json) {
        char count[32];
        count_format(count, stats->n_records);
        buf_addf(&out, "%14s  would go into ", count);
        console_visible_add(&out, str_of(ask->out_path));
        buf_addf(&out, " (%s)\n", out_format_name(stats->out_format));
    }
    return (ask->json ? objects_put : stdout_put)(buf_str(&out), err);
}

static void done_say(const struct app *app, const struct merge_request *ask, size_t n_files,
                     const struct file_merge_stats *stats)
{
    char records[32], bytes[16];
    count_format(records, stats->n_records);
    size_format(bytes, stats->n_bytes);
    if (stats->is_metadata)
        say(app, "%zu file%s of metadata into %s", n_files, plural(n_files), ask->out_path);
    else
        say(app, "%s record%s of %zu file%s into %s (%s)", records, plural(stats->n_records),
            n_files, plural(n_files), ask->out_path, bytes);
}

static int score_take(void *context, struct str object, struct err *err)
{
    return score_add(context, object, err);
}

static int score_end(void *context, struct err *err)
{
    return score_check(context, err);
}

/* If the records go to stdout, the figures go to stderr. */
static int score_show(const struct merge_request *ask, const struct score *score, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    if (ask->json)
        score_print_json(score, &out);
    else
        score_print(score, &out);
    if (strcmp(ask->out_path, "-") == 0 && !ask->dry_run)
        return write_all(STDERR_FILENO, out.at, out.len, err);
    return ask->dry_run ? stdout_put(buf_str(&out), err)
                        : stdout_put_after(buf_str(&out), "the output is in place", err);
}

static struct file_merge_opts opts_of(const struct merge_request *ask, struct merging *merging,
                                      const struct merge_rules *rules, struct score *score)
{
    return (struct file_merge_opts){
        .format = ask->format,
        .out_format = ask->format_out,
        .rules = rules,
        .id_field = ask->options.id_field,
        .is_union = ask->options.is_union,
        .is_checked = ask->is_checked,
        .expect = ask->expect,
        .force = ask->force,
        .look = score ? score_take : NULL,
        .look_end = score ? score_end : NULL,
        .look_context = score,
        .note = merging_note,
        .placing = merging_placing,
        .context = merging,
    };
}

static int files_merge(struct merging *merging, const struct merge_request *ask, char **argv,
                       size_t n_files, struct score *score, struct err *err)
{
    struct merge_rules rules = {0};
    const struct file_merge_opts opts = opts_of(ask, merging, &rules, score);
    cleanup_free uint64_t *file_records = xcalloc(n_files, sizeof(*file_records));
    struct file_merge_stats stats = {.file_records = file_records};
    const char *const *paths = (const char *const *)argv;
    int rc = merge_rules_take(&rules, &ask->options.rules, ask->options.rules_path, err);
    if (rc == 0)
        rc = ask->dry_run ? file_merge_check(&opts, paths, n_files, ask->out_path, &stats, err)
                          : file_merge_write(&opts, paths, n_files, ask->out_path, &stats, err);
    merge_rules_release(&rules);
    if (rc)
        return rc;
    if (ask->dry_run)
        return plan_print(ask, argv, n_files, &stats, err);
    done_say(merging->app, ask, n_files, &stats);
    return 0;
}

/* ---- files of tensors ---- */

static struct tensors_request tensors_wanted(const struct merge_request *ask)
{
    return (struct tensors_request){
        .out_path = ask->out_path,
        .options = &ask->options,
        .expect = ask->expect,
        .force = ask->force,
        .dry_run = ask->dry_run,
        .reflink = ask->reflink,
    };
}

/* Refuses options for records if the files are tensors, and the reverse; of files of tensors, only those of
 * torch have records and objects. */
static int wishes_check(const struct merge_request *ask, enum tensor_kind kind, struct err *err)
{
    bool is_about_lines = ask->options.is_union || ask->is_checked || ask->score.true_field.at;
    bool is_about_torch = ask->options.pass_through || ask->options.is_renumbered ||
                          ask->options.referred.len > 0 || ask->options.is_plain ||
                          ask->options.is_compact || ask->reflink;
    bool is_about_records = ask->options.id_field || ask->expect != UINT64_MAX;
    if (kind == TENSOR_NONE)
        return !is_about_torch
                   ? 0
                   : fail(
                         err, ERR_USAGE,
                         "--renumber, --renumber-path, --plain, --compact, --pass-through and --reflink are about "
                         "files of tensors, and these are none");
    if (is_about_lines)
        return fail(err, ERR_USAGE,
                    "--union, --check and --score are about records; files of tensors are merged "
                    "by --rule");
    if (kind != TENSOR_TORCH && (is_about_torch || is_about_records))
        return fail(
            err, ERR_USAGE,
            "--id, --expect, --renumber, --renumber-path, --plain, --compact, --reflink and "
            "--pass-through are about files of torch, and these are %s",
            tensor_kind_name(kind));
    return 0;
}

/* The file of figures must not replace an input or the output. */
static int figures_check(const struct merge_request *ask, char **argv, size_t n_files,
                         struct err *err)
{
    size_t n = 0;
    cleanup_free struct named_file *files = xcalloc(n_files + 2, sizeof(*files));
    files[n++] = (struct named_file){ask->score.out_path, "--score-out", true};
    files[n++] = (struct named_file){ask->out_path, "-o", false};
    for (size_t i = 0; i < n_files; i++)
        files[n++] = (struct named_file){argv[i], "a file to merge", false};
    return named_files_free(files, n, ask->force, err);
}

static int formats_check(const struct merge_request *ask, enum tensor_kind kind, struct err *err)
{
    bool is_said = ask->format != FORMAT_AUTO || ask->format_out != OUT_AUTO;
    if (kind != TENSOR_NONE && is_said)
        return fail(err, ERR_USAGE,
                    "--format and --format-out are about records, and these are tensors");
    return tensors_output_check(kind, ask->out_path, err);
}

/*
 * Shows all files that can be read, also those after a damaged one. Texts from files are printed as JSON in the table
 * too.
 */
static int files_inspect(const struct merge_request *ask, char **paths, size_t n_files,
                         struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < n_files; i++) {
        cleanup_buf struct buf out = BUF_INIT;
        struct err why = {0};
        int failed = inspect_file(paths[i], ask->json, &out, &why);
        if (failed && rc == 0) {
            rc = failed;
            *err = why;
        } else if (failed) {
            talk("%s", why.text);
        } else if (objects_put(buf_str(&out), err) != 0) {
            return err->code;
        }
    }
    return rc;
}

static int records_merge(struct merging *merging, const struct merge_request *ask, char **argv,
                         size_t n_files, struct err *err)
{
    struct score *score = ask->score.true_field.at ? score_new(&ask->score) : NULL;
    int rc = files_merge(merging, ask, argv, n_files, score, err);
    if (rc == 0 && score)
        rc = score_show(ask, score, err);
    if (rc == 0 && score && !ask->dry_run)
        rc = score_write(score, err);
    score_free(score);
    return rc;
}

static int kind_merge(struct merging *merging, const struct merge_request *ask, char **argv,
                      size_t n_files, struct err *err)
{
    enum tensor_kind kind = TENSOR_NONE;
    const struct tensors_request tensors = tensors_wanted(ask);
    int rc = tensors_look(argv, n_files, &kind, err);
    if (rc == 0)
        rc = wishes_check(ask, kind, err);
    if (rc == 0)
        rc = formats_check(ask, kind, err);
    if (rc)
        return rc;
    return kind == TENSOR_NONE ? records_merge(merging, ask, argv, n_files, err)
                               : tensors_merge(merging, &tensors, kind, argv, n_files, err);
}

/* What another command is at work on is not read for in vain. A dry run writes nothing. */
static int outputs_claim(const struct merge_request *ask, struct output_claim *claim,
                         struct err *err)
{
    if (ask->dry_run)
        return 0;
    int rc = output_claim_add(claim, ask->out_path, err);
    return rc || !ask->score.out_path ? rc : output_claim_add(claim, ask->score.out_path, err);
}

static int merge_run(struct app *app, void *request, int argc, char **argv, char **command,
                     struct err *err)
{
    (void)command;
    const struct merge_request *ask = request;
    size_t n_files = (size_t)argc;
    app->quiet = ask->quiet;
    if (n_files == 0)
        return fail(err, ERR_USAGE, "no files are named");
    if (ask->inspect && (ask->out_path || ask->options.rules.len > 0 || ask->options.rules_path))
        return fail(err, ERR_USAGE,
                    "--inspect shows what is in the files and merges nothing: leave out -o, --rule "
                    "and --rules");
    if (ask->inspect)
        return files_inspect(ask, argv, n_files, err);
    if (!ask->out_path)
        return fail(err, ERR_USAGE,
                    "-o is needed: the file for the result, or - for standard output");
    if (ask->options.is_renumbered && !ask->options.id_field)
        return fail(err, ERR_USAGE, "--renumber changes the ids that --id names; give --id too");
    for (size_t i = 0; i < ask->options.referred.len; i++)
        if (torch_refer_check(ask->options.referred.at[i], err) != 0)
            return err->code;
    order_warn(app, argv, n_files);
    (void)open_files_allow(n_files + FILES_OF_OURS); /* each compressed file has a temporary file */
    int rc = score_opts_check(&ask->score, err);
    if (rc == 0 && ask->score.out_path)
        rc = figures_check(ask, argv, n_files, err);
    struct output_claim claim = OUTPUT_CLAIM_INIT;
    rc = rc ? rc : outputs_claim(ask, &claim, err);
    if (rc) {
        output_claim_release(&claim);
        return rc;
    }
    struct inputs *inputs = inputs_new((const char *const *)argv, n_files);
    rc = kind_merge(&(struct merging){app, inputs}, ask, argv, n_files, err);
    inputs_free(inputs);
    output_claim_release(&claim);
    return rc;
}

static void merge_defaults(void *request)
{
    *(struct merge_request *)request = (struct merge_request){.expect = UINT64_MAX};
}

#define FIELD(name) offsetof(struct merge_request, name)

/* clang-format off */
static const struct opt merge_opts[] = {
    {OPT_HEADING, .help = "Input and output"},
    {OPT_TEXT, 'o', "output", "FILE", "where the merged records or tensors go; - is standard output, for records only", FIELD(out_path)},
    {OPT_FLAG, 'f', "force", NULL, "replace an output that exists", FIELD(force)},
    {OPT_CHOICE, 0, "format", "FORMAT", "format of the files: lines, jsonl, json, csv, tsv (default: by extension, else by the first bytes)", FIELD(format), .choices = record_formats},
    {OPT_CHOICE, 0, "format-out", "FORMAT", "format of the output: lines, jsonl, json, csv, tsv (default: by extension, else as the files are)", FIELD(format_out), .choices = out_formats},
    {OPT_FLAG, 'u', "union", NULL, "accept files with different columns; a column that a file lacks is empty in its rows", FIELD(options.is_union)},
    {OPT_HEADING, .help = "What must hold"},
    {OPT_TEXT, 'i', "id", "FIELD", "check that every record has this field, and that no two have the same value in it; for .pt files and files of one JSON object each give a path, such as questions.*.question_id", FIELD(options.id_field)},
    {OPT_U64, 'e', "expect", "N", "expect N records in all, or by the counts in metadata; another number is exit status 1", FIELD(expect)},
    {OPT_FLAG, 0, "check", NULL, "check that every line of JSONL is a JSON value, not only the last one of a file", FIELD(is_checked)},
    SCORE_OPTS('s', 'b', 'p', FIELD(score)),
    {OPT_HEADING, .help = "Files of tensors"},
    {OPT_FLAG, 0, "inspect", NULL, "show what is in .pt, .safetensors, .npy and .npz files: keys, types, shapes, bytes; nothing in them is run", FIELD(inspect)},
    {OPT_TEXTS, 'r', "rule", "PATH=VERB", "how to merge the values at this path in files of tensors, and in files of one JSON object each: concat, cat0, sum, sum-by-key, same, first, max, merged, collect, union, deep, drop, A/B; +PATH=count, collect or A/B adds a key (may be repeated)", FIELD(options.rules)},
    {OPT_TEXT, 0, "rules", "FILE", "read rules from a file, one per line", FIELD(options.rules_path)},
    {OPT_FLAG, 0, "renumber", NULL, "if ids of --id are not unique, renumber all of them in the order of the output", FIELD(options.is_renumbered)},
    {OPT_TEXTS, 0, "renumber-path", "PATH=REF,...", "if files share ids at PATH, give all of these ids new numbers, and change the references at each REF to match (.pt files; may be repeated)", FIELD(options.referred)},
    {OPT_FLAG, 0, "plain", NULL, "turn NumPy's scalars and arrays into plain numbers, texts and tensors, so that torch.load loads the output by default", FIELD(options.is_plain)},
    {OPT_FLAG, 0, "compact", NULL, "leave out bytes of storages that no tensor uses", FIELD(options.is_compact)},
    {OPT_FLAG, 0, "pass-through", NULL, "copy objects of unknown classes unchanged and unchecked", FIELD(options.pass_through)},
    {OPT_FLAG, 0, "reflink", NULL, "let tensors of 64 KiB and more share blocks with the inputs if the file system supports it (XFS, Btrfs); their bytes are then not checked", FIELD(reflink)},
    {OPT_HEADING, .help = "Messages"},
    {OPT_FLAG, 'n', "dry-run", NULL, "look through the files and say what would be done; write nothing", FIELD(dry_run)},
    {OPT_FLAG, 0, "json", NULL, "print tables as one JSON object per line", FIELD(json)},
    {OPT_FLAG, 'q', "quiet", NULL, "nothing on stderr but errors", FIELD(quiet)},
    {OPT_END},
};
/* clang-format on */

static const char *const merge_examples[] = {
    "muster merge part_*.jsonl -o all.jsonl --id question_id --expect 400",
    "four hundred questions, each once",
    "muster merge gpu0.csv gpu1.csv -o results.csv",
    "rows in the order of the files, one header",
    "muster merge gpu_*.pt -o all.pt --rule 'metadata.gpu_id=drop'",
    "what torch.save wrote on each GPU, as one file",
    NULL,
};

const struct cmd cmd_merge = {
    .name = "merge",
    .args = "[OPTION]... -o OUT FILE...",
    .summary = "check files of results and join them into one",
    .details = "Files are joined in the order given. Lines, JSONL, JSON arrays, CSV and TSV; files "
               "that hold one JSON object each are metadata and become one object; files of "
               "torch.save are merged by rules, without running them. Bytes that need not "
               "change are copied unchanged. Nothing is put in place if anything is wrong.",
    .opts = merge_opts,
    .examples = merge_examples,
    .request_size = sizeof(struct merge_request),
    .defaults = merge_defaults,
    .run = merge_run,
};
