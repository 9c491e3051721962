/* SPDX-License-Identifier: Apache-2.0
 *
 * A `muster map` in progress, on the shell (shell/shell.h). What workers, files and timers show becomes feed
 * events (session_event); the feeder's actions are carried out here. No policy.
 *
 *   map.c       request → session → exit status     prepare.c    devices, input, run folder
 *   earlier.c   what earlier sessions have done     request.c    what is refused before the start
 *   session.c   events, actions, timers             worker*.c    one process of one worker
 *   filter.c    lines in, lines out                 channel.c    JSON messages
 *   answers.c   answers that wait for their commit  key_index.c  --key
 *   ledger.c    bytes and rows made durable         finish.c     merge, summary
 *   inputs.c    do the files stay as they are?      devices.c    what is seen of the devices
 *   failed_items.c  the list of what failed         backpressure.c  a disk that cannot keep up
 *   work.h      what items are                      records.c    records of the input, for warm workers
 */
#pragma once

#include <uv.h>

#include "base/hist.h"
#include "base/log.h"
#include "core/feed.h"
#include "core/verdict.h"
#include "data/source.h"
#include "map/answers.h"
#include "map/busy.h"
#include "map/earlier.h"
#include "map/filter.h"
#include "map/ledger.h"
#include "map/request.h"
#include "node/allocation.h"
#include "proc/logfile.h"
#include "shell/device_watch.h"
#include "shell/shell.h"

struct inputs;
struct session;

/* What channel workers say that is of no use to anybody, and is said once in a run. */
enum ignored_kind {
    IGNORED_MEMBER,
    IGNORED_ITEM,
    IGNORED_METRIC,
    IGNORED_RETRY,
    IGNORED_DENIAL,
    IGNORED_EARLY
};

/* One process of a worker, from spawn to its last byte. It outlives its seat's interest until libuv let go of it. */
struct worker {
    struct session *session;
    uint32_t seat;
    uint32_t number;             /* of the attempt and its part, unique in the run */
    struct node_worker *process; /* NULL: it was not started, or is forgotten */
    struct worker_exit exit;
    bool is_over; /* EV_EXIT was given */
    bool was_ended, is_channel;
    char start_error[160]; /* why it was not even started */
    unsigned open_handles;
    char *channel_path;

    bool broke_its_rule;   /* and was ended for that; `stray` says how */
    bool is_unreadable;    /* what it says cannot be taken, and is not read any more */
    struct buf to_worker;  /* stdin of a filter, or the channel */
    struct buf channel_in; /* an unfinished message */
    bool input_must_close;
    uint64_t credits_held; /* asked for over the channel, and not passed on to the feeder yet */

    struct filter filter;
    struct answers answers;
    char stray[320]; /* what gave it away: why, and the line */
    void *work_data; /* the work's own (work.h) */

    struct part *part;
    struct logfile *stdout_log, *stderr_log;

    struct busy busy;
    uint64_t last_output_ms;
    uint64_t items_done, mem_peak_bytes;
    int64_t started_wall_ms;
};

/* A seat, and who sits in it. */
struct seat_state {
    struct seat seat;
    struct worker *worker;
    uint64_t reads_after_ms; /* of its first worker that was seen to begin to read; 0: none */
    uint64_t busy_ms, load_ms, items_done;
    struct hist item_times;
};

/* What is known about the item or message at hand, for the actions of this very step. */
struct step_context {
    struct str result;
    struct metrics metrics;
    const char *error; /* why an item failed, from its worker or from its worker's death */
    const char *stderr_tail;
};

/* Events that actions give rise to, while one is carried out. */
struct event_queue {
    struct feed_event *at;
    size_t len, cap;
    bool is_drained; /* at this moment */
};

/* Answers are not read, and the feeder's time stands still (backpressure.c). */
struct backpressure {
    bool is_held;
    uint64_t since_ms, total_ms; /* now; and in all, before */
};

/* What has become of the run so far. */
struct outcome {
    bool is_complete, is_over, was_halted;
    bool is_merged; /* the output is in place, and that is recorded */
    enum feed_halt halt;
    char last_words[512]; /* of the last worker that died */
    char last_stray[320]; /* of the last worker out of step */
    bool stray_is_channel;
    uint64_t first_result_ms, complete_ms; /* 0: not yet */
};

struct session {
    const struct map_request *request;
    struct map_request
        named;         /* the same when the run's folder is there, and so the output's name */
    char *output_name; /* that name, where it was filled in */
    struct shell shell;

    struct ledger *ledger;
    struct source *source; /* NULL with --items */
    char
        *scratch; /* [SOURCE_SCAN_BYTES], for one scan or one read at a time: nobody keeps a view */
    struct inputs *inputs; /* its files, as they were */
    bool input_is_changed; /* one was written to: no resume may go on with this run */
    struct allocation allocation;
    struct seat_state *seats;
    uint32_t n_seats;
    struct feed *feed;
    struct earlier earlier;
    uint32_t *order;
    uint64_t base_seed;
    bool is_resumed;
    struct {
        bool are_json;
        bool need_utf8; /* they are text that becomes JSON or CSV */
    } results;
    void *work_data; /* the work's own (work.h) */

    uv_timer_t feed_timer;
    struct device_watch *devices;

