/* SPDX-License-Identifier: Apache-2.0 */
#include "shm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * How long to look for the others before sleeping: as long as a sleep and a wake take, if every rank can
 * have a CPU. Where there are more ranks than CPUs, the one waited for may need this very CPU.
 */
static uint64_t spin_choose(uint32_t size)
{
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return n_cpus >= (long)size ? 20000 : 0;
}

static void shm_close(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    bool is_ours = dist->pid == getpid();
    if (!shm)
        return;
    if (is_ours && shm->world)
        atomic_store(&shm->world->ranks[shm->rank].state, SHM_LEFT);
    if (shm->base)
        munmap(shm->base, shm->bytes);
    if (shm->fd >= 0)
        close(shm->fd); /* and with it goes the lock */
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
    shm->spin_ns = spin_choose(shm->size);
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
    .fail = md_shm_fail,
    .buffer_new = md_shm_buffer_new,
    .buffer_free = md_shm_buffer_free,
};
