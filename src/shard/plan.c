/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides the number of shards, their names, and the values of their placeholders. Decisions that
 * hold for the whole run are stored among its facts, so that a resume on other devices finds them.
 */
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/rng.h"
#include "base/shell.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "map/earlier.h"
#include "shard/shard.h"

enum {
    SHARDS_MAX = 1000000,
    SEED_BITS = 31
};

struct share shard_share(const struct shards *shards, uint64_t shard)
{
    return share_of(shards->n_items, shards->n_shards, shard);
}

void shard_name(const struct shards *shards, uint64_t shard, struct buf *out)
{
    struct share share = shard_share(shards, shard);
    buf_addf(out, "shard %lu (item%s %lu", shard, share.count == 1 ? "" : "s", share.start);
    if (share.count != 1)
        buf_addf(out, " to %lu", share.start + share.count - 1);
    buf_add_char(out, ')');
}

void shard_members_add(const struct shards *shards, uint64_t shard, struct buf *out)
{
    struct share share = shard_share(shards, shard);
    buf_addf(out, "\"shard\":%lu,\"start\":%lu,\"count\":%lu", shard, share.start, share.count);
}

/* ---- sizes ---- */

static int items_count(struct session *s, uint64_t *n_items, struct err *err)
{
    int rc = 0;
    *n_items = session_request(s)->shards.n_items;
    if (!session_source(s))
        return 0;
    while (rc == 0 && !source_is_complete(session_source(s)))
        rc = source_scan(session_source(s), 64 << 20, err);
    *n_items = source_known(session_source(s));
    if (rc == 0 && *n_items == 0)
        rc = fail(err, ERR_USAGE, "the input holds no records; there is nothing to run");
    return rc;
}

/* The name of the run's folder has the stamp, unless the user named the folder. */
static void stamp_make(const struct session *s, char out[RUN_STAMP_BYTES])
{
    if (!session_run_dir(s))
        clock_stamp(out, clock_wall_ms());
    else if (!run_stamp_read(session_run_dir(s), out))
        run_stamp_make(session_run_dir(s), clock_wall_ms(), out);
}

/* True if there is one shard for each device, which then has the device's name. */
static bool is_one_a_device(const struct session *s, uint64_t n_shards)
{
    const struct allocation_wish *wish = &session_request(s)->allocation;
    return n_shards == session_n_seats(s) && wish->gpus_per_worker <= 1 &&
           wish->workers_per_gpu <= 1;
}

static void suffixes_make(const struct session *s, struct shards *shards)
{
    if (session_request(s)->shards.n_parts > 0 || !is_one_a_device(s, shards->n_shards))
        return;
    shards->suffixes = xcalloc(shards->n_shards, sizeof(*shards->suffixes));
    for (uint64_t k = 0; k < shards->n_shards; k++)
        shards->suffixes[k] = xstrdup(session_seat(s, (uint32_t)k)->label);
}

static int shards_size(struct session *s, struct shards *shards, struct err *err)
{
    int rc = items_count(s, &shards->n_items, err);
    if (rc)
        return rc;
    uint64_t wanted = session_request(s)->shards.n_shards;
    wanted = wanted > 0 ? wanted : session_n_seats(s);
    shards->n_shards = MIN(wanted, shards->n_items);
    if (shards->n_shards < wanted)
        log_add(session_log(s), LOG_WARN, "map",
                "%lu item%s make %lu shard%s, not %lu: none is empty", shards->n_items,
                shards->n_items == 1 ? "" : "s", shards->n_shards, shards->n_shards == 1 ? "" : "s",
                wanted);
    stamp_make(s, shards->stamp);
    suffixes_make(s, shards);
    return 0;
}

/* ---- what is kept ---- */