    struct step_context step;
    struct event_queue queue;
    struct backpressure backpressure;
    uint64_t look_ms; /* a drained filter is to be looked at then; UINT64_MAX: none */
    uint32_t next_number;
    struct outcome outcome;
    unsigned ignored_said; /* a bit for each ignored_kind */
    struct {
        uint64_t n_noted;     /* in the log */
        uint64_t n_malformed; /* trying again will not help */
    } failed;
    struct {
        uint64_t status_ms, progress_ms;
    } shown; /* last, and when */
};

/* session.c */
extern const struct shell_verb map_shell;
void session_event(struct session *s, struct feed_event event);
/* The input is read to its end: what was a stream is a file of ours. */
void session_input_copied(struct session *s);
/* One line of --dry-run, without its end. */
void seat_print(const struct session *s, uint32_t number);
/* An entry in the run's table of events. worker UINT32_MAX: about no worker. */
void session_record(struct session *s, const char *kind, uint32_t seat, const char *text);
/* Until every item is settled, or the run is given up and its workers have ended. */
MUST_CHECK int session_loop(struct session *s, struct err *err);
/* Until the workers have ended. */
void session_loop_end(struct session *s);
struct worker *worker_at(struct session *s, uint32_t seat);

/* worker.c, worker_end.c, worker_silence.c */
void worker_spawn(struct session *s, uint32_t seat, uint64_t batch);
/* The two halves of it: the seat is taken; the process is started. */
struct worker *worker_new(struct session *s, uint32_t seat);
void worker_start(struct worker *worker, uint64_t batch);
void worker_start_failed(struct worker *worker, int rc, const struct err *why);
void worker_finish(struct worker *worker);
void worker_terminate(struct worker *worker, enum feed_cause cause);
/* Write what is pending to its stdin or channel; asks for room when it is through. */
void worker_flush(struct worker *worker);
/* Ten times a second. */
void worker_tick(struct worker *worker);
/* Before the loop sleeps: what is to be seen of a filter. */
void worker_input_ask(struct worker *worker);
void worker_input_seen(void *context, enum input_fact fact);
void worker_ask_for_room(struct worker *worker);
/* About as many items of the input as have 256 KiB; at least one. */
uint64_t worker_room_items(const struct session *s);
/* The feeder has come to it. False: what was sent meanwhile waits already, so there is none. */
bool worker_room_is_there(struct worker *worker);
/* It does not read any more. */
void worker_input_broken(struct worker *worker, enum worker_stream stream);
void worker_started(void *context);
void worker_gone(void *context, const struct worker_exit *exit);
/* Of what a shard printed, what was held back is shown. */
void worker_words_end(struct worker *worker);
/* The process and all that was its own are gone, and what it said is read: tell the feeder. */
void worker_over(struct worker *worker);
/* One of its handles is closed, and one reference to it less. */
void worker_handle_closed(uv_handle_t *handle);
void worker_first_result(struct worker *worker);
/* Items were sent to it, or came back: keeps its counts and its busy time. */
void worker_sent(struct worker *worker, uint64_t count);
void worker_answered(struct worker *worker, uint64_t count);
/* Its part file is open; made when the first byte comes. False: the run is being given up. */
bool worker_part_ready(struct worker *worker);
const char *worker_label(const struct worker *worker);

/* Why a line cannot be an answer, and its beginning, for the messages. */
void worker_stray_note(struct worker *worker, const char *why, struct str line);

/* channel.c */
void channel_send(struct worker *worker, uint64_t first, uint64_t count, uint32_t attempt);
void channel_read(struct worker *worker, struct str bytes);
void channel_batch(struct worker *worker, uint64_t batch);
void channel_stop(struct worker *worker);
/* Write what is pending, and pass on credits that were held back until the worker had read. */
void channel_flush(struct worker *worker);
void channel_commit(struct worker *worker, uint64_t item);
/* It gave a result for an item that it does not have. */
void channel_foreign(struct worker *worker, uint64_t item);

/* backpressure.c */
void session_backpressure(struct session *s, bool is_held);
/* The feeder's time: what workers wait for the disk counts against nobody's limit. */
uint64_t feed_now(struct session *s);

/* devices.c: s->devices, and what is seen there */
void devices_watch(struct session *s);
/* The set of devices whose first is that one of those chosen is given up. */
void device_set_benched(struct session *s, uint32_t first, const char *why);
/* It is used again. */
void device_set_returned(struct session *s, uint32_t first);

/* prepare.c */
/* Devices and seats only: what --dry-run shows. */
MUST_CHECK int session_plan(struct session *s, struct err *err);
/* The items as well, where they have to be counted before it is known what would run. */
MUST_CHECK int session_plan_items(struct session *s, struct err *err);
void session_plan_release(struct session *s);
MUST_CHECK int session_prepare(struct session *s, struct err *err);
void session_release(struct session *s);
/* failed_items.c */
/* Where the items set aside are listed; free() it. */
char *failed_items_path(const struct session *s);
/* One object for each item set aside; the file is removed when there is none. */
MUST_CHECK int failed_items_write(struct session *s, uint64_t *n_out, struct err *err);
/* records.c: what is wrong with one; its position stands beside it */
void record_flaw_add(const struct session *s, uint64_t item, struct str position,
                     struct buf *reason);
/* finish.c */
/* The results of records, in their order, into the output. */
MUST_CHECK int session_merge(struct session *s, struct result_merge_stats *stats, struct err *err);
int session_finish(struct session *s, struct err *err);
/* progress, with the session's figures */
void session_progress(struct session *s, bool last);
