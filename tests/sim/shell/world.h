/* SPDX-License-Identifier: Apache-2.0
 *
 * An invented machine under the real shell, map and store. Time passes only when nothing is left to do; what
 * happens, and when, follows from a seed.
 *
 *   world.c       time, and what is to happen
 *   fake_uv.c     the event loop, in that time: the functions of libuv that muster calls
 *   fake_node.c   a node with invented workers (node/node.h)
 *   fake_look.c   what is seen of a worker that reads its input
 *   fake_actor.c  what a worker does
 *   fake_host.c   what else of a machine muster asks: clocks, devices, its children
 *   scenario.c    the run that is asked for, drawn from the seed
 *   scenario_hosts.c  the hosts of it, and what befalls them
 *   fake_agent.c  agents on hosts, each a process with a stack of its own
 *   fake_link.c   the streams between muster and agents
 *   fake_head.c   what muster sends to workers on hosts
 *   fake_end.c    the last steps of a run, between which muster is killed
 *   check.c       the promises, looked at when the run is over
 *
 * What a killed muster leaves is on disk; a muster that is to be killed runs in a child, so what both sessions of
 * a run must know of the workers lies in shared memory (struct truth).
 */
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/rng.h"

enum {
    ITEMS_MAX = 4096,
    DEVICES_MAX_SIM = 8,
    HOSTS_MAX_SIM = 1024,
    TROUBLES_MAX = 8,
    END_CRASHES = 3, /* sessions that may be killed at their end */
    FAULTS_TEXT = 400
};

enum worker_kind {
    KIND_LINES,   /* a filter that writes out each answer */
    KIND_BLOCKS,  /* one that holds answers back until it has many, or its input ends */
    KIND_CHANNEL, /* says done and fail over its channel */
    KIND_SHARD,   /* makes a file of its items, and ends */
    WORKER_KINDS
};

/* What befalls every worker that has this item in hand. */
enum item_fate {
    FATE_WELL,
    FATE_KILLS,       /* the worker dies of it, each time */
    FATE_KILLS_ONCE,  /* the first time */
    FATE_FAILS,       /* a channel worker says so, each time */
    FATE_FAILS_ONCE,  /* the first time */
    FATE_BAD_MESSAGE, /* the result cannot be taken, the first time */
    FATE_HANGS        /* the worker never gets through with it */
};

/* How likely something is, in thousandths. */
struct rates {
    unsigned refused;     /* a worker cannot be executed */
    unsigned no_room;     /* a worker cannot be started for want of processes */
    unsigned dies;        /* a worker dies at some item through no fault of it */
    unsigned guard_lost;  /* and its guard was killed with it */
    unsigned deaf;        /* a worker ignores TERM */
    unsigned early_close; /* a filter closes its input and lives on */
    unsigned babbles;     /* a line that is no answer */
    unsigned unseen;      /* the kernel does not show what a worker waits for */
    unsigned no_sample;   /* a sample of a device is not there */
    unsigned disk_full;   /* a commit finds no room */
};

/* What befalls a host. */
enum trouble_kind {
    TROUBLE_CUT,     /* nothing gets through for a while; then what was sent arrives late */
    TROUBLE_RESET,   /* the connection ends on muster's side, and mostly on the other */
    TROUBLE_KILLED,  /* its agents are killed */
    TROUBLE_TERM,    /* its agents get SIGTERM; in a Slurm job, and later they are killed */
    TROUBLE_DOWN,    /* all that is there ends, and for a while nothing can be started */
    TROUBLE_SPOILED, /* bytes are lost, repeated or changed on the way */
    TROUBLE_NARROW,  /* few bytes get through for a while */
    TROUBLE_KINDS
};

struct trouble {
    enum trouble_kind kind;
    uint32_t host;
    uint64_t at_ms, until_ms; /* UINT64_MAX: for ever */
};

struct scenario_link {
    uint64_t latency_us, jitter_us, bytes_per_ms, start_ms;
    size_t room_bytes;
    int64_t clock_ahead_ms; /* of the host */
    bool has_banner;        /* a shell that prints */
    bool is_in_job;         /* of Slurm: TERM comes some time before its end */
};

struct scenario_hosts {
    uint32_t n; /* numbered from 1; 0: there is none but muster's own machine, host 0 */
    bool has_local;
    uint64_t timeout_ms;
    struct trouble troubles[TROUBLES_MAX];
    uint32_t n_troubles;
    struct scenario_link links[HOSTS_MAX_SIM + 1];
};

