/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of files that each shard leaves: how they are read, and where the files of each kind
 * go.
 */
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "data/format.h"
#include "map/outputs.h"
#include "rule/rule.h"
#include "shard/shard.h"
#include "tensor/torch/torch_merge.h"

const char *shard_kind_option(size_t kind)
{
    return kind == 0 ? "--collect" : "--also";
}

const char *shard_kind_uncounted(size_t kind)
{
    return kind == 0 ? "--any-count" : "--also";
}

enum tensor_kind shard_tensors(const char *path)
{
    return tensor_kind_of_name(path);
}

/*
 * Returns the extension if files of this format cannot be joined, compressed or not. A file with
 * any other unknown extension is read in the format of the output.
 */
const char *shard_joinless(const char *path)
{
    static const char *const joinless[] = {
        ".pt",      ".pth",     ".npy",  ".npz",    ".safetensors", ".parquet",  ".arrow",
        ".feather", ".pkl",     ".bin",  ".h5",     ".hdf5",        ".tar",      ".png",
        ".wav",     ".msgpack", ".ckpt", ".pickle", ".gguf",        ".tfrecord",
    };
    cleanup_free char *unpacked = xstrdup(path);
    if (shard_tensors(path) != TENSOR_NONE)
        return NULL;
    if (packing_of_path(path) != PACK_NONE)
        *strrchr(unpacked, '.') = '\0';
    else if (out_packing_refuse(path, NULL) != 0) /* packed, and not as what is read */
        return path_extension(path);
    for (size_t i = 0; i < countof(joinless); i++)
        if (strcasecmp(path_extension(unpacked), joinless[i]) == 0)
            return joinless[i];
    return NULL;
}

/* ---- --also GLOB=FILE ---- */

static char *also_glob_new(const struct map_request *r, size_t index)
{
    const char *text = also_text(r, index);
    return xstrndup(text, (size_t)(also_path(r, index) - text) - 1);
}

static int also_check(const struct map_request *r, size_t index, struct err *err)
{
    const char *path = also_path(r, index);
    if (!path)
        return fail(err, ERR_USAGE,
                    "--also '%s' does not say where its files go; write GLOB=FILE, such as "
                    "'out/*_{suffix}_metadata.json=metadata.json'",
                    also_text(r, index));
    if (strcmp(path, "-") == 0)
        return fail(err, ERR_USAGE,
                    "--also '%s': standard output (-) is not possible here; name a file, or a "
                    "folder with a slash at its end",
                    also_text(r, index));
    return 0;
}

/* ---- what fits together ---- */

/* Files of tensors can be joined into a file of the same kind, and records into records. */
static int tensors_check(const char *option, const char *glob, const char *out, struct err *err)
{
    enum tensor_kind found = glob ? shard_tensors(glob) : TENSOR_NONE, made = shard_tensors(out);
    if (found != TENSOR_NONE && found != made)
        return fail(err, ERR_USAGE,
                    "%s names files of tensors, and they become one such file: %s needs the "
                    "extension %s",
                    option, out, path_extension(glob));
    if (made != TENSOR_NONE && glob && record_format_is_named(glob))
        return fail(err, ERR_USAGE,
                    "%s is a file of tensors, and %s '%s' names files of records; they become "
                    "such a file",
                    out, option, glob);
    return 0;
}

static int output_fits(size_t kind, const char *glob, const char *out, struct err *err)
{
    const char *option = shard_kind_option(kind);
    const char *joinless = glob ? shard_joinless(glob) : NULL;
    if (!joinless)
        joinless = shard_joinless(out);
    if (joinless && kind > 0)
        return fail(err, ERR_USAGE,
                    "--also: %s files cannot be joined into one; GLOB=FOLDER/, with a slash at its "
                    "end, puts them there as they are",
                    joinless);
    if (joinless)
        return fail(err, ERR_USAGE,
                    "%s files cannot be joined into one; -o FOLDER/, with a slash at its end, puts "
                    "the shards' files there as they are",
                    joinless);
    return tensors_check(option, glob, out, err);
}

