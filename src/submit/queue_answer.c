/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/queue_answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "slurm/command.h"
#include "slurm/queue.h"

enum {
    ASK_EVERY_MS = 15000,
    ANSWER_MAX_BYTES = 32 << 20
};

static struct str variable(const char *name)
{
    const char *value = getenv(name);
    return str_of(value ? value : "");
}

/* One file for each Slurm that this user asks. NULL: there is no folder for it. */
static char *cache_path_new(void)
{
    struct str cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
    if (cache.len == 0 && home.len == 0)
        return NULL;
    cleanup_free char *folder =
        cache.len > 0 ? xasprintf("%s/muster", cache.at) : xasprintf("%s/.cache/muster", home.at);
    cleanup_buf struct buf slurm = BUF_INIT;
    buf_addf(&slurm, "%s %s", variable("SLURM_CONF").at, variable("SLURM_CLUSTERS").at);
    if (mkdir_parents(folder, 0700, NULL) != 0 || ours_check_folder(folder, NULL) != 0)
        return NULL;
    return xasprintf("%s/squeue-%016" PRIx64, folder,
                     (uint64_t)XXH3_64bits(buf_text(&slurm), slurm.len));
}

/* Its first line is the time at which it was asked. */
static void cache_read(const char *path, struct queue_answer *out)
{
    uint64_t wall_ms;
    if (!path || plain_file_read(path, ANSWER_MAX_BYTES, &out->text, NULL) != 0)
        return;
    struct str rest = buf_str(&out->text), line;
    if (!rest.at || !str_next(&rest, '\n', &line) ||
        u64_parse(line, 1, INT64_MAX, &wall_ms, NULL) != 0)
        return;
    out->wall_ms = (int64_t)wall_ms;
    buf_consume(&out->text, line.len + 1);
}

static void cache_write(const char *path, const struct queue_answer *answer)
{
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "%" PRId64 "\n", answer->wall_ms);
    buf_add_str(&text, buf_str(&answer->text));
    if (path && file_replace_fast(path, buf_str(&text), NULL) != 0)
        return; /* the next one asks as well */
}

int queue_ask(struct buf *answer, struct err *err)
{
    struct env_list words = {0}, env = {0};
    queue_words(&words);
    env_end(&words);
    env_inherit(&env);
    queue_environment(&env);
    env_end(&env);
    int rc = slurm_command_in((const char *const *)words.at, &env, answer, err);
    env_list_release(&words);
    env_list_release(&env);
    return rc;
}

int queue_answer_get(struct queue_answer *out, struct err *err)
{
    const int64_t now_ms = clock_wall_ms();
    cleanup_free char *path = cache_path_new();
    struct queue_answer fresh = {.wall_ms = now_ms};
    *out = (struct queue_answer){0};
    cache_read(path, out);
    if (out->wall_ms > 0 && out->wall_ms <= now_ms && now_ms - out->wall_ms < ASK_EVERY_MS)
        return 0;
    /* While this process waits for the answer, others take the old one. */
    const struct queue_answer claim = {.wall_ms = now_ms, .text = out->text};
    if (out->wall_ms > 0)
        cache_write(path, &claim);
    int rc = queue_ask(&fresh.text, err);
    if (rc == 0)
        cache_write(path, &fresh);
    else
        fresh.wall_ms = 0;
    queue_answer_release(out);
    *out = fresh;
    return rc;
}

void queue_answer_release(struct queue_answer *answer)
{
    buf_release(&answer->text);
    *answer = (struct queue_answer){0};
}
