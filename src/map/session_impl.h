/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a map and of its workers, for this folder alone. A kind of items uses a session by the functions of
 * session.h.
 *
 *   map.c       request → session → exit status     prepare.c    devices, input, run folder
 *   earlier.c   what earlier sessions have done     request.c    what is refused before the start
 *   session.c   events, actions, timers             worker*.c    one process of one worker
 *   filter.c    lines in, lines out                 channel.c    JSON messages
 *   answers.c   answers that wait for their commit  key_index.c  --key
 *   ledger.c    bytes and rows made durable         finish.c     merge, summary
 *   inputs.c    whether input files change          devices.c    samples and losses of devices
 *   failed_items.c  the list of what failed         backpressure.c  a disk that cannot keep up
 *   work.h      kinds of items, as a value          records.c    records of the input, for warm workers
 *   state.c     what session.h lets a kind of items ask
 */
#pragma once

#include <uv.h>

#include "base/hist.h"
#include "base/log.h"
#include "base/rate.h"
#include "core/feed.h"
#include "core/verdict.h"
#include "data/source.h"
#include "map/answers.h"
#include "map/busy.h"
#include "map/earlier.h"
#include "map/filter.h"
#include "map/ledger.h"
#include "map/request.h"
#include "map/session.h"
#include "node/allocation.h"
#include "proc/logfile.h"
#include "shell/device_watch.h"
#include "shell/shell.h"

struct inputs;

/* What is ignored in the messages of channel workers. Each kind is logged once in a run. */
enum ignored_kind {
    IGNORED_MEMBER,
    IGNORED_ITEM,
    IGNORED_METRIC,
    IGNORED_SUM,
    IGNORED_RETRY,
    IGNORED_DENIAL,
    IGNORED_EARLY
};

/* One process of a worker, from its spawn to its last byte. It is freed when libuv has closed its handles. */
struct worker {
    struct session *session;
    uint32_t seat;
    uint32_t number;             /* of the attempt and of its part file, unique in the run */
    struct node_worker *process; /* NULL: not started, or released */
    struct worker_exit exit;
    bool is_over; /* the feeder has been given EV_EXIT */
    bool was_ended, is_channel;
    char start_error[160]; /* why it could not be started */
    unsigned open_handles;
    char *channel_path;

    bool broke_its_rule;  /* ended because it broke a rule; `stray` says which */
    bool is_unreadable;   /* a message could not be understood; no more are read */
    struct buf to_worker; /* bytes to write to its stdin or channel */
    size_t n_put; /* how many of these are written, from the front; 0 if to_worker is empty */
    struct buf channel_in; /* an unfinished message */
    bool input_must_close;
    uint64_t credits_held; /* asked for over the channel, and not passed on to the feeder yet */

    struct filter filter;
    struct answers answers;
    char stray[320]; /* why its output cannot be an answer, and the line */
    void *work_data; /* the work's own (work.h) */

    struct part *part;
    struct logfile *stdout_log, *stderr_log;

    struct busy busy;
    uint64_t last_output_ms;
    uint64_t items_done, mem_peak_bytes;
    int64_t started_wall_ms;
};

/* A seat and the worker on it. */
struct seat_state {
    struct seat seat;
    struct worker *worker;
    /* From a worker's start until it began to read, of the last worker that did; 0: not known. */
    uint64_t reads_after_ms;
    uint64_t since_ms; /* when it joined the run */
    uint64_t busy_ms, load_ms, items_done;
    /*
     * When its first worker was ready, by the monotonic clock; 0: not yet. A filter is ready when it begins to read;
     * a channel worker when it asks for items, or when it says that it is loaded, if that comes before its first
     * result.
     */
    uint64_t ready_us;
    struct rate rate;       /* of its items, by all its workers */
    uint64_t rate_ready_us; /* the ready_us from which `rate` counts */
    struct hist item_times;
};

/* Facts of the item or message that the current event is about, for the actions of this step. */
struct step_context {
    struct str result;
    struct metrics metrics;
    const char *error; /* why an item failed: the worker's own words, or how the worker died */
    const char *stderr_tail;
};

struct queued_event {
    struct feed_event event;
    const char *error; /* for step_context; lives as long as the run */
};

/* Events that arise while an action is carried out; they are handled after the action. */
struct event_queue {
    struct queued_event *at;
    size_t len, cap;
    bool is_drained; /* events are being handled at this moment */
};

/* While answers are held, they are not read, and the feeder's clock stands still (backpressure.c). */
struct backpressure {
    bool is_held;
    uint64_t since_ms, total_ms; /* begin of the present hold; length of all holds before it */
};

/* The state of the run's work so far. */
struct outcome {
    bool is_complete, is_over, was_halted;
    bool is_merged; /* the output is in place and recorded as such */
    enum feed_halt halt;
    char last_words[512]; /* how the last worker died, and the last line of its stderr */
    char last_stray[320]; /* `stray` of the last worker that has one */
    /* `last_stray` broke the protocol of the channel, and no worker has ended for its own reason since */
    bool is_last_a_breach;
    bool has_result;
    uint64_t complete_us; /* 0: not yet */
};

struct session {
    const struct map_request *request;
    /* The request, once the run's folder exists, with the output's name filled in. */
    struct map_request named;
    char *output_name; /* the output's name, if it was filled in */
    struct shell *shell;

