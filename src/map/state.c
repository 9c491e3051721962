/* SPDX-License-Identifier: Apache-2.0
 *
 * What session.h tells a kind of items about a session and its workers.
 */
#include "base/xalloc.h"
#include "map/session_impl.h"

const struct map_request *session_request(const struct session *s)
{
    return s->request;
}

struct shell *session_shell(const struct session *s)
{
    return s->shell;
}

struct log *session_log(const struct session *s)
{
    return shell_log(s->shell);
}

const char *session_run_dir(const struct session *s)
{
    return shell_run_dir(s->shell);
}

struct store *session_store(const struct session *s)
{
    return shell_store(s->shell);
}

const struct earlier *session_earlier(const struct session *s)
{
    return &s->earlier;
}

bool session_is_resumed(const struct session *s)
{
    return s->is_resumed;
}

uint64_t session_base_seed(const struct session *s)
{
    return s->base_seed;
}

struct source *session_source(const struct session *s)
{
    return s->source;
}

void *session_work_data(const struct session *s)
{
    return s->work_data;
}

void session_work_data_set(struct session *s, void *work_data)
{
    s->work_data = work_data;
}

const struct allocation *session_allocation(const struct session *s)
{
    return &s->allocation;
}

uint32_t session_n_seats(const struct session *s)
{
    return s->n_seats;
}

const struct seat *session_seat(const struct session *s, uint32_t seat)
{
    return &s->seats[seat].seat;
}

bool session_seat_is_away(const struct session *s, uint32_t seat)
{
    return device_watch_seat_is_away(s->devices, seat);
}

struct session *session_reader_new(const struct map_request *request, struct store *store)
{
    struct session *s = xcalloc(1, sizeof(*s));
    s->request = request;
    s->shell = shell_new(&(struct shell_setup){0});
    shell_store_borrow(s->shell, store);
    return s;
}

void session_reader_free(struct session *s)
{
    shell_free(s->shell);
    free(s);
}

/* ---- a worker ---- */

struct worker *worker_at(const struct session *s, uint32_t seat)
{
    return seat < s->n_seats ? s->seats[seat].worker : NULL;
}

struct session *worker_session(const struct worker *worker)
{
    return worker->session;
}

struct shell *worker_shell(const struct worker *worker)
{
    return worker->session->shell;
}

uint32_t worker_seat(const struct worker *worker)
{
    return worker->seat;
}

uint32_t worker_number(const struct worker *worker)
{
    return worker->number;
}

void *worker_work_data(const struct worker *worker)
{
    return worker->work_data;
}

void worker_ended_by_us(struct worker *worker)
{
    worker->was_ended = true;
}

bool worker_was_ended(const struct worker *worker)
{
    return worker->was_ended;
}

void worker_handle_opened(struct worker *worker)
{
    worker->open_handles++;
}