static int facts_write(struct session *s, const struct shards *shards, struct err *err)
{
    char items[24], count[24];
    cleanup_buf struct buf suffixes = BUF_INIT;
    const struct shard_request *part = &session_request(s)->shards;
    snprintf(items, sizeof(items), "%" PRIu64, shards->n_items);
    snprintf(count, sizeof(count), "%" PRIu64, shards->n_shards);
    for (uint64_t k = 0; shards->suffixes && k < shards->n_shards; k++)
        buf_addf(&suffixes, "%s%s", k > 0 ? "," : "", shards->suffixes[k]);
    int rc = store_set(session_store(s), "shard_run", shards->stamp, err);
    if (rc == 0)
        rc = store_set(session_store(s), "shard_items", items, err);
    if (rc == 0)
        rc = store_set(session_store(s), "shard_suffixes", buf_text(&suffixes), err);
    if (rc == 0 && part->n_parts > 0) {
        cleanup_free char *text = xasprintf("%lu/%lu", part->part, part->n_parts);
        rc = store_set(session_store(s), "shard_part", text, err);
    }
    if (rc == 0)
        rc = store_set(session_store(s), "items", count, err); /* this ledger's items are shards */
    return rc ? rc : store_set(session_store(s), "shards", count, err);
}

static int facts_parse(const struct session *s, struct shards *shards, const char *items,
                       const char *count, const char *stamp, const char *suffixes, struct err *err)
{
    struct str rest = str_of(suffixes), suffix;
    uint64_t n = 0;
    if (!items || !stamp || strlen(stamp) < RUN_STAMP_LEN || strlen(stamp) >= RUN_STAMP_BYTES ||
        u64_parse(str_of(items), 1, UINT64_MAX, &shards->n_items, NULL) != 0 ||
        u64_parse(str_of(count), 1, MIN(shards->n_items, (uint64_t)SHARDS_MAX), &shards->n_shards,
                  NULL) != 0)
        return fail(err, ERR_DATA, "%s/run.db is damaged: the facts about its shards",
                    session_run_dir(s));
    snprintf(shards->stamp, sizeof(shards->stamp), "%s", stamp);
    if (rest.len == 0)
        return 0;
    shards->suffixes = xcalloc(shards->n_shards, sizeof(*shards->suffixes));
    while (n < shards->n_shards && str_next(&rest, ',', &suffix))
        shards->suffixes[n++] = xasprintf("%.*s", (int)suffix.len, suffix.at);
    return n == shards->n_shards ? 0
                                 : fail(err, ERR_DATA, "%s/run.db is damaged: its shards' suffixes",
                                        session_run_dir(s));
}

/* *is_there: the run has facts about shards. */
static int facts_read(struct session *s, struct shards *shards, bool *is_there, struct err *err)
{
    static const char *const keys[] = {"shard_items", "shards", "shard_run", "shard_suffixes"};
    char *facts[countof(keys)] = {NULL};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(keys); i++)
        rc = store_get(session_store(s), keys[i], &facts[i], err);
    *is_there = rc == 0 && facts[1];
    if (*is_there)
        rc = facts_parse(s, shards, facts[0], facts[1], facts[2], facts[3], err);
    for (size_t i = 0; i < countof(keys); i++)
        free(facts[i]);
    return rc;
}

/* Stores how the files are read, because the muster that joins them may not have the request. */
static int reading_write(struct session *s, const struct shards *shards, struct err *err)
{
    int rc = store_set(session_store(s), "shard_format",
                       record_format_name(shards->kinds[0].format), err);
    return rc ? rc : store_set(session_store(s), "shard_union", shards->is_union ? "1" : "0", err);
}

/* Reads how the files are read. A run without these facts takes it from the names of the files. */
static int reading_read(struct session *s, struct shards *shards, struct err *err)
{
    cleanup_free char *format = NULL, *is_union = NULL;
    int value = FORMAT_AUTO;
    int rc = store_get(session_store(s), "shard_format", &format, err);
    if (rc == 0)
        rc = store_get(session_store(s), "shard_union", &is_union, err);
    if (rc == 0 && format && choice_parse(str_of(format), record_formats, &value, NULL) != 0)
        rc = fail(err, ERR_DATA, "%s/run.db is damaged: its shards' format", session_run_dir(s));
    if (rc == 0 && format)
        shards->kinds[0].format = (enum record_format)value;
    shards->is_union = is_union && strcmp(is_union, "1") == 0;
    return rc;
}

static int items_compare(uint64_t then, uint64_t now, struct err *err)
{
    return then == now
               ? 0
               : fail(err, ERR_USAGE, "the run began with %lu items, now there are %lu", then, now);
}

