/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/relay.h"

#include "base/thread.h"
#include "base/xalloc.h"

enum {
    N_SLOTS = 2 /* one is filled while the other is passed on */
};

struct relay {
    relay_fn *pass;
    void *context;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* for all below but the bytes of slots */
    pthread_cond_t turned;
    struct buf slots[N_SLOTS]; /* n_filled of them from `first` on are the thread's */
    unsigned first, n_filled;
    bool is_closed;
    int rc;
    struct err err;
};

/* With the lock held, but while bytes are passed on. */
static void slot_pass(struct relay *relay)
{
    struct str bytes = buf_str(&relay->slots[relay->first]);
    struct err err = {0};
    pthread_mutex_unlock(&relay->lock);
    int rc = relay->pass(relay->context, bytes, &err);
    pthread_mutex_lock(&relay->lock);
    relay->first = (relay->first + 1) % N_SLOTS;
    relay->n_filled--;
    relay->rc = rc;
    relay->err = err;
    pthread_cond_broadcast(&relay->turned);
}

static void *relay_run(void *context)
{
    struct relay *relay = context;
    pthread_mutex_lock(&relay->lock);
    while (relay->rc == 0 && (relay->n_filled > 0 || !relay->is_closed))
        if (relay->n_filled > 0)
            slot_pass(relay);
        else
            pthread_cond_wait(&relay->turned, &relay->lock);
    pthread_mutex_unlock(&relay->lock);
    return NULL;
}

struct relay *relay_open(relay_fn *pass, void *context)
{
    struct relay *relay = xcalloc(1, sizeof(*relay));
    relay->pass = pass;
    relay->context = context;
    pthread_mutex_init(&relay->lock, NULL);
    pthread_cond_init(&relay->turned, NULL);
    relay->has_thread = thread_start(&relay->thread, relay_run, relay);
    return relay;
}

/* Takes what stands there. */
static int failure_tell(const struct relay *relay, struct err *err)
{
    if (relay->rc && err)
        *err = relay->err;
    return relay->rc;
}

int relay_pass(struct relay *relay, struct str bytes, struct err *err)
{
    if (!relay->has_thread)
        return relay->pass(relay->context, bytes, err);
    pthread_mutex_lock(&relay->lock);
    while (relay->rc == 0 && relay->n_filled == N_SLOTS)
        pthread_cond_wait(&relay->turned, &relay->lock);
    struct buf *slot = &relay->slots[(relay->first + relay->n_filled) % N_SLOTS];
    int rc = failure_tell(relay, err);
    pthread_mutex_unlock(&relay->lock);
    if (rc)
        return rc;
    buf_reset(slot);
    buf_add_str(slot, bytes);
    pthread_mutex_lock(&relay->lock);
    relay->n_filled++;
    pthread_cond_broadcast(&relay->turned);
    pthread_mutex_unlock(&relay->lock);
    return 0;
}

int relay_close(struct relay *relay, struct err *err)
{
    pthread_mutex_lock(&relay->lock);
    relay->is_closed = true;
    pthread_cond_broadcast(&relay->turned);
    pthread_mutex_unlock(&relay->lock);
    if (relay->has_thread)
        pthread_join(relay->thread, NULL);
    int rc = failure_tell(relay, err);
    for (unsigned i = 0; i < N_SLOTS; i++)
        buf_release(&relay->slots[i]);
    pthread_cond_destroy(&relay->turned);
    pthread_mutex_destroy(&relay->lock);
    free(relay);
    return rc;
}