    struct ledger *ledger;
    struct source *source; /* NULL with --items */
    /* [SOURCE_SCAN_BYTES], for one scan or one read at a time; no view into it is kept. */
    char *scratch;
    struct inputs *inputs; /* the state of its files when the run began */
    bool input_is_changed; /* an input file was written to: the run cannot be resumed */
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
        bool need_utf8; /* results are text that is written as JSON or CSV */
    } results;
    void *work_data; /* the work's own (work.h) */

    uv_timer_t feed_timer;
    struct device_watch *devices;

    struct step_context step;
    struct event_queue queue;
    struct backpressure backpressure;
    uint64_t look_ms; /* when a drained filter is to be looked at next; UINT64_MAX: none */
    uint32_t next_number;
    struct outcome outcome;
    unsigned ignored_said; /* a bit for each ignored_kind */
    struct {
        uint64_t n_noted;     /* failed items that were logged */
        uint64_t n_malformed; /* failed items whose record is malformed: a retry cannot help */
        bool are_listed;      /* the file of failed_items_path() is there */
    } failed;
    struct {
        uint64_t status_ms, progress_ms;
    } shown; /* when they were last written */
};

/* session.c */
extern const struct shell_verb map_shell;
/* May be called while an action is carried out. `error`: why an item failed; it lives as long as the run. */
void session_event_later(struct session *s, struct feed_event event, const char *error);
/* Runs until every item is settled, or until the run is given up and its workers have ended. */
MUST_CHECK int session_loop(struct session *s, struct err *err);
/* Runs until the workers have ended. */
void session_loop_end(struct session *s);

/* worker.c, worker_end.c, worker_silence.c */
void worker_spawn(struct session *s, uint32_t seat, uint64_t batch);
void worker_finish(struct worker *worker);
void worker_terminate(struct worker *worker, enum feed_cause cause);
/*
 * Writes pending bytes to the worker's stdin or channel. When all bytes of a filter are written, asks the feeder for
 * more items.
 */
void worker_flush(struct worker *worker);
/* Drops the bytes that are not written to the worker yet. */
void worker_unwritten_drop(struct worker *worker);
/* To be called ten times a second. */
void worker_tick(struct worker *worker);
/* Before the loop sleeps: asks the node for the facts about a filter's input that are needed now. */
void worker_input_ask(struct worker *worker);
void worker_input_seen(void *context, enum input_fact fact);
void worker_ask_for_room(struct worker *worker);
/* About as many items of the input as take up 256 KiB; at least one. */
uint64_t worker_room_items(const struct session *s);
/* To be called before the feeder is given EV_ROOM. False: items were sent meanwhile, so there is no room. */
bool worker_room_is_there(struct worker *worker);
/* The worker does not read from this stream any more. */
void worker_input_broken(struct worker *worker, enum worker_stream stream);
void worker_started(void *context);
void worker_gone(void *context, const struct worker_exit *exit);
/* Shows output of the worker that was held back. */
void worker_words_end(struct worker *worker);
/* Notes when a worker was ready, for the rate of loaded workers; the first note of a seat counts. */
void worker_ready_note(struct worker *worker, uint64_t ready_us);

/* Keeps why a line cannot be an answer, and the line's beginning, for messages. */
void worker_stray_note(struct worker *worker, const char *why, struct str line);
/*
 * Notes that the worker does not read any more. If a channel worker is about to end, its end tells more, so the note
 * is shown only if the worker is ended for it.
 */
void worker_closed_note(struct worker *worker);

/* channel.c */
void channel_send(struct worker *worker, uint64_t first, uint64_t count, uint32_t attempt);
void channel_read(struct worker *worker, struct str bytes);
void channel_batch(struct worker *worker, uint64_t batch);
void channel_stop(struct worker *worker);
/* Writes pending bytes, and gives the feeder credits that were held back until the worker had read. */
void channel_flush(struct worker *worker);
void channel_commit(struct worker *worker, uint64_t item);
/* The worker gave a result for an item that it does not have. */
void channel_foreign(struct worker *worker, uint64_t item);
/* A metric of the item cannot be added to the run's sums. */
void channel_unsummed(struct worker *worker, uint64_t item);

/* backpressure.c */
void session_backpressure(struct session *s, bool is_held);
/* The feeder's clock. It stands still while workers wait for the disk, so that no time limit runs. */
uint64_t feed_now(struct session *s);

/* devices.c: makes s->devices, which reports samples and losses */
void devices_watch(struct session *s);
/* As shell_verb.finish_ms; the context is the session. */
uint64_t devices_finish_ms(void *context, uint32_t host);
/* The set whose first device has position `first` among the chosen ones gets no more work. */
void device_set_benched(struct session *s, uint32_t first, const char *why);
/* Makes a state for each seat of the allocation that has none yet. */
void session_seats_make(struct session *s);
/* The set gets work again. */
void device_set_returned(struct session *s, uint32_t first);
/* The set was given back, and its last worker has ended. */
void device_set_vacated(struct session *s, uint32_t first);

/* prepare.c */
/* Devices and seats only, for --dry-run. */
MUST_CHECK int session_plan(struct session *s, struct err *err);
/* For --dry-run: counts the items too, if what would run depends on their number. */
MUST_CHECK int session_plan_items(struct session *s, struct err *err);
void session_plan_release(struct session *s);
MUST_CHECK int session_prepare(struct session *s, struct err *err);
void session_release(struct session *s);
/* failed_items.c */
/* The path of the list of failed items; free() it. */
char *failed_items_path(const struct session *s);
/* Writes one object for each failed item; removes the file if there is none. */
MUST_CHECK int failed_items_write(struct session *s, uint64_t *n_out, struct err *err);
/* records.c: adds what is wrong with a record; `position` says where the record is */
void record_flaw_add(const struct session *s, uint64_t item, struct str position,
                     struct buf *reason);
/* finish.c */
/* Writes the results of records, in their order, to the output. */
MUST_CHECK int session_merge(struct session *s, struct result_merge_stats *stats, struct err *err);
int session_finish(struct session *s, struct err *err);
/* Updates the progress display and status.json. */
void session_progress(struct session *s, bool last);
