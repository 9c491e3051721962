/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for the other ranks, and the errors when one does not come. A rank polls for a short
 * while, then sleeps; every tenth of a second it checks whether a rank has told an error, a process
 * has ended, or the time is over.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm.h"

enum {
    TICK_MS = 100,
    LOOK_NS = 50000,
    N_PAUSES = 50,
    N_NAMED_MAX = 8 /* ranks in a message */
};

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t wait_ms)
{
    struct timespec limit = {(time_t)(wait_ms / 1000), (long)(wait_ms % 1000) * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- what ranks came for ---- */

uint64_t md_shm_pack(const struct md_call *call)
{
    const struct muster_dist_call *what = &call->what;
    return (uint64_t)what->kind | (uint64_t)what->type << 8 | (uint64_t)what->op << 16 |
           (uint64_t)call->memory << 24 | (uint64_t)what->root << 32;
}

void md_signature_format(uint64_t what, uint64_t count, uint64_t seq, char *out, size_t cap)
{
    const struct md_call call = {.seq = seq,
                                 .memory = what >> 24 & 0xff,
                                 .what = {.kind = what & 0xff,
                                          .type = what >> 8 & 0xff,
                                          .op = what >> 16 & 0xff,
                                          .root = (uint32_t)(what >> 32),
                                          .count = count}};
    md_call_format(&call, out, cap);
}

int md_shm_compare(struct muster_dist *dist)
{
    const struct md_shm *shm = dist->impl;
    const struct shm_rank *ranks = shm->world->ranks;
    size_t parity = (shm->step - 1) & 1;
    const struct shm_signature *first = &ranks[0].signatures[parity];
    for (uint32_t r = 1; r < shm->size; r++) {
        const struct shm_signature *other = &ranks[r].signatures[parity];
        if (other->what == first->what && other->count == first->count && other->seq == first->seq)
            continue;
        char a[120], b[120];
        md_signature_format(first->what, first->count, first->seq, a, sizeof(a));
        md_signature_format(other->what, other->count, other->seq, b, sizeof(b));
        return md_fail(dist, MUSTER_DIST_EMISMATCH,
                       "ranks disagree: rank 0 came to %s, rank %u to %s", a, r, b);
    }
    return 0;
}

/* ---- errors ---- */

int md_shm_told(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    struct shm_error *error = &shm->world->error;
    char text[MD_TEXT_BYTES];
    if (atomic_load(&error->state) != SHM_ERROR_WRITTEN)
        return 0;
    memcpy(text, error->text, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    return md_adopt(dist, error->code < 0 ? error->code : MUSTER_DIST_EFAIL, text);
}

/*
 * The rank that claims the record first writes it. If that rank is killed before it has written,
 * the record stays claimed.
 */
void md_shm_fail(struct muster_dist *dist, int *code, char *text)
{
    struct md_shm *shm = dist->impl;
    if (!shm->world) /* this rank has not joined the world yet */
        return;
    struct shm_error *error = &shm->world->error;
    uint32_t none = SHM_NO_ERROR;
    if (atomic_compare_exchange_strong(&error->state, &none, SHM_ERROR_CLAIMED)) {
        error->code = *code;
        memcpy(error->text, text, sizeof(error->text));
        atomic_store(&error->state, SHM_ERROR_WRITTEN);
        futex_wake_all(&shm->world->step);
        return;
    }
    for (int i = 0; i < TICK_MS && atomic_load(&error->state) != SHM_ERROR_WRITTEN; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (atomic_load(&error->state) != SHM_ERROR_WRITTEN)
        return;
    *code = error->code;
    memcpy(text, error->text, sizeof(error->text));
}

/* ---- who is missing ---- */

static bool has_come(const struct md_shm *shm, uint32_t rank, uint64_t step)
{
    const struct shm_rank *other = &shm->world->ranks[rank];
    return rank == shm->rank ||
           (atomic_load(&other->state) != SHM_AWAITED && atomic_load(&other->step) >= step);
}

void md_shm_missing(const struct md_shm *shm, uint64_t step, char *out, size_t cap)
{
    uint32_t n = 0, i = 0;
    for (uint32_t r = 0; r < shm->size; r++)
        n += !has_come(shm, r, step);
    size_t len = (size_t)snprintf(out, cap, n == 1 ? "rank" : "ranks");
    for (uint32_t r = 0; r < shm->size && len < cap; r++) {
        if (has_come(shm, r, step))
            continue;
        const char *before = i == 0 ? " " : i + 1 == n ? " and " : ", ";
        if (i == N_NAMED_MAX) {
            snprintf(out + len, cap - len, " and %u more", n - i);
            return;
        }
        len += (size_t)snprintf(out + len, cap - len, "%s%u", before, r);
        i++;
    }
}

static void last_format(const struct shm_rank *rank, char *out, size_t cap)
{
    char call[120];
    uint64_t at_ns = atomic_load(&rank->at_ns), now_ns = md_now_ns();
    double age_s = now_ns > at_ns ? (double)(now_ns - at_ns) / 1e9 : 0;
    if (atomic_load(&rank->seq) == 0) {
        snprintf(out, cap, "it has come to no operation yet");
        return;
    }
    md_signature_format(atomic_load(&rank->what), atomic_load(&rank->count),
                        atomic_load(&rank->seq), call, sizeof(call));
    if (atomic_load(&rank->is_in_call))
        snprintf(out, cap, "it has been in %s for %.1f s", call, age_s);
    else
        snprintf(out, cap, "its last was %s, to which it came %.1f s ago", call, age_s);
}

/* True if the process of a rank has ended; false if that cannot be determined. */
static bool is_gone(const struct md_shm *shm, uint32_t rank)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    return fcntl(shm->fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/* True if the step has ended. A rank that is gone may have ended after it. */
static bool has_ended(const struct md_shm *shm)
{
    return atomic_load(&shm->world->step) != (uint32_t)shm->step;
}

static int gone_look(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    for (uint32_t r = 0; r < shm->size; r++) {
        struct shm_rank *other = &shm->world->ranks[r];
        if (r == shm->rank || !is_gone(shm, r))
            continue;
        if (has_ended(shm))
            return 0;
        int rc = md_shm_told(dist); /* a failing rank tells why before it ends */
        if (rc != 0)
            return rc;
        char call[120], last[200];
        md_call_format(shm->call, call, sizeof(call));
        last_format(other, last, sizeof(last));
        if (atomic_load(&other->state) == SHM_LEFT)
            return md_fail(dist, MUSTER_DIST_ELOST,
                           "rank %u has closed its handle, and rank %u waits for it in %s; %s", r,
                           shm->rank, call, last);
        return md_fail(dist, MUSTER_DIST_ELOST,
                       "the process of rank %u (pid %u) has ended; rank %u waits for it in %s; %s",
                       r, atomic_load(&other->pid), shm->rank, call, last);
    }
    return 0;
}

static int late_tell(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    char names[120], call[120], last[160] = "all have come, but the step does not end";
    uint32_t n = 0;
    for (uint32_t r = 0; r < shm->size; r++)
        if (!has_come(shm, r, shm->step + 1) && n++ == 0)
            last_format(&shm->world->ranks[r], last, sizeof(last));
    md_shm_missing(shm, shm->step + 1, names, sizeof(names));
    md_call_format(shm->call, call, sizeof(call));
    return md_fail(dist, MUSTER_DIST_ETIMEOUT, "%s %s not come to %s within %.1f s; %s", names,
                   n == 1 ? "has" : "have", call, (double)dist->timeout_ms / 1e3, last);
}

static int look_around(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    int rc = md_shm_told(dist);
    rc = rc ? rc : gone_look(dist);
    if (rc == 0 && md_now_ns() > shm->deadline_ns && !has_ended(shm))
        rc = late_tell(dist);
    return rc;
}

int md_shm_look(struct muster_dist *dist, const struct md_call *call)
{
    struct md_shm *shm = dist->impl;
    shm->call = call;
    int rc = md_shm_told(dist);
    return rc ? rc : gone_look(dist);
}

/* ---- steps ---- */

/*
 * Polls: first with a few pause instructions (a hypervisor stops a CPU after many), then with
 * yields, since the awaited rank may need this CPU. Sleeping comes after that: it costs both sides
 * a system call, and 20 µs until the sleeper runs again.
 */
static bool look_briefly(const struct md_shm *shm)
{
    uint64_t end_ns = 0, now_ns = 0;
    do {
        for (int i = 0; i < N_PAUSES; i++) {
            if (has_ended(shm))
                return true;
            pause_briefly();
        }
        sched_yield();
        now_ns = md_now_ns();
        end_ns = end_ns > 0 ? end_ns : now_ns + LOOK_NS;
    } while (now_ns < end_ns);
    return has_ended(shm);
}

static int sleep_until_ended(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    struct shm_world *world = shm->world;
    uint64_t looked_ns = md_now_ns();
    int rc = 0;
    atomic_fetch_add(&world->n_sleepers, 1);
    while (rc == 0 && !has_ended(shm)) {
        futex_wait(&world->step, (uint32_t)shm->step, TICK_MS);
        uint64_t now_ns = md_now_ns();
        bool is_told = atomic_load(&world->error.state) != SHM_NO_ERROR;
        if (has_ended(shm) || (!is_told && now_ns - looked_ns < TICK_MS * 900000ull))
            continue;
        looked_ns = now_ns;
        rc = look_around(dist);
    }
    atomic_fetch_sub(&world->n_sleepers, 1);
    return rc;
}

int md_shm_step(struct muster_dist *dist)
{
    struct md_shm *shm = dist->impl;
    struct shm_world *world = shm->world;
    uint64_t next = shm->step + 1;
    int rc = 0;
    atomic_store_explicit(&world->ranks[shm->rank].step, next, memory_order_release);
    uint32_t n = atomic_fetch_add(&world->n_arrived, 1) + 1;
    if (n == (uint32_t)(shm->size * next)) {
        atomic_store(&world->step, (uint32_t)next);
        if (atomic_load(&world->n_sleepers) > 0)
            futex_wake_all(&world->step);
    } else if (!look_briefly(shm)) {
        rc = sleep_until_ended(dist);
    }
    shm->step = next;
    return rc;
}
