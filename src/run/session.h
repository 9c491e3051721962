/* SPDX-License-Identifier: Apache-2.0
 *
 * A `muster map` in progress: the shell around core/feed. Facts from descriptors, timers and
 * children become feed events (session_event); the feeder's actions become deeds. No policy here.
 *
 *   map.c      request → session → exit status        prepare.c  devices, input, run folder
 *   session.c  events, actions, timers                life*.c    one life of one worker
 *   filter.c   lines in, lines out                    channel.c  JSON messages
 *   answers.c  answers that wait for their commit     keyed.c    --key
 *   ledger.c   bytes and rows made durable            finish.c   merge, summary
 *   asides.c   what failed                        inputs.c   do the files stay as they are?
 *   places.c   devices and seats                  folder.c   of the run, made and unmade
 *   watch.c    devices while the run lasts
 *   hold.c     a disk that cannot keep up        signals.c  signals, orders to stop
 *   shard.h    programs that work through a range of items by themselves
 */
#pragma once

#include <signal.h>
#include <uv.h>

#include "base/hist.h"
#include "base/log.h"
#include "core/feed.h"
#include "core/verdict.h"
#include "data/source.h"
#include "device/lock.h"
#include "device/probe.h"
#include "device/seat.h"
#include "device/spec.h"
#include "proc/guard.h"
#include "proc/keeper.h"
#include "proc/logfile.h"
#include "proc/oom.h"
#include "run/ledger.h"
#include "run/request.h"
#include "store/store.h"

struct inputs;
struct session;
struct shards;
struct shard_life;
struct watched;

/* A run of items that a filter was sent and has not answered, or has answered at a place in its part.
 * Unfit ones were not written, and keep their place in the order until it comes to them. */
struct sent_items {
    uint64_t first, count;
    bool is_unfit;
};
struct answered_items {
    uint64_t first, count, offset, bytes;
    struct metrics *metrics; /* of a channel worker's result that waits for its batch; or NULL */
};

enum life_stream {
    STREAM_IN,
    STREAM_OUT,
    STREAM_ERR,
    STREAM_CHANNEL,
    STREAM_REPORT,
    STREAMS
};

/* What channel workers say that is of no use to anybody, and is said once in a run. */
enum ignored_kind {
    IGNORED_MEMBER,
    IGNORED_ITEM,
    IGNORED_METRIC,
    IGNORED_RETRY,
    IGNORED_DENIAL,
    IGNORED_EARLY
};

/* One process from spawn to its last byte. Outlives its seat's interest until libuv let go of it. */
struct life {
    struct session *session;
    uint32_t seat;
    uint32_t number; /* of the attempt and its part, unique in the run */
    struct guard guard;
    bool is_over; /* EV_EXIT was given */
    bool is_gone; /* the guard said so, or died */
    bool exec_failed, has_exited, was_ended, is_channel, says_loaded;
    int exit_code, exit_signal, exec_errno;
    char start_error[160]; /* why it was not even started */
    struct guard_report last_report;
    struct oom_counts oom_kills; /* about the time when a SIGKILL ended it */

    int fds[STREAMS];
    uv_poll_t polls[STREAMS];
    int events[STREAMS]; /* what each poll waits for now */
    bool is_polled[STREAMS];
    unsigned open_handles;
    char *channel_path;
    bool channel_is_listening;

    bool broke_its_rule;     /* and was ended for that; `stray` says how */
    bool is_unreadable;      /* what it says cannot be taken, and is not read any more */
    bool accept_waits;       /* for a descriptor to be free */
    struct buf to_worker;    /* stdin of a filter, or the channel */
    struct buf from_worker;  /* of stdout, an unfinished line */
    struct buf channel_in;   /* an unfinished message */
    struct buf early_stdout; /* printed before it was known to be an answer */
    bool input_must_close;
    bool room_is_due;   /* to be asked for, when all that it was given is in its pipe */
    bool room_is_asked; /* of the feeder, which has not come to it yet */

