/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/crew.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/xalloc.h"

struct crew {
    const struct crew_work *work;
    pthread_mutex_t lock;
    pthread_cond_t turned;   /* `turn` or `rc` changed */
    size_t next_piece, turn; /* to be made, to be handed over */
    int rc;
    struct err *err;
};

struct member {
    struct crew *crew;
    unsigned thread;
    pthread_t id;
};

/* With the lock held. */
static void hand_over(struct crew *crew, unsigned thread, size_t piece)
{
    while (crew->turn != piece && crew->rc == 0)
        pthread_cond_wait(&crew->turned, &crew->lock);
    if (crew->rc == 0 && crew->work->hand_over)
        crew->rc = crew->work->hand_over(crew->work->context, thread, piece, crew->err);
    crew->turn++;
    pthread_cond_broadcast(&crew->turned);
}

static void *member_run(void *context)
{
    struct member *member = context;
    struct crew *crew = member->crew;
    pthread_mutex_lock(&crew->lock);
    while (crew->rc == 0 && crew->next_piece < crew->work->n_pieces) {
        size_t piece = crew->next_piece++;
        pthread_mutex_unlock(&crew->lock);
        crew->work->make(crew->work->context, member->thread, piece);
        pthread_mutex_lock(&crew->lock);
        hand_over(crew, member->thread, piece);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

int crew_run(unsigned n_threads, const struct crew_work *work, struct err *err)
{
    struct crew crew = {.work = work, .err = err};
    n_threads = (unsigned)MIN((size_t)MAX(n_threads, 1u), MAX(work->n_pieces, (size_t)1));
    struct member *members = xcalloc(n_threads, sizeof(*members));
    unsigned n_started = 1;
    pthread_mutex_init(&crew.lock, NULL);
    pthread_cond_init(&crew.turned, NULL);
    for (; n_started < n_threads; n_started++) {
        members[n_started] = (struct member){.crew = &crew, .thread = n_started};
        if (pthread_create(&members[n_started].id, NULL, member_run, &members[n_started]) != 0)
            break;
    }
    members[0] = (struct member){.crew = &crew};
    member_run(&members[0]);
    for (unsigned i = 1; i < n_started; i++)
        pthread_join(members[i].id, NULL);
    pthread_cond_destroy(&crew.turned);
    pthread_mutex_destroy(&crew.lock);
    free(members);
    return crew.rc;
}
