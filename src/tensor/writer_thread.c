/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/writer_thread.h"

#include "base/thread.h"
#include "base/xalloc.h"

enum {
    N_SLOTS = 2 /* one is filled while the other is written */
};

struct writer_thread {
    writer_thread_fn *write;
    void *context;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards all members below, except the bytes of the slots */
    pthread_cond_t changed;
    struct buf slots[N_SLOTS]; /* the n_filled slots from `first` on belong to the thread */
    unsigned first, n_filled;
    bool is_closed;
    int rc;
    struct err err;
};

/* The caller holds the lock; it is released while bytes are written. */
static void slot_write(struct writer_thread *writer)
{
    struct str bytes = buf_str(&writer->slots[writer->first]);
    struct err err = {0};
    pthread_mutex_unlock(&writer->lock);
    int rc = writer->write(writer->context, bytes, &err);
    pthread_mutex_lock(&writer->lock);
    writer->first = (writer->first + 1) % N_SLOTS;
    writer->n_filled--;
    writer->rc = rc;
    writer->err = err;
    pthread_cond_broadcast(&writer->changed);
}

static void *writer_run(void *context)
{
    struct writer_thread *writer = context;
    pthread_mutex_lock(&writer->lock);
    while (writer->rc == 0 && (writer->n_filled > 0 || !writer->is_closed))
        if (writer->n_filled > 0)
            slot_write(writer);
        else
            pthread_cond_wait(&writer->changed, &writer->lock);
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

struct writer_thread *writer_thread_open(writer_thread_fn *write, void *context)
{
    struct writer_thread *writer = xcalloc(1, sizeof(*writer));
    writer->write = write;
    writer->context = context;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    writer->has_thread = thread_start(&writer->thread, writer_run, writer);
    return writer;
}

/* The caller holds the lock, or the thread has ended. */
static int failure_copy(const struct writer_thread *writer, struct err *err)
{
    if (writer->rc && err)
        *err = writer->err;
    return writer->rc;
}

int writer_thread_write(struct writer_thread *writer, struct str bytes, struct err *err)
{
    if (!writer->has_thread) {
        if (writer->rc == 0)
            writer->rc = writer->write(writer->context, bytes, &writer->err);
        return failure_copy(writer, err);
    }
    pthread_mutex_lock(&writer->lock);
    while (writer->rc == 0 && writer->n_filled == N_SLOTS)
        pthread_cond_wait(&writer->changed, &writer->lock);
    struct buf *slot = &writer->slots[(writer->first + writer->n_filled) % N_SLOTS];
    int rc = failure_copy(writer, err);
    pthread_mutex_unlock(&writer->lock);
    if (rc)
        return rc;
    buf_reset(slot);
    buf_add_str(slot, bytes);
    pthread_mutex_lock(&writer->lock);
    writer->n_filled++;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    return 0;
}

int writer_thread_close(struct writer_thread *writer, struct err *err)
{
    pthread_mutex_lock(&writer->lock);
    writer->is_closed = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    if (writer->has_thread)
        pthread_join(writer->thread, NULL);
    int rc = failure_copy(writer, err);
    for (unsigned i = 0; i < N_SLOTS; i++)
        buf_release(&writer->slots[i]);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
    return rc;
}