/* The kinds of all outputs, as bits 1 << enum tensor_kind. */
static unsigned kinds_made(const struct map_request *r)
{
    unsigned made = 0;
    if (r->out_path && !output_is_folder(r->out_path))
        made |= 1u << shard_tensors(r->out_path);
    for (size_t i = 0; i < also_len(r); i++)
        made |= 1u << shard_tensors(also_path(r, i));
    return made;
}

const char *shard_tensors_option(const struct map_request *r)
{
    const struct {
        const char *option;
        bool is_set;
    } options[] = {
        {"--rule", r->merge.rules.len > 0},
        {"--rules", r->merge.rules_path},
        {"--renumber", r->merge.is_renumbered},
        {"--renumber-path", r->merge.referred.len > 0},
        {"--plain", r->merge.is_plain},
        {"--compact", r->merge.is_compact},
        {"--pass-through", r->merge.pass_through},
    };
    for (size_t i = 0; i < countof(options); i++)
        if (options[i].is_set)
            return options[i].option;
    return NULL;
}

/* True if an output is JSON: rules also apply to files of one JSON object each. */
static bool makes_json(const struct map_request *r)
{
    bool is_made = r->out_path && out_format_of_path(r->out_path) == OUT_JSON;
    for (size_t i = 0; i < also_len(r); i++)
        is_made = is_made || out_format_of_path(also_path(r, i)) == OUT_JSON;
    return is_made;
}

/* Refuses options that have a meaning only for other kinds of files. */
static int wishes_check(const struct map_request *r, struct err *err)
{
    const char *option = shard_tensors_option(r);
    enum tensor_kind first = r->out_path ? shard_tensors(r->out_path) : TENSOR_NONE;
    bool is_rule = r->merge.rules.len > 0 || r->merge.rules_path;
    unsigned wanted = is_rule ? ~(1u << TENSOR_NONE) : 1u << TENSOR_TORCH;
    if (first != TENSOR_NONE && (r->merge.is_union || r->format_out != OUT_AUTO))
        return fail(err, ERR_USAGE,
                    "--union and --format-out are about records; %s is a file of tensors, which "
                    "are merged by --rule",
                    r->out_path);
    if (first != TENSOR_NONE && first != TENSOR_TORCH && r->merge.id_field)
        return fail(err, ERR_USAGE, "--id is about records and files of torch.save; %s is %s",
                    r->out_path, tensor_kind_name(first));
    if (option && !(kinds_made(r) & wanted) && !(is_rule && makes_json(r)))
        return fail(err, ERR_USAGE, "%s is about files of tensors%s, and no output is one", option,
                    is_rule ? ", and of one JSON object each (.json)" : " (.pt)");
    if (r->merge.is_renumbered && !r->merge.id_field)
        return fail(err, ERR_USAGE, "--renumber changes the ids that --id names; give --id too");
    if (r->merge.referred.len > 0 && first != TENSOR_TORCH)
        return fail(err, ERR_USAGE, "--renumber-path is about the .pt file of -o, and %s is none",
                    r->out_path ? r->out_path : "it");
    return 0;
}

static int rules_parse(const struct map_request *r, struct err *err)
{
    struct merge_rules rules = {0};
    int rc = merge_rules_take(&rules, &r->merge.rules, r->merge.rules_path, err);
    for (size_t i = 0; rc == 0 && i < r->merge.referred.len; i++)
        rc = torch_refer_check(r->merge.referred.at[i], err);
    merge_rules_release(&rules);
    return rc;
}

int shard_kinds_check(const struct map_request *r, struct err *err)
{
    bool is_one_file = r->out_path && !output_is_folder(r->out_path);
    int rc = is_one_file ? output_fits(0, r->shards.collect, r->out_path, err) : 0;
    for (size_t i = 0; rc == 0 && i < also_len(r); i++) {
        rc = also_check(r, i, err);
        cleanup_free char *glob = rc == 0 ? also_glob_new(r, i) : NULL;
        if (rc == 0 && (rc = template_check(str_of(glob), err)) != 0)
            wrap(err, rc, "--also");
        if (rc == 0 && !output_is_folder(also_path(r, i)))
            rc = output_fits(i + 1, glob, also_path(r, i), err);
    }
    if (rc == 0)
        rc = outputs_check_names(r, err);
    if (rc == 0)
        rc = wishes_check(r, err);
    return rc ? rc : rules_parse(r, err);
}