static int shards_resume(struct session *s, struct shards *shards, bool *is_there, struct err *err)
{
    uint64_t n_items;
    int rc = facts_read(s, shards, is_there, err);
    if (rc || !*is_there)
        return rc;
    rc = items_count(s, &n_items, err);
    return rc ? rc : items_compare(shards->n_items, n_items, err);
}

static const char *output_extension(const struct map_request *r)
{
    static const char *const extensions[] = {
        [OUT_AUTO] = "",    [OUT_JSONL] = ".jsonl", [OUT_JSON] = ".json",
        [OUT_CSV] = ".csv", [OUT_TSV] = ".tsv",     [OUT_LINES] = ".txt",
    };
    if (r->format_out != OUT_AUTO)
        return extensions[r->format_out];
    return output_is_folder(r->out_path) ? "" : path_extension(r->out_path);
}

enum {
    EXTENSION_BYTES_MAX = 200 /* after shard_<k>, in a name of at most 255 bytes */
};

static int names_check(const struct shards *shards, struct err *err)
{
    if (shards->n_shards > SHARDS_MAX)
        return fail(err, ERR_USAGE, "%lu shards are too many, the most is %d", shards->n_shards,
                    SHARDS_MAX);
    if (strlen(shards->extension) > EXTENSION_BYTES_MAX)
        return fail(err, ERR_USAGE,
                    "the shards' files get the extension of -o, and %.40s... is too long for one",
                    shards->extension);
    return shard_kinds_tell_apart(shards, err);
}

int shards_reopen(struct session *s, bool *are_there, struct err *err)
{
    struct shards *shards = xcalloc(1, sizeof(*shards));
    session_work_data_set(s, shards);
    uv_mutex_init(&shards->source_lock);
    shard_kinds_make(s, "", shards);
    int rc = facts_read(s, shards, are_there, err);
    if (rc == 0)
        rc = reading_read(s, shards, err);
    if (rc == 0 && *are_there)
        shards->results = xcalloc(shards->n_shards, sizeof(*shards->results));
    return rc;
}

static void suffixes_free(struct shards *shards)
{
    for (uint64_t k = 0; shards->suffixes && k < shards->n_shards; k++)
        free(shards->suffixes[k]);
    free(steal_ptr(&shards->suffixes));
}

int shards_recall(struct session *s, struct err *err)
{
    struct shards then = {0}, *now = shards_of(s);
    bool is_there = false;
    int rc = facts_read(s, &then, &is_there, err);
    if (rc == 0 && is_there)
        rc = items_compare(then.n_items, now->n_items, err);
    if (rc || !is_there) {
        suffixes_free(&then);
        return rc;
    }
    suffixes_free(now);
    now->n_shards = then.n_shards;
    now->suffixes = then.suffixes;
    memcpy(now->stamp, then.stamp, sizeof(now->stamp));
    free(now->results);
    now->results = xcalloc(now->n_shards, sizeof(*now->results));
    return 0;
}

int shards_begin(struct session *s, struct err *err)
{
    struct shards *shards = xcalloc(1, sizeof(*shards));
    bool is_there = false;
    session_work_data_set(s, shards);
    uv_mutex_init(&shards->source_lock);
    shards->uses = template_uses_all(session_request(s)->command);
    shards->extension = output_extension(session_request(s));
    shards->is_union = session_request(s)->merge.is_union;
    shard_kinds_make(s, shards->extension, shards);
    shards->input_dir = path_join(session_run_dir(s), "shard-input");
    shards->output_dir = path_join(session_run_dir(s), "shard-output");
    int rc = session_is_resumed(s) ? shards_resume(s, shards, &is_there, err) : 0;
    if (rc == 0 && !is_there)
        rc = shards_size(s, shards, err);
    if (rc == 0)
        rc = names_check(shards, err);
    if (rc == 0 && !is_there && session_store(s))
        rc = facts_write(s, shards, err);
    if (rc == 0 && session_store(s))
        rc = reading_write(s, shards, err);
    if (rc == 0) {
        shards->results = xcalloc(shards->n_shards, sizeof(*shards->results));
        shards->had_other_file = xcalloc(shards->n_shards, sizeof(*shards->had_other_file));
    }
    shards->seat_items = xcalloc(session_allocation(s)->n_seats_max, sizeof(*shards->seat_items));
    return rc;
}