    /* filters */
    struct item_span *unwritten; /* given to it; their lines are not in to_worker yet */
    size_t n_unwritten, cap_unwritten;
    bool is_loading;
    struct sent_items *sent;
    size_t n_sent, cap_sent;
    struct answered_items *answered;
    size_t n_answered, cap_answered;
    uint64_t part_line_begin; /* offset in the part after the last whole line */
    uint64_t n_items_sent, n_items_answered;
    uint64_t n_unsaid;    /* answers that were matched and not yet told to the feeder */
    char first_line[120]; /* that it printed: often a banner */
    char stray[320];      /* what gave it away: why, and the line */
    struct keyed *keyed;

    struct shard_life *shard; /* NULL: a warm worker */

    struct part *part;
    struct logfile *stdout_log, *stderr_log;

    uint64_t busy_since_ms, busy_ms; /* time with items in hand */
    struct hist item_times;          /* between answers, while it had items in hand */
    uint64_t item_since_us;          /* the last answer, or the first item after a pause */
    struct {
        uint64_t first_us, span_us, count;
    } burst; /* answers that came together share the time */
    uint64_t started_ms, live_ms, last_output_ms, next_hungry_ms, hungry_count;
    bool has_read;                        /* something of its stdin */
    uint64_t reads_look_ms;               /* when to look for that again */
    uint64_t rest_look_ms, rest_pause_ms; /* when it is looked at next; longer and longer pauses */
    uint64_t cpu_ticks_seen, bytes_in_flight;
    uint64_t items_done, mem_peak_bytes;
    int64_t started_wall_ms;
};

/* A seat, and who sits in it. */
struct place {
    struct seat seat;
    struct life *life;
    uint64_t reads_after_ms; /* of its first life that was seen to begin to read; 0: none */
    uint64_t busy_ms, load_ms, items_done;
    struct hist item_times;
    bool waits_for_memory;
    uint64_t memory_wait_since_ms;
};

/* What is known about the item or message at hand, for the actions of this very step. */
struct at_hand {
    struct str result;
    struct metrics metrics;
    const char *error; /* why an item failed, from its worker or from its worker's death */
    const char *stderr_tail;
};

/* To this process; or to its front (proc/front.h). */
enum signal_way {
    SIGNAL_DIRECT,
    SIGNAL_HANDED_ON,
    SIGNAL_WAYS
};

struct session {
    const struct map_request *request;
    struct map_request
        named;         /* the same when the run's folder is there, and so the output's name */
    char *output_name; /* that name, where it was filled in */
    struct log *log;
    const char *self_path;
    char *guard_path;
    char **argv;
    int argc;
    bool is_quiet, has_color, is_tty;

    char *run_dir, *run_id;
    bool made_run;         /* its folder is new, and nobody else can be in it */
    char *folder_stays;    /* what was there before it: that, or a folder above */
    bool folder_was_empty; /* --run-dir: or not there */
    struct store *store;
    struct ledger *ledger;
    struct source *source;
    char
        *scratch; /* [SOURCE_SCAN_BYTES], for one scan or one read at a time: nobody keeps a view */
    struct inputs *inputs; /* its files, as they were */
    bool input_is_changed; /* one was written to: no resume may go on with this run */
    struct device_list devices;
    size_t *chosen, n_chosen;
    struct device_locks locks;
    struct place *places;
    uint32_t n_places;
    uint32_t *device_of; /* [n_places]: positions in chosen, as in feed_config */
    uint32_t *first_of;  /* [n_chosen] */
    struct feed *feed;
    struct item_span *done;
    size_t n_done;
    uint32_t *order;
    uint64_t base_seed;
    uint64_t aside_before;
    bool is_resumed, results_are_json;
    bool results_need_utf8; /* they are text that becomes JSON or CSV */
    struct shards *shards;  /* NULL: items are sent to warm workers; source is NULL with --items */

