/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetches files of shards whose programs have ended on a host that does not share the run's folder,
 * and that were not named by --collect or --also at that time. A resume with other names fetches
 * them as transfer.c does at the end of a program.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "shard/attempt.h"

struct again {
    struct session *s;
    const struct shard_end *end;
    struct node_files *files;
    struct left_ask *asks;   /* [n_asks], those with a pattern */
    size_t *kinds;           /* [n_asks], the kinds of these files */
    struct collected *found; /* by kind */
    size_t n_asks, n_fetched;
    bool is_over, is_shared;
    struct err err;
};

static void fetch_next(struct again *again)
{
    if (again->n_fetched == again->n_asks)
        again->is_over = true;
    else
        node_fetch(again->files, again->n_fetched,
                   again->found[again->kinds[again->n_fetched]].path);
}

static void on_failed(void *context, const struct err *why)
{
    struct again *again = context;
    again->err = *why;
    again->is_over = true;
}

static void on_staged(void *context, const char *folder)
{
    struct again *again = context;
    const struct prepare_request request = {.input_name = "",
                                            .output_name = "",
                                            .asks = again->asks,
                                            .n_asks = again->n_asks,
                                            .since_ns = again->end->since_ns};
    struct err err = {0};
    again->is_over = again->is_shared = folder == NULL;
    if (folder && node_prepare(again->files, &request, &err) != 0)
        on_failed(again, &err);
}

static void on_ready(void *context, int64_t since_ns)
{
    struct again *again = context;
    (void)since_ns;
    node_collect(again->files);
}

static void on_found(void *context, const struct left_file *files, size_t n_files)
{
    struct again *again = context;
    bool is_good = n_files == again->n_asks;
    struct err err = {0};
    for (size_t i = 0; is_good && i < n_files; i++)
        is_good = shard_found_take(shards_of(again->s), again->end->shard, again->kinds[i],
                                   &again->asks[i], again->end->host, &files[i],
                                   &again->found[again->kinds[i]]);
    if (is_good) {
        fetch_next(again);
        return;
    }
    fail(&err, ERR_DATA, "it has found other files than were asked for");
    on_failed(again, &err);
}

static void on_fetched(void *context)
{
    struct again *again = context;
    again->n_fetched++;
    fetch_next(again);
}

static const struct node_files_handlers handlers = {.staged = on_staged,
                                                    .ready = on_ready,
                                                    .found = on_found,
                                                    .fetched = on_fetched,
                                                    .failed = on_failed};

static const struct seat *seat_of_host(const struct session *s, const char *name)
{
    for (size_t h = 1; h < session_allocation(s)->n_hosts; h++)
        if (strcmp(session_allocation(s)->hosts[h].name, name) == 0)
            return &session_allocation(s)->seats[session_allocation(s)->hosts[h].first_seat];
    return NULL;
}

static int files_bring(struct again *again, struct err *err)
{
    struct session *s = again->s;
    struct shard_probe *probe = &shards_of(s)->probe;
    const struct seat *seat = seat_of_host(s, again->end->host);
    if (!seat)
        return fail(err, ERR_DATA, "its files are on %s, which is not among the hosts now",
                    again->end->host);
    int rc = shard_probe_make(probe, shards_of(s)->output_dir, err);
    if (rc)
        return rc;
    const struct stage_request request = {.seat = seat,
                                          .probe_path = probe->path,
                                          .probe_token = probe->token,
                                          .needs_cwd = shards_have_relative(shards_of(s)),
                                          .handlers = &handlers,
                                          .context = again};
    rc = node_stage(shell_node(session_shell(s)), &request, &again->files, err);
    while (rc == 0 && !again->is_over && !shell_is_to_end(session_shell(s))) {
        node_flush(shell_node(session_shell(s)));
        shell_turn(session_shell(s));
        node_look(shell_node(session_shell(s)));
    }
    node_unstage(again->files);
    if (rc == 0 && !again->is_over)
        rc = fail(err, ERR_STOPPED, "it was interrupted");
    if (rc == 0 && again->err.code) {
        *err = again->err;
        rc = wrap(err, again->err.code, "%s", again->end->host);
    }
    return rc;
}

int shard_fetch_again(struct session *s, const struct shard_end *end, struct collected *found,
                      bool *is_shared, struct err *err)
{
    const struct shards *shards = shards_of(s);
    cleanup_free struct left_ask *asks = xcalloc(shards->n_kinds, sizeof(*asks));
    cleanup_free struct buf *patterns = xcalloc(shards->n_kinds, sizeof(*patterns));
    cleanup_free size_t *kinds = xcalloc(shards->n_kinds, sizeof(*kinds));
    struct again again = {.s = s, .end = end, .asks = asks, .kinds = kinds, .found = found};
    for (size_t kind = 0; kind < shards->n_kinds; kind++) {
        struct collect ask;
        shard_ask(s, end->shard, kind, end->values, &patterns[kind], &ask);
        if (!ask.left.pattern)
            continue;
        kinds[again.n_asks] = kind;
        asks[again.n_asks++] = ask.left;
    }
    int rc = files_bring(&again, err);
    *is_shared = again.is_shared;
    for (size_t kind = 0; kind < shards->n_kinds; kind++)
        buf_release(&patterns[kind]);
    return rc;
}