void shards_free(struct shards *shards)
{
    if (!shards)
        return;
    for (uint64_t k = 0; shards->results && k < shards->n_shards; k++)
        shard_result_free(shards, &shards->results[k]);
    shard_kinds_free(shards);
    shard_probe_drop(&shards->probe);
    suffixes_free(shards);
    free(shards->results);
    free(shards->had_other_file);
    free(shards->seat_items);
    free(shards->input_dir);
    free(shards->output_dir);
    uv_mutex_destroy(&shards->source_lock);
    free(shards);
}

void shard_give_up(struct shards *shards, uint64_t shard)
{
    shards->n_items_failed += shard_share(shards, shard).count;
}

/* ---- what is filled in ---- */

static void devices_add(const struct session *s, uint32_t seat, bool wants_uuid, struct buf *out)
{
    const struct seat *at = session_seat(s, seat);
    for (size_t d = 0; d < at->n_devices; d++) {
        const struct device *device = &session_allocation(s)->devices.at[at->devices[d]];
        if (d > 0)
            buf_add_char(out, ',');
        if (wants_uuid)
            buf_add_text(out, device->uuid);
        else
            buf_addf(out, "%d", device->index);
    }
}

static void suffix_add(const struct shards *shards, uint64_t shard, struct buf *out)
{
    if (shards->suffixes)
        buf_add_text(out, shards->suffixes[shard]);
    else
        buf_addf(out, "shard_%lu", shard);
}

/*
 * Adds the path of a shard's file. The names sort in the order of the shards. On a host with a
 * folder of its own, the names below that folder are the same.
 */
static void file_add(const struct session *s, const struct shard_at *at, const char *folder,
                     const char *extension, struct buf *out)
{
    int digits = snprintf(NULL, 0, "%" PRIu64, shards_of(s)->n_shards - 1);
    if (at->folder) {
        buf_add_text(out, at->folder);
        folder += strlen(session_run_dir(s));
    }
    buf_addf(out, "%s/shard_%0*" PRIu64 "%s", folder, digits, at->shard, extension);
}

static const char *input_extension(const struct session *s)
{
    static const char *const extensions[] = {
        [FORMAT_AUTO] = "",      [FORMAT_LINES] = ".txt", [FORMAT_JSONL] = ".jsonl",
        [FORMAT_JSON] = ".json", [FORMAT_CSV] = ".csv",   [FORMAT_TSV] = ".tsv",
    };
    return session_source(s) ? extensions[source_format(session_source(s))] : "";
}

static void value_add(const struct session *s, const struct shard_at *at, enum placeholder which,
                      struct buf *out)
{
    const struct shards *shards = shards_of(s);
    struct share share = shard_share(shards, at->shard);
    uint64_t seed = item_seed(session_base_seed(s), share.start) >> (64 - SEED_BITS);
    switch (which) {
    case PLACE_START:
        buf_addf(out, "%lu", share.start);
        return;
    case PLACE_COUNT:
        buf_addf(out, "%lu", share.count);
        return;
    case PLACE_END:
        buf_addf(out, "%lu", share.start + share.count);
        return;
    case PLACE_SHARD:
        buf_addf(out, "%lu", at->shard);
        return;
    case PLACE_INPUT:
        file_add(s, at, shards->input_dir, input_extension(s), out);
        return;
    case PLACE_OUTPUT:
        file_add(s, at, shards->output_dir, shards->extension, out);
        return;
    case PLACE_SHARDS:
        buf_addf(out, "%lu", shards->n_shards);
        return;
    case PLACE_GPU:
        devices_add(s, at->seat, false, out);
        return;
    case PLACE_GPU_UUID:
        devices_add(s, at->seat, true, out);
        return;
    case PLACE_SEED:
        buf_addf(out, "%lu", seed);
        return;
    case PLACE_SUFFIX:
        suffix_add(shards, at->shard, out);
        return;
    case PLACE_BATCH:
        buf_addf(out, "%lu", at->batch);
        return;
    case PLACE_DEVICES:
        buf_addf(out, "%zu", session_seat(s, at->seat)->n_devices);
        return;
    case PLACE_RUN:
        buf_add_text(out, shards->stamp);
        return;
    case PLACE_RUN_DIR:
        buf_add_text(out, at->folder ? at->folder : session_run_dir(s));
        return;
    case PLACE_ATTEMPT:
        buf_addf(out, "%u", at->number);
        return;
    case PLACEHOLDERS_COUNT:
        break;
    }
    BUG("placeholder %d", (int)which);
}

