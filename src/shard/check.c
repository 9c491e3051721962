/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a request for shards before anything is made.
 */
#include <stddef.h>
#include <string.h>

#include "shard/shard.h"

/* Options about single items, which muster does not see in a shard. */
#define FLAG(name) offsetof(struct map_request, name), sizeof(((struct map_request *)0)->name)
static const struct {
    size_t offset, size;
    const char *option, *why;
} unfit_options[] = {
    {FLAG(join), "--join", "let the program write the input's fields itself"},
    {FLAG(key_field), "--key", "the program's files are in its own order"},
    {FLAG(any_order), "--order any", "the files are joined in the order of the shards"},
    {FLAG(schedule.fixed_batches), "--fixed-batches", "a shard is the same on any device"},
    {FLAG(schedule.longest_first), "--longest-first", "more --shards balance the load"},
    {FLAG(schedule.weight_field), "--weight", "more --shards balance the load"},
    {FLAG(is_raw), "--raw", "{input} holds the records as they stand"},
    {FLAG(channel_path), "--channel-path", "a shard has no channel"},
    {FLAG(schedule.loading_max), "--loading", "when a shard has loaded cannot be seen"},
    {FLAG(schedule.start_limit_ms), "--start-timeout", "--timeout is the limit for a whole shard"},
    {FLAG(schedule.silence_limit_ms), "--silence", "--timeout is the limit for a whole shard"},
};

static int options_check(const struct map_request *r, struct err *err)
{
    static const char zero[16];
    for (size_t i = 0; i < countof(unfit_options); i++) {
        const char *field = (const char *)r + unfit_options[i].offset;
        ASSERT(unfit_options[i].size <= sizeof(zero));
        if (memcmp(field, zero, unfit_options[i].size) != 0)
            return fail(err, ERR_USAGE, "%s is not for shard commands: %s", unfit_options[i].option,
                        unfit_options[i].why);
    }
    return 0;
}

static int placeholders_check(const struct map_request *r, struct err *err)
{
    int rc = r->shards.collect ? template_check(str_of(r->shards.collect), err) : 0;
    if (rc)
        return wrap(err, rc, "--collect");
    for (const char *const *word = r->command; rc == 0 && *word; word++)
        rc = template_check(str_of(*word), err);
    return rc;
}

/* The first given option that is for shards only; NULL: there is none. */
static const char *shards_option(const struct map_request *r)
{
    const struct {
        const char *option;
        bool is_set;
    } wishes[] = {
        {"--items", r->shards.n_items > 0},   {"--shards", r->shards.n_shards > 0},
        {"--collect", r->shards.collect},     {"--id", r->merge.id_field},
        {"--any-count", r->shards.any_count}, {"--union", r->merge.is_union},
        {"--part", r->shards.n_parts > 0},    {"--take", r->shards.take},
        {"--also", r->shards.also.len > 0},   {"--also-counted", r->shards.also_counted.len > 0},
    };
    for (size_t i = 0; i < countof(wishes); i++)
        if (wishes[i].is_set)
            return wishes[i].option;
    return shard_tensors_option(r);
}

/* Refuses options for shards if the command is not a shard command. */
static int no_shards_check(const struct map_request *r, struct err *err)
{
    const char *option = shards_option(r);
    if (!option)
        return output_is_folder(r->out_path)
                   ? fail(err, ERR_USAGE, "-o %s names a folder, which is for shard commands only",
                          r->out_path)
                   : 0;
    int rc = placeholders_check(r, err);
    return rc ? rc
              : fail(err, ERR_USAGE,
                     "%s is for shard commands, but the command holds no {start}, {count}, {end}, "
                     "{shard}, {input} or {output}",
                     option);
}

