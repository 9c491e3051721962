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
    BRIEF_MS = 2000,
    ANSWER_LASTS_MS = 60000, /* while another process asks, perhaps in vain */
    ANSWER_MAX_BYTES = 32 << 20
};

static struct str variable(const char *name)
{
    const char *value = getenv(name);
    return str_of(value ? value : "");
}

/* The file of this user's answers, one for each Slurm. NULL: there is no folder for it. */
static char *cache_path_new(void)
{
    struct str cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
    if (cache.len == 0 && home.len == 0)
        return NULL;
    cleanup_free char *folder =
        cache.len > 0 ? xasprintf("%s/muster", cache.at) : xasprintf("%s/.cache/muster", home.at);
    const struct str slurm = variable("SLURM_CONF");
    if (mkdir_parents(folder, 0700, NULL) != 0 || ours_check_folder(folder, NULL) != 0)
        return NULL;
    return xasprintf("%s/squeue-%016" PRIx64, folder, (uint64_t)XXH3_64bits(slurm.at, slurm.len));
}

/*
 * Returns when squeue was last asked; 0: never. The first line of the file has that time, and the time of the answer
 * that follows, which may be older; 0: no answer, and the reason follows.
 */
static int64_t cache_read(const char *path, struct queue_answer *out)
{
    uint64_t asked_ms, wall_ms;
    if (!path || plain_file_read(path, ANSWER_MAX_BYTES, &out->text, NULL) != 0)
        return 0;
    struct str rest = buf_str(&out->text), line, asked;
    if (!rest.at || !str_next(&rest, '\n', &line))
        return 0;
    size_t len = line.len;
    if (!str_next(&line, ' ', &asked) || u64_parse(asked, 1, INT64_MAX, &asked_ms, NULL) != 0 ||
        u64_parse(line, 0, INT64_MAX, &wall_ms, NULL) != 0)
        return 0;
    out->wall_ms = (int64_t)wall_ms;
    buf_consume(&out->text, len + 1);
    return (int64_t)asked_ms;
}

static void cache_write(const char *path, int64_t asked_ms, const struct queue_answer *answer)
{
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "%" PRId64 " %" PRId64 "\n", asked_ms, answer->wall_ms);
    buf_add_str(&text, buf_str(&answer->text));
    if (path && file_replace_fast(path, buf_str(&text), NULL) != 0)
        return; /* the next process asks as well */
}

/* Runs the words, and releases them. longest_ms 0: the usual limit of Slurm's commands. */
static int ask(struct env_list *words, uint64_t longest_ms, struct buf *answer, struct err *err)
{
    struct env_list env = {0};
    env_end(words);
    env_inherit(&env);
    queue_environment(&env);
    env_end(&env);
    int rc = slurm_command_in((const char *const *)words->at, &env, longest_ms, answer, err);
    env_list_release(words);
    env_list_release(&env);
    return rc;
}

static int jobs_ask(uint64_t longest_ms, struct buf *answer, struct err *err)
{
    struct env_list words = {0};
    queue_words(&words);
    return ask(&words, longest_ms, answer, err);
}

int queue_ask(struct buf *answer, struct err *err)
{
    return jobs_ask(0, answer, err);
}

int queue_waiting_ask(struct buf *answer, struct err *err)
{
    struct env_list words = {0};
    queue_waiting_words(&words);
    return ask(&words, 0, answer, err);
}

static bool was_cancelled_past(uint64_t job)
{
    cleanup_buf struct buf answer = BUF_INIT;
    struct env_list words = {0};
    struct str line, rest;
    bool was = false;
    queue_past_words(job, &words);
    if (ask(&words, 0, &answer, NULL) != 0)
        return false;
    rest = buf_str(&answer);
    while (!was && rest.len > 0 && str_next(&rest, '\n', &line))
        was = str_starts_with(line, STR("CANCELLED"));
    return was;
}

bool queue_was_cancelled(uint64_t job)
{
    cleanup_buf struct buf answer = BUF_INIT;
    struct queue_entry entry;
    bool was = false;
    if (queue_ask(&answer, NULL) != 0)
        return was_cancelled_past(job);
    for (struct str rest = buf_str(&answer); !was && queue_next(&rest, &entry);)
        was = entry.job == job && str_equal(entry.state, STR("CANCELLED"));
    return was || was_cancelled_past(job);
}

static bool is_since(int64_t wall_ms, int64_t now_ms, int64_t longest_ms)
{
    return wall_ms > 0 && wall_ms <= now_ms && now_ms - wall_ms < longest_ms;
}

/* Asks; on failure, out->text says why. */
static int ask_or_say(struct queue_answer *out, uint64_t longest_ms, int64_t now_ms,
                      struct err *err)
{
    struct err why = {0};
    int rc = jobs_ask(longest_ms, &out->text, &why);
    out->wall_ms = rc ? 0 : now_ms;
    if (rc == 0)
        return 0;
    buf_reset(&out->text);
    buf_add_text(&out->text, why.text);
    return fail(err, rc, "%s", why.text);
}

int queue_answer_get(struct queue_answer *out, bool is_brief, struct err *err)
{
    const int64_t now_ms = clock_wall_ms();
    cleanup_free char *path = cache_path_new();
    *out = (struct queue_answer){0};
    int64_t asked_ms = cache_read(path, out);
    bool is_asked = is_since(asked_ms, now_ms, ASK_EVERY_MS);
    bool has_old = is_since(out->wall_ms, now_ms, ANSWER_LASTS_MS);
    int rc = 0;
    if (is_asked && !has_old) {
        bool is_why = out->wall_ms == 0;
        rc = fail(err, ERR_UNAVAILABLE, "%s",
                  is_why ? buf_text(&out->text) : "squeue does not answer");
    } else if (!is_asked) {
        /* While this process waits for the answer, others take the old one. */
        if (has_old)
            cache_write(path, now_ms, out);
        queue_answer_release(out);
        rc = ask_or_say(out, is_brief ? BRIEF_MS : 0, now_ms, err);
        if (rc == 0 || !has_old)
            cache_write(path, now_ms, out);
    }
    if (rc)
        queue_answer_release(out);
    return rc;
}

int queue_answer_renew(struct queue_answer *out, struct err *err)
{
    const int64_t now_ms = clock_wall_ms();
    cleanup_free char *path = cache_path_new();
    *out = (struct queue_answer){0};
    int rc = ask_or_say(out, 0, now_ms, err);
    cache_write(path, now_ms, out);
    if (rc)
        queue_answer_release(out);
    return rc;
}

void queue_answer_release(struct queue_answer *answer)
{
    buf_release(&answer->text);
    *answer = (struct queue_answer){0};
}