    uv_loop_t loop;
    bool has_loop;
    uv_timer_t feed_timer, tick_timer;
    uv_signal_t signals[8];
    size_t n_signals;
    int front_fd; /* signals that the front hands on; -1: there is none */
    uv_poll_t front_poll;
    uv_prepare_t prepare;
    uv_idle_t scan_idle;
    uv_poll_t source_poll, monitor_poll;
    bool scan_runs, source_polled, monitor_polled;
    struct reaper *reaper;
    struct keeper keeper;
    struct monitor *monitor;
    struct watched *watched; /* [devices.len] */
    struct oom_watch oom_watch;

    struct at_hand hand;
    struct feed_event *queue; /* events that actions gave rise to */
    size_t n_queue, cap_queue;
    bool in_step;
    bool is_held; /* answers are not read, and the feeder's time stands still (hold.c) */
    uint64_t held_since_ms, held_ms; /* now; and in all, before */
    uint64_t now_ms, begin_ms;
    uint64_t look_ms; /* a drained filter is to be looked at then; UINT64_MAX: none */
    uint32_t next_number;
    struct console *console;
    struct progress *progress;

    bool is_complete, is_over, was_halted, stopped_by_user, stopped_at_once;
    bool is_placed;        /* the output; the last status is written */
    bool is_merged;        /* and that is recorded */
    struct buf hook_input; /* the summary as JSON, for --on-finish */
    bool stop_waits;       /* to be told to the feeder when what is ending has ended */
    bool has_no_patience;  /* a second signal: nothing is waited for */
    enum feed_halt halt;
    int end_signal; /* INT, TERM, HUP: the status is 128 + n */
    unsigned n_end_signals[SIGNAL_WAYS];
    int end_status;       /* 75, 124: the reason has one */
    struct err end_err;   /* why the run ended early */
    char last_words[512]; /* of the last worker that died */
    char last_stray[320]; /* of the last worker out of step */
    bool stray_is_channel;
    unsigned ignored_said; /* a bit for each ignored_kind */
    uint64_t failed_items_noted;
    uint64_t n_malformed; /* of those set aside: trying again will not help */
    uint64_t first_result_ms, complete_ms, status_written_ms, progress_shown_ms;
};

/* session.c */
void session_event(struct session *s, struct feed_event event);
/* An entry in the run's table of events. worker UINT32_MAX: about no worker. */
void session_record(struct session *s, const char *kind, uint32_t worker, const char *text);
/* Until every item is settled, or the run is given up and its workers have ended. */
MUST_CHECK int session_loop(struct session *s, struct err *err);
/* Until the workers have ended. */
void session_loop_end(struct session *s);
void session_stop(struct session *s, bool now);
/* What the order to stop waited for has ended. */
void session_stop_again(struct session *s);
/* Give up the run because muster itself cannot go on (disk full, input gone). */
void session_abort(struct session *s, const struct err *why);
struct life *life_of(struct session *s, uint32_t worker);
uint64_t session_now(struct session *s);

/* signals.c */
MUST_CHECK int session_signals_start(struct session *s, struct err *err);
/*
 * A signal to end does so at once, with a sentence: who writes into a pipe may wait for its reader for ever, and
 * nothing turns the loop meanwhile. All must be committed.
 */
enum {
    END_SIGNALS = 3
};
void session_signals_end(struct session *s, struct sigaction before[END_SIGNALS]);
void session_signals_restore(struct session *s, const struct sigaction before[END_SIGNALS]);
/* Has `muster stop` been typed? */
void session_stop_check(struct session *s);