void shard_values(const struct session *s, const struct shard_at *at,
                  struct template_values *values, struct buf *text)
{
    size_t begins[PLACEHOLDERS_COUNT + 1];
    for (size_t i = 0; i < PLACEHOLDERS_COUNT; i++) {
        begins[i] = text->len;
        value_add(s, at, (enum placeholder)i, text);
        buf_add_char(text, '\0'); /* each value is also a C string */
    }
    begins[PLACEHOLDERS_COUNT] = text->len;
    for (size_t i = 0; i < PLACEHOLDERS_COUNT; i++)
        values->of[i] = (struct str){text->at + begins[i], begins[i + 1] - begins[i] - 1};
}

char **shard_command_new(const struct session *s, const struct template_values *values)
{
    const char *const *words = session_request(s)->command;
    size_t n_words = 0;
    while (words[n_words])
        n_words++;
    char **command = xcalloc(n_words + 1, sizeof(*command));
    for (size_t i = 0; i < n_words; i++) {
        struct buf word = BUF_INIT;
        template_fill(str_of(words[i]), values, &word);
        command[i] = buf_steal(&word);
    }
    return command;
}

void shard_command_format(const char *const *command, struct buf *out)
{
    for (const char *const *word = command; *word; word++) {
        buf_add_text(out, word == command ? "" : " ");
        buf_add_shell_word(out, *word);
    }
}

/* A flag for each shard that a resumed run has done or given up; free() it. */
static bool *settled_new(const struct session *s)
{
    bool *settled = xcalloc(shards_of(s)->n_shards, sizeof(*settled));
    for (size_t i = 0; i < session_earlier(s)->n_done; i++) {
        uint64_t first = session_earlier(s)->done[i].first,
                 end = MIN(first + session_earlier(s)->done[i].count, shards_of(s)->n_shards);
        for (uint64_t k = first; k < end; k++)
            settled[k] = true;
    }
    return settled;
}

/* Prints the names of the shard's files, and where the files go. */
static void leaves_print(const struct session *s, const struct template_values *values)
{
    for (size_t i = 0; i < shards_of(s)->n_kinds; i++) {
        const struct shard_kind *kind = &shards_of(s)->kinds[i];
        cleanup_free char *named = output_path_new(kind->out_path, session_run_dir(s));
        if (!kind->glob)
            continue;
        cleanup_buf struct buf glob = BUF_INIT;
        template_fill_glob(str_of(kind->glob), values, &glob);
        print_line("    %s becomes part of %s", buf_text(&glob), named ? named : kind->out_path);
    }
}

void shards_print(const struct session *s)
{
    const struct shards *shards = shards_of(s);
    cleanup_free bool *settled = settled_new(s);
    uint64_t n_printed = 0;
    for (uint64_t k = 0; k < shards->n_shards; k++) {
        if (settled[k])
            continue;
        cleanup_buf struct buf line = BUF_INIT, text = BUF_INIT;
        struct template_values values;
        /*
         * The first shards go to the workers in order; the others to the worker that is free first.
         */
        uint64_t turn = n_printed++;
        struct shard_at at = {k, (uint32_t)(turn % session_n_seats(s)), (uint32_t)turn + 1,
                              session_request(s)->schedule.batch};
        shard_values(s, &at, &values, &text);
        char **command = shard_command_new(s, &values);
        shard_name(shards, k, &line);
        buf_addf(&line,
                 "%s %s: ", turn < session_n_seats(s) ? " on" : " when a worker is free, say",
                 session_seat(s, at.seat)->label);
        shard_command_format((const char *const *)command, &line);
        print_line("%s", buf_text(&line));
        leaves_print(s, &values);
        shard_command_free(command);
    }
}

void shard_command_free(char **command)
{
    for (char **word = command; word && *word; word++)
        free(*word);
    free(command);
}
