/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of an agent by the script of bootstrap.h: sends the script, and the program if it is asked for, until the
 * program speaks.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/rng.h"
#include "node/remote_impl.h"

/* Different for each start, so that agents that install at the same time use separate folders. */
static uint64_t nonce_new(const struct remote *remote)
{
    return mix64(mix64(clock_now_ns()) ^ (uint64_t)getpid() ^ (uint64_t)(uintptr_t)remote);
}

void remote_start_begin(struct remote *remote)
{
    remote_start_release(remote);
    remote->start.limit_ms = remote->link.silence_limit_ms;
    remote->state = REMOTE_STARTING;
}

void remote_start_release(struct remote *remote)
{
    bootstrap_release(&remote->start.bootstrap);
    buf_release(&remote->start.script);
    remote->start = (struct remote_start){0};
}

/* The script is made late, so that the transports of all hosts start while the bundles are examined. */
static int script_make(struct remote *remote, struct err *err)
{
    struct remote_start *start = &remote->start;
    char boot_id[64];
    int rc = bundles_find(remote->opts.bundles, err);
    if (rc)
        return rc;
    boot_id_read(boot_id);
    const struct bootstrap_opts opts = {.bundles = remote->opts.bundles,
                                        .self_path = remote->opts.self_path,
                                        .boot_id = boot_id,
                                        .pid = (uint64_t)getpid(),
                                        .nonce = nonce_new(remote)};
    bootstrap_script_add(&opts, &start->script);
    start->unsent = buf_str(&start->script);
    return 0;
}

void remote_start_flush(struct remote *remote)
{
    struct str *unsent = &remote->start.unsent;
    struct err err = {0};
    if (remote->start.script.len == 0 && script_make(remote, &err) != 0)
        link_break(&remote->link, &err);
    while (unsent->len > 0) {
        size_t n = remote_put(remote, *unsent);
        unsent->at += n;
        unsent->len -= n;
        if (n == 0)
            return;
    }
}

static int bundle_send(struct remote *remote, const struct bootstrap_line *line, struct err *err)
{
    struct remote_start *start = &remote->start;
    struct bundle *bundle = bundles_get(remote->opts.bundles, str_of(line->machine));
    if (start->unsent.len > 0)
        return fail(err, ERR_DATA, "the script that starts muster there is out of step");
    if (!bundle)
        return fail(
            err, ERR_UNAVAILABLE,
            "it is a machine of the kind %s, and there is no muster for it here (a portable "
            "build in agents/%s beside muster, or --agent-path)",
            line->machine, line->machine);
    int rc = bundle_pack(bundle, line->has_gzip ? BUNDLE_GZIP : BUNDLE_PLAIN, &start->unsent, err);
    if (rc)
        return rc;
    start->n_bundle_bytes = start->unsent.len;
    start->limit_ms =
        remote->opts.silence_limit_ms + start->unsent.len * 1000 / BOOTSTRAP_BYTES_PER_S;
    remote_start_flush(remote);
    return 0;
}

/* The program's first bytes may have come with the line. */
static void program_begins(struct remote *remote, const struct bootstrap_line *line,
                           uint64_t now_ms)
{
    struct remote_start *start = &remote->start;
    if (!line->was_installed)
        start->n_bundle_bytes = 0;
    snprintf(start->folder, sizeof(start->folder), "%s", line->folder);
    remote->state = REMOTE_STARTED;
    remote->link.silence_limit_ms = remote->opts.silence_limit_ms;
    remote->link.heard_ms = remote->link.sent_ms = now_ms;
    remote_hello_send(remote);
    link_flush(&remote->link, now_ms);
    link_feed(&remote->link, buf_str(&start->bootstrap.in), now_ms);
    buf_release(&start->bootstrap.in);
}

void remote_start_feed(struct remote *remote, struct str bytes)
{
    uint64_t now_ms = clock_now_ms();
    struct bootstrap *bootstrap = &remote->start.bootstrap;
    remote->link.heard_ms = now_ms;
    if (remote->start.n_bundle_bytes == 0) /* the host does not wait in a queue any more */
        remote->start.limit_ms = remote->opts.silence_limit_ms;
    bootstrap_feed(bootstrap, bytes);
    while (remote->state == REMOTE_STARTING && !link_is_broken(&remote->link)) {
        struct bootstrap_line line;
        struct err err = {0};
        enum bootstrap_result result = bootstrap_next(bootstrap, &line, &err);
        if (result == BOOTSTRAP_MORE)
            return;
        if (result == BOOTSTRAP_GO)
            program_begins(remote, &line, now_ms);
        else if (result == BOOTSTRAP_FAILED || bundle_send(remote, &line, &err) != 0)
            link_break(&remote->link, &err);
    }
}

void remote_start_tick(struct remote *remote)
{
    char limit[24];
    struct err err = {0};
    if (clock_now_ms() - remote->link.heard_ms <= remote->start.limit_ms)
        return;
    duration_format(limit, remote->start.limit_ms);
    fail(&err, ERR_UNAVAILABLE, "nothing was heard for %s", limit);
    link_break(&remote->link, &err);
}

void remote_start_noise(const struct remote *remote, struct buf *out)
{
    buf_add_str(out, buf_str(&remote->start.bootstrap.noise));
    if (remote->state == REMOTE_STARTING)
        buf_add_str(out, buf_str(&remote->start.bootstrap.in));
}