/* life.c, life_end.c, life_silence.c */
void life_spawn(struct session *s, uint32_t worker, uint64_t batch);
/* The two halves of it: the seat is taken; the process is started. */
struct life *life_new(struct session *s, uint32_t worker);
void life_start(struct life *life, uint64_t batch);
void life_start_failed(struct life *life, int rc, const struct err *why);
void life_end(struct life *life);
void life_terminate(struct life *life, enum feed_cause cause);
void life_poll(struct life *life, enum life_stream stream, int events);
/* Listen again for what is wanted, as far as the session is not held. */
void life_poll_again(struct life *life);
void life_stream_close(struct life *life, enum life_stream stream);
/* Write what is pending to its stdin or channel; asks for room when it is through. */
void life_flush(struct life *life);
void life_child_ended(struct session *s, pid_t pid, int wait_status);
void life_hungry_check(struct life *life);
/* How long a worker that gets nothing more may take to end. */
uint64_t life_ending_limit_ms(const struct life *life);
/* Before the loop sleeps: has a filter come to rest that was drained, or has answered nothing yet? */
void life_rest_check(struct life *life);
void life_reads_check(struct life *life);
void life_ask_for_room(struct life *life);
/* The feeder has come to it. False: what was sent meanwhile waits already, so there is none. */
bool life_room_is_there(struct life *life);
/* It does not read any more; what that means shows within BROKEN_GRACE_MS. */
void life_input_broken(struct life *life, enum life_stream stream);
/* Read what is there, at most so often. False when the stream has ended. */
bool life_stream_read(struct life *life, enum life_stream stream, int reads_max);
void life_report_read(struct life *life);
/* Of what a shard printed, what was held back is shown. */
void life_words_end(struct life *life);
/* The process and all that was his are gone: read what is left, then tell the feeder. */
void life_over(struct life *life);
/* One of its handles is closed, and one reference to it less. */
void life_handle_closed(uv_handle_t *handle);
void life_first_result(struct life *life);
/* Items were sent to it, or came back: keeps its counts and its busy time. */
void life_sent(struct life *life, uint64_t count);
void life_answered(struct life *life, uint64_t count);
bool life_is_busy(const struct life *life);
/* Its part file is open; made when the first byte comes. False: the run is being given up. */
bool life_part_ready(struct life *life);
const char *life_label(const struct life *life);

/* Why a line cannot be an answer, and its beginning, for the messages. */
void life_stray_note(struct life *life, const char *why, struct str line);

/* filter.c */
void filter_send(struct life *life, uint64_t first, uint64_t count);
/* The next lines into to_worker, which is empty. False: there are none now. */
bool filter_load(struct life *life);
void filter_read(struct life *life, struct str bytes);
void filter_eof(struct life *life);
/* Remember where answers stand in the part, and record those that are committed. */
void answers_note(struct life *life, struct answered_items items);
void answers_commit(struct life *life, uint64_t first, uint64_t count);
void answers_forget(struct life *life);
void filter_to_channel(struct life *life);

/* channel.c */
void channel_send(struct life *life, uint64_t first, uint64_t count, uint32_t attempt);
void channel_read(struct life *life, struct str bytes);
void channel_batch(struct life *life, uint64_t batch);
void channel_stop(struct life *life);
void channel_commit(struct life *life, uint64_t item);
/* It gave a result for an item that it does not have. */
void channel_foreign(struct life *life, uint64_t item);

/* hold.c */
void session_hold(struct session *s, bool is_held);
/* The feeder's time: what workers wait for the disk counts against nobody's limit. */
uint64_t feed_now(struct session *s);

/* prepare.c */
/* Before anything is opened: libraries abort where no file can be. ERR_UNAVAILABLE, with the cure. */
MUST_CHECK int session_files_check(struct err *err);
/* Devices and seats only: what --dry-run shows. */
MUST_CHECK int session_plan(struct session *s, struct err *err);
/* For a shard command, the shards as well. */
MUST_CHECK int session_plan_shards(struct session *s, struct err *err);
/* Of a run that goes on, what is left; said on stdout. */
MUST_CHECK int session_plan_left(struct session *s, struct err *err);
void session_plan_release(struct session *s);
MUST_CHECK int session_prepare(struct session *s, struct err *err);
void session_release(struct session *s);
/* After the release of one that could not begin: what it made is taken away, so that it is no run. */
void session_unmake(const char *run_dir, const char *stays, bool was_empty);
/* asides.c */
/* Where the items set aside are listed; free() it. */
char *asides_path(const struct session *s);
/* One object for each item set aside; the file is removed when there is none. */
MUST_CHECK int asides_write(struct session *s, uint64_t *n_out, struct err *err);
/* finish.c */
int session_finish(struct session *s, struct err *err);
/* progress, with the session's figures */
void session_progress(struct session *s, bool last);