static int uses_check(const struct map_request *r, struct err *err)
{
    uint32_t uses = template_uses_all(r->command);
    bool has_output = uses & 1u << PLACE_OUTPUT;
    if (!has_output && !r->shards.collect)
        return fail(
            err, ERR_USAGE,
            "{%s} makes this a shard command, but nothing says where its results are: let it "
            "write to {output}, or name its file by --collect 'results/*_{suffix}.jsonl' "
            "(in a filter { %s } with spaces stands for itself)",
            template_shard_word(uses), template_shard_word(uses));
    if (has_output && r->shards.collect)
        return fail(err, ERR_USAGE,
                    "{output} and --collect both name the file of a shard; leave one out");
    if (uses & 1u << PLACE_INPUT && r->shards.n_items > 0)
        return fail(err, ERR_USAGE,
                    "{input} needs a data file; with --items the program opens its own data, by "
                    "{start} and {count}");
    if (uses & 1u << PLACE_BATCH && r->schedule.batch == 0)
        return fail(err, ERR_USAGE, "{batch} needs --batch N");
    if (r->shards.collect &&
        template_uses(str_of(r->shards.collect)) & (1u << PLACE_INPUT | 1u << PLACE_OUTPUT))
        return fail(err, ERR_USAGE, "--collect cannot hold {input} or {output}");
    return 0;
}

static int inputs_check(const struct map_request *r, struct err *err)
{
    if (r->shards.n_items > 0 && r->n_inputs > 0)
        return fail(err, ERR_USAGE,
                    "--items %lu and the input %s: leave one out; with an input its records are "
                    "counted",
                    r->shards.n_items, r->inputs[0]);
    if (r->shards.n_items == 0 && r->n_inputs == 0)
        return fail(err, ERR_USAGE,
                    "no input: name a data file, or say --items N where the program opens its own");
    return 0;
}

static bool shards_are_lines(const struct map_request *r)
{
    enum out_format out =
        r->format_out == OUT_AUTO ? out_format_of_path(r->out_path) : r->format_out;
    if (!r->shards.collect)
        return out == OUT_LINES;
    return record_format_of_path(r->shards.collect) == FORMAT_LINES &&
           (out == OUT_LINES || record_format_is_named(r->shards.collect));
}

/* Checks --id now, because the join would find the fault only when all the work is done. */
static int id_check(const struct map_request *r, struct err *err)
{
    if (!r->merge.id_field || !r->out_path)
        return 0;
    if (output_is_folder(r->out_path))
        return fail(err, ERR_USAGE,
                    "--id looks at records that are joined, and -o %s takes the files as they are; "
                    "name a file, or leave --id out",
                    r->out_path);
    if (shard_tensors(r->out_path) != TENSOR_NONE)
        return 0;
    return shards_are_lines(r) ? fail(err, ERR_USAGE,
                                      "--id needs records with fields, and the shards' files are "
                                      "read as lines; give them the extension of JSONL, JSON, CSV "
                                      "or TSV, by -o or --collect, or leave --id out")
                               : 0;
}

/* A part must be the same work as the whole, wherever it runs. */
static int part_check(const struct map_request *r, struct err *err)
{
    uint32_t uses = template_uses_all(r->command);
    if (r->shards.n_parts == 0)
        return 0;
    if (r->shards.n_shards == 0)
        return fail(err, ERR_USAGE,
                    "--part needs --shards N: parts on other machines would differ");
    if (r->shards.n_parts > r->shards.n_shards)
        return fail(err, ERR_USAGE, "--part: %lu shards have no %lu parts", r->shards.n_shards,
                    r->shards.n_parts);
    if (r->shards.collect)
        uses |= template_uses(str_of(r->shards.collect));
    if (uses & 1u << PLACE_RUN)
        return fail(err, ERR_USAGE,
                    "{run} would differ between the parts of this work; leave it out of the "
                    "command, -o may have it");
    return 0;
}

static int shards_check(const struct map_request *r, struct err *err)
{
    int rc = placeholders_check(r, err);
    if (rc == 0)
        rc = uses_check(r, err);
    if (rc == 0)
        rc = inputs_check(r, err);
    if (rc == 0)
        rc = options_check(r, err);
    if (rc == 0)
        rc = part_check(r, err);
    if (rc == 0)
        rc = shard_kinds_check(r, err);
    return rc ? rc : id_check(r, err);
}

int work_choose(struct map_request *r, struct err *err)
{
    bool are_shards = template_shard_word(template_uses_all(r->command)) != NULL;
    r->work = are_shards ? &shard_work : &record_work;
    if (!r->command || !r->command[0]) /* reported elsewhere */
        return 0;
    return are_shards ? shards_check(r, err) : no_shards_check(r, err);
}
