/* SPDX-License-Identifier: Apache-2.0
 *
 * A `muster map` in progress, and its workers, as a kind of items (work.h) sees them: the request and the run, what
 * happened to a worker, and events for the feeder. Facts about workers, files and timers become events for the feeder
 * (session_event), and the feeder's actions are carried out. No policy is here.
 *
 * All that a function returns belongs to the session.
 */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "core/feed.h"
#include "device/seat.h"
#include "map/request.h"

struct earlier;
struct session;
struct shell;
struct store;
struct worker;

/* ---- the run: state.c ---- */

const struct map_request *session_request(const struct session *s);
struct shell *session_shell(const struct session *s);
/* The shell's log. NULL in a session in which nothing runs. */
struct log *session_log(const struct session *s);
const char *session_run_dir(const struct session *s);
struct store *session_store(const struct session *s);
/* What earlier sessions have done. */
const struct earlier *session_earlier(const struct session *s);
bool session_is_resumed(const struct session *s);
uint64_t session_base_seed(const struct session *s);
/* NULL with --items. */
struct source *session_source(const struct session *s);
/* Data of the kind of items, which frees them (work.h, release). */
void *session_work_data(const struct session *s);
void session_work_data_set(struct session *s, void *work_data);

const struct allocation *session_allocation(const struct session *s);
/* The number of seats that have a state; more may come while the run goes on. */
uint32_t session_n_seats(const struct session *s);
const struct seat *session_seat(const struct session *s, uint32_t seat);
/* Is the seat's host lost, or being left? */
bool session_seat_is_away(const struct session *s, uint32_t seat);

/* A session in which nothing runs, of a request and a store, which are borrowed. */
struct session *session_reader_new(const struct map_request *request, struct store *store);
void session_reader_free(struct session *s);

/* ---- what happens in it: session.c ---- */

void session_event(struct session *s, struct feed_event event);
/* The input was read to its end; from now on, streams and compressed files are copies in the run's folder. */
void session_input_copied(struct session *s);
/* Adds an entry to the run's table of events. seat UINT32_MAX: about no worker. */
void session_record(struct session *s, const char *kind, uint32_t seat, const char *text);
/* The same with an object of JSON and no seat. */
void session_record_json(struct session *s, const char *kind, const char *json);

/* ---- a worker: state.c, worker.c, worker_end.c ---- */

/* NULL: there is none on that seat, or no such seat. */
struct worker *worker_at(const struct session *s, uint32_t seat);
struct session *worker_session(const struct worker *worker);
struct shell *worker_shell(const struct worker *worker);
uint32_t worker_seat(const struct worker *worker);
const char *worker_label(const struct worker *worker);
/* The number of the worker's attempt, unique in the run; 0: none has begun. */
uint32_t worker_number(const struct worker *worker);
/* Data of the kind of items, which frees them (worker_ops, release). */
void *worker_work_data(const struct worker *worker);

/*
 * A new worker on the seat. With work_data, it gives one result for each item, in any order, as a channel worker
 * does.
 */
struct worker *worker_new(struct session *s, uint32_t seat, void *work_data);
/* Numbers the attempt that begins now. */
void worker_attempt_begin(struct worker *worker);
/* Starts the process. */
void worker_start(struct worker *worker, uint64_t batch);
void worker_start_failed(struct worker *worker, int rc, const struct err *why);
/* Makes its part file if there is none yet. False: the run is being given up, or its results are complete. */
bool worker_part_ready(struct worker *worker);
void worker_first_result(struct worker *worker);
/* Items were sent to the worker, or answered: updates its counts and its busy time. */
void worker_sent(struct worker *worker, uint64_t count);
void worker_answered(struct worker *worker, uint64_t count);
/* The worker's result for an item: the line `result`, and `metrics`, a JSON object or nothing. */
void worker_result(struct worker *worker, uint64_t item, struct str result, struct str metrics);
/* Notes that muster ended the worker: its death is no fault of its items. */
void worker_ended_by_us(struct worker *worker);
bool worker_was_ended(const struct worker *worker);
/* Records how the worker died; the end of the run names the last such death. */
void worker_died(struct worker *worker, const char *how);
/* The process and its descendants are gone, and all its output is read: tells the feeder. */
void worker_over(struct worker *worker);
/* A handle of the worker is open; one is closed: with the last one the worker is freed. */
void worker_handle_opened(struct worker *worker);
void worker_handle_closed(uv_handle_t *handle);