struct scenario {
    enum worker_kind kind;
    uint32_t n_items, n_seats, n_devices, devices_per_worker, workers_per_device;
    bool has_gpus, any_order, no_reissue, always_fails;
    bool is_json;  /* what filters read and print */
    bool is_keyed; /* answers say which item they are for, and come in any order */
    bool fixed_batches;
    uint32_t retries, batch, block, credits, n_shards;
    uint64_t load_ms, item_ms, teardown_ms, grace_ms, item_limit_ms, run_limit_ms, stagger_ms;
    uint64_t disk_ms;             /* at most, for a commit */
    uint64_t memory_lag_ms;       /* a dead worker's device memory is back after that */
    size_t pipe_bytes, cut_bytes; /* room of a pipe; most bytes that are read at once */
    uint32_t loading_max;
    uint32_t lost_host;
    uint32_t lost_device, n_lost;    /* so many devices from this one on; 0: none */
    uint64_t lost_at_ms, back_at_ms; /* UINT64_MAX: never */
    bool loss_kills;                 /* the workers there, at that moment */
    enum item_fate fates[ITEMS_MAX];
    struct rates rates;
    int signal,
        stop_how; /* of the first session, at this time; 0: none; stop_how 1: drain, 2: now */
    uint64_t order_at_ms, crash_at_ms; /* 0: never */
    uint32_t end_crashes[END_CRASHES]; /* at that step of a session's end; 0: never */
    struct scenario_hosts hosts;
};

/* What has truly happened, in all sessions of the run. */
struct truth {
    uint32_t worked[ITEMS_MAX]; /* how often a worker came to its end with it */
    uint32_t
        faults[ITEMS_MAX]; /* lives that ended badly with it in hand, and failures that were said */
    bool is_done[ITEMS_MAX];                  /* durable before this session began */
    uint32_t n_spawns, n_bad_lives, n_deaths; /* of those, by an item or by chance */
    uint32_t n_returned; /* workers that were started on a device that was lost before */
    uint64_t n_events;
    int status; /* of the last session that ended by itself */
    bool is_broken;
    char broken[FAULTS_TEXT]; /* the first promise that was not kept */
};

struct place;

struct world {
    struct scenario scene;
    struct place *place; /* where what happens now happens: an agent. NULL: muster's machine */
    struct truth *truth;
    struct rng rng;
    uint64_t seed, now_ns, begin_ns;
    uint32_t session;
    bool is_traced;
    bool all_have_hosts; /* every run, and not some */
    uint32_t crowd;      /* so many hosts, without troubles; 0: as the seed has it */
    FILE *said;          /* the simulator's own words: muster's go elsewhere */
    jmp_buf give_up;     /* of this session: it does not end, or broke a promise */
};
extern struct world world;

typedef void future_fn(void *context, uint64_t argument);

void world_begin(uint64_t seed);
uint64_t world_ms(void); /* since the session began */
bool chance(unsigned thousandths);
uint64_t below(uint64_t bound);
uint64_t between(uint64_t least, uint64_t most);
void after_us(uint64_t us, future_fn *fn, void *context, uint64_t argument);
void after_ms(uint64_t ms, future_fn *fn, void *context, uint64_t argument);
/* The same, at another place. */
void at_place_us(struct place *place, uint64_t us, future_fn *fn, void *context, uint64_t argument);
/* When the next thing happens; UINT64_MAX: nothing is to happen. */
uint64_t future_next_ns(void);
/* What is due happens. */
void futures_run(void);
void futures_forget(void);
/* What is to call this function is not to happen. */
void futures_forget_of(future_fn *fn);
/* A promise was not kept: the session ends here. */
_Noreturn void broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* fake_uv.c */
struct uv_loop_s;
void uv_forget(void);
/* NULL: muster's. */
void uv_raise(const struct uv_loop_s *loop, int number);

/* fake_node.c */
/* Nobody is there yet. */
void node_world_begin(void);
uint32_t workers_alive(void);

/* fake_device.c: losses from now on */
void devices_begin(void);

/* scenario_hosts.c */
void hosts_draw(uint64_t seed, struct scenario *scene);
/* Many hosts, and an item for each of their devices. */
void crowd_draw(struct scenario *scene);
void hosts_print(const struct scenario *scene, FILE *out);
/* "h1,h2", as --hosts has them. */
char *hosts_words_new(void);
/* Troubles from now on, and what there is of one now. */
void troubles_begin(void);
bool is_in_trouble(uint32_t host, enum trouble_kind kind);
/* The run has left it when its job was to end; if it is back, its devices are new ones of the run. */
bool may_have_been_left(uint32_t host);
/* When none of this kind is left; UINT64_MAX: never. */
uint64_t trouble_until_ms(uint32_t host, enum trouble_kind kind);
bool has_troubles(void); /* in this session */
/* Muster has ended: what is on the hosts must end by itself. */
void hosts_await_end(void);

/* scenario.c */
void scenario_draw(uint64_t seed, struct scenario *scene);
void scenario_print(const struct scenario *scene, FILE *out);
/* One session of the run, to its end; its exit status. */
int session_play(void);

/* SIGKILL. */
_Noreturn void muster_kill(void);

/* fake_agent.c */
/* Processor time and memory of muster's side of a crowd: all that is not the agents'. */
void crowd_print(FILE *out);

/* fake_end.c */
void end_steps_begin(void);

/* check.c */
/* After a session that ended by itself. */
void session_check(int status);
void run_check_all(int status);
/* What the store holds, before the next session. */
void done_note(bool was_killed);
