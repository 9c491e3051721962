/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker for the tests: what it does is its argument.
 *
 *     echo        gives each item's data back        once     never finishes an item
 *     describe    index, seed, attempt, length       badjson  gives a result that is no JSON
 *     batch N     batches: [place, size, data]       oom      says once that memory ran out
 *     threads N   N threads finish the items         fail     fails each item
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/worker.h>

enum {
    BATCH_MAX = 1024
};

static struct muster_text text_of(const char *text)
{
    return (struct muster_text){text, strlen(text)};
}

static void echo(struct muster_worker *worker, const struct muster_item *item)
{
    muster_item_done(worker, item, item->data);
}

static void describe(struct muster_worker *worker, const struct muster_item *item)
{
    char text[160];
    snprintf(text, sizeof(text),
             "{\"index\":%" PRIu64 ",\"seed\":\"%016" PRIx64 "\",\"attempt\":%" PRIu32
             ",\n\"bytes\":%s,\"len\":%zu}",
             item->index, item->seed, item->attempt, item->is_bytes ? "true" : "false",
             item->data.len);
    const struct muster_metric metrics[] = {{"seen", 1}, {"len", (double)item->data.len}};
    muster_item_done_metrics(worker, item, text_of(text), metrics, 2);
}

static void fail_item(struct muster_worker *worker, const struct muster_item *item)
{
    muster_item_fail(worker, item, "not today: \"\xc3\xa9\"\n", item->index % 2 == 1);
}

static void never_finish(struct muster_worker *worker, const struct muster_item *item)
{
    (void)worker;
    (void)item;
}

static void give_no_json(struct muster_worker *worker, const struct muster_item *item)
{
    muster_item_done(worker, item, text_of("{\"a\":nan}"));
}

static const struct mode {
    const char *name;
    void (*handle)(struct muster_worker *worker, const struct muster_item *item);
} modes[] = {
    {"echo", echo},         {"describe", describe},    {"fail", fail_item},
    {"once", never_finish}, {"badjson", give_no_json},
};

static int run_items(struct muster_worker *worker, const struct mode *mode)
{
    struct muster_item item;
    int rc;
    while ((rc = muster_worker_next(worker, &item)) > 0)
        mode->handle(worker, &item);
    return rc;
}

static int run_batches(struct muster_worker *worker, size_t batch, bool has_oom)
{
    static struct muster_item items[BATCH_MAX];
    int n;
    while ((n = muster_worker_batch(worker, items, batch)) > 0) {
        if (has_oom && n > 1)
            muster_worker_oom(worker, (size_t)n / 2);
        for (int i = 0; i < n; i++) {
            if (items[i].data.len == 6 && memcmp(items[i].data.at, "\"hang\"", 6) == 0)
                sleep(60);
            size_t cap = items[i].data.len + 64;
            char *text = malloc(cap);
            snprintf(text, cap, "[%d,%d,%.*s]", i, n, (int)items[i].data.len, items[i].data.at);
            muster_item_done(worker, &items[i], text_of(text));
            free(text);
        }
    }
    return n;
}

/* A queue of one: enough to hand items from the thread that gets them to those that finish them. */
struct pool {
    struct muster_worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct muster_item queue[BATCH_MAX];
    size_t n_queued;
    bool is_over;
};

static void *finish_items(void *context)
{
    struct pool *pool = context;
    pthread_mutex_lock(&pool->lock);
    while (pool->n_queued > 0 || !pool->is_over) {
        if (pool->n_queued == 0) {
            pthread_cond_wait(&pool->changed, &pool->lock);
            continue;
        }
        struct muster_item item = pool->queue[--pool->n_queued];
        pthread_mutex_unlock(&pool->lock);
        char text[32];
        snprintf(text, sizeof(text), "%" PRIu64, item.index);
        muster_item_done(pool->worker, &item, text_of(text));
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int run_threads(struct muster_worker *worker, size_t n_threads)
{
    static struct pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};
    pthread_t threads[16];
    struct muster_item item;
    int rc;
    pool.worker = worker;
    for (size_t i = 0; i < n_threads; i++)
        pthread_create(&threads[i], NULL, finish_items, &pool);
    while ((rc = muster_worker_next(worker, &item)) > 0) {
        pthread_mutex_lock(&pool.lock);
        pool.queue[pool.n_queued++] = item;
        pthread_cond_signal(&pool.changed);
        pthread_mutex_unlock(&pool.lock);
    }
    pthread_mutex_lock(&pool.lock);
    pool.is_over = true;
    pthread_cond_broadcast(&pool.changed);
    pthread_mutex_unlock(&pool.lock);
    for (size_t i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    return rc;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "echo";
    size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 4;
    bool has_threads = strcmp(name, "threads") == 0;
    struct muster_worker *worker =
        muster_worker_open(&(struct muster_worker_opts){.concurrency = has_threads ? n : 0});
    puts("a banner that nobody may take for a result");
    fflush(stdout);
    muster_worker_loaded(worker);
    int rc = MUSTER_WORKER_EUSE;
    if (has_threads)
        rc = run_threads(worker, n);
    else if (strcmp(name, "batch") == 0 || strcmp(name, "oom") == 0)
        rc = run_batches(worker, n, strcmp(name, "oom") == 0);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(name, modes[i].name) == 0)
            rc = run_items(worker, &modes[i]);
    if (rc < 0)
        fprintf(stderr, "echo_worker: %s\n", muster_worker_error(worker));
    return muster_worker_close(worker) == 0 ? 0 : 1;
}
