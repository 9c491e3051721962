/* SPDX-License-Identifier: Apache-2.0 */
#include "shm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void shm_close(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    bool is_ours = md_is_ours(dist);
    if (!shm)
        return;
    if (is_ours && shm->world)
        atomic_store(&shm->world->ranks[shm->rank].state, SHM_LEFT);
    if (shm->base)
        munmap(shm->base, shm->bytes);
    if (shm->fd >= 0)
        close(shm->fd); /* this also releases the lock */
    while (shm->blocks) {
        struct shm_block *next = shm->blocks->next;
        free(shm->blocks);
        shm->blocks = next;
    }
    if (is_ours)
        pthread_mutex_destroy(&shm->lock);
    free(shm->sources);
    free(shm);
    dist->impl = NULL;
}

static int shm_open_world(struct muster_dist *dist)
{
    struct md_shm *shm = calloc(1, sizeof(*shm));
    const void **sources = calloc(dist->place.size, sizeof(*sources));
    if (!shm || !sources) {
        free(shm);
        free(sources);
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", dist->place.rank);
    }
    shm->fd = -1;
    shm->sources = sources;
    shm->rank = dist->place.rank;
    shm->size = dist->place.size;
    shm->deadline_ns = md_now_ns() + dist->timeout_ms * 1000000;
    pthread_mutex_init(&shm->lock, NULL);
    dist->impl = shm;
    return md_shm_meet(dist);
}

const struct md_backend_ops md_shm_ops = {
    .name = "shm",
    .open = shm_open_world,
    .close = shm_close,
    .run = md_shm_run,
    .look = md_shm_look,
    .fail = md_shm_fail,
    .buffer_new = md_shm_buffer_new,
    .buffer_free = md_shm_buffer_free,
};