/* ---- how they are read ---- */

/* The format of the shards' files: by their name if that says it, else that of the output. */
static enum record_format files_format(const char *name, const char *out_path, enum out_format out)
{
    static const enum record_format same[] = {
        [OUT_AUTO] = FORMAT_AUTO, [OUT_JSONL] = FORMAT_JSONL, [OUT_JSON] = FORMAT_JSON,
        [OUT_CSV] = FORMAT_CSV,   [OUT_TSV] = FORMAT_TSV,     [OUT_LINES] = FORMAT_LINES,
    };
    if (record_format_is_named(name) || output_is_folder(out_path))
        return FORMAT_AUTO;
    return same[out == OUT_AUTO ? out_format_of_path(out_path) : out];
}

/* `name` is a name with the extension of the files. */
static struct shard_kind kind_make(const char *name, const char *out_path,
                                   enum out_format out_format)
{
    bool to_folder = output_is_folder(out_path);
    enum tensor_kind tensors = shard_tensors(to_folder ? name : out_path);
    bool is_known = tensors != TENSOR_NONE || record_format_of_path(name) != FORMAT_LINES;
    return (struct shard_kind){.out_path = xstrdup(out_path),
                               .format = files_format(name, out_path, out_format),
                               .out_format = out_format,
                               .tensors = tensors,
                               .is_counted = is_known || !to_folder};
}

/* Without a run's folder (--dry-run) the path stays as it was given. */
static char *also_path_new(const struct session *s, size_t index)
{
    const char *path = also_path(session_request(s), index);
    char *name = session_run_dir(s) ? output_path_new(path, session_run_dir(s)) : NULL;
    return name ? name : xstrdup(path);
}

void shard_kinds_make(const struct session *s, const char *extension, struct shards *shards)
{
    const struct map_request *r = session_request(s);
    cleanup_free char *name =
        r->shards.collect ? xstrdup(r->shards.collect) : xasprintf("output%s", extension);
    shards->n_kinds = 1 + also_len(r);
    shards->kinds = xcalloc(shards->n_kinds, sizeof(*shards->kinds));
    shards->kinds[0] = kind_make(name, r->out_path, r->format_out);
    shards->kinds[0].glob = r->shards.collect ? xstrdup(r->shards.collect) : NULL;
    shards->kinds[0].is_counted = shards->kinds[0].is_counted && !r->shards.any_count;
    for (size_t i = 0; i < also_len(r); i++) {
        char *glob = also_glob_new(r, i);
        cleanup_free char *out_path = also_path_new(s, i);
        shards->kinds[i + 1] = kind_make(glob, out_path, OUT_AUTO);
        shards->kinds[i + 1].glob = glob;
        shards->kinds[i + 1].takes_any = i < r->shards.also.len;
    }
}

void shard_kinds_free(struct shards *shards)
{
    for (size_t i = 0; i < shards->n_kinds; i++) {
        struct shard_kind *kind = &shards->kinds[i];
        for (uint64_t k = 0; k < kind->n_patterns; k++)
            free(kind->patterns[k]);
        free(kind->patterns);
        free(kind->claims.slots);
        free(kind->glob);
        free(kind->out_path);
    }
    free(steal_ptr(&shards->kinds));
    shards->n_kinds = 0;
}

int shard_kinds_tell_apart(const struct shards *shards, struct err *err)
{
    for (size_t i = 0; i < shards->n_kinds && shards->n_shards > 1; i++) {
        const char *glob = shards->kinds[i].glob;
        if (glob && !template_tells_apart(template_uses(str_of(glob))))
            return fail(err, ERR_USAGE,
                        "%s '%s' names the same file for all %lu shards; let the program put "
                        "{suffix}, {shard} or {start} into its file's name, and here",
                        shard_kind_option(i), glob, shards->n_shards);
    }
    return 0;
}
