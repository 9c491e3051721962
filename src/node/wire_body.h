/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of frames (wire.h). One function describes a message for both directions: it adds the message's fields
 * to a body that is written, and fills them in from a body that is read. Numbers are little-endian; a text is its
 * length (u32) and its bytes, which may be any but NUL.
 *
 * Nothing that is read is trusted: a missing field, or a text longer than its array, makes the body malformed; that
 * field and all later ones are 0 or "". A message is taken only if wire_body_is_whole().
 */
#pragma once

#include "base/buf.h"
#include "device/probe.h"
#include "device/seat.h"
#include "node/left_file.h"
#include "node/node.h"

struct wire_body {
    struct buf *out; /* NULL: `in` is read */
    struct str in;   /* the rest */
    bool is_malformed;
};

static inline struct wire_body wire_body_to(struct buf *out)
{
    return (struct wire_body){.out = out};
}

static inline struct wire_body wire_body_of(struct str bytes)
{
    return (struct wire_body){.in = bytes};
}

/* Was every byte read, and none missing? */
static inline bool wire_body_is_whole(const struct wire_body *body)
{
    return !body->is_malformed && body->in.len == 0;
}

/* ---- fields ---- */

void wire_u8(struct wire_body *body, uint8_t *value);
void wire_u32(struct wire_body *body, uint32_t *value);
void wire_u64(struct wire_body *body, uint64_t *value);
void wire_i32(struct wire_body *body, int *value);
/* Any byte but 0 and 1 is malformed, so that a message has one form. */
void wire_flag(struct wire_body *body, bool *value);
/* Without NUL, and shorter than `cap`. */
void wire_text(struct wire_body *body, char *at, size_t cap);
/* Any bytes, at most `max`; from a body that is read, a view of it. */
void wire_bytes(struct wire_body *body, struct str *bytes, size_t max);
/* `len` bytes. */
void wire_raw(struct wire_body *body, void *at, size_t len);

/* ---- messages: CREDIT, END, FILE_CREDIT and READY (the agent's time, clock_file_ns) are a number alone ---- */

/* HELLO, both ways. */
struct wire_hello {
    uint32_t protocol;
    char version[64]; /* of muster */
    char program[33]; /* its hash (bundle.h) */
    char host[256];
    char machine[32]; /* as uname -m */
    uint64_t pid, wall_ms;
    uint64_t silence_limit_ms; /* from the head: when the agent gives the link up */
    uint64_t slurm_job;        /* that the agent is in; 0: none */
};
void wire_hello(struct wire_body *body, struct wire_hello *hello);

/* TAKE: the devices that the head wants of this host. */
struct wire_take {
    char gpus[4096]; /* SPEC; "": free devices */
    uint64_t gpus_per_worker, workers_per_gpu, wait_ms;
    uint8_t visible; /* enum visible_mode */
    char run_id[256];
    char cwd[4096];     /* the head's: for the workers, if it exists there */
    char program[4096]; /* of the workers; refused if it is missing; "": not known */
    char script[4096];  /* their script; likewise */
    /*
     * "": not asked. Else the agent and the guards of its workers hold the name `presence`.`agent_number` (lock.h). Agents
     * of one head on one host are numbered from 1; those up to `empty_number` are known to have left nothing. EMPTY is sent
     * when no process holds the name of one between that number and the agent's own.
     */
    char presence[64];
    uint32_t agent_number, empty_number;
};
void wire_take(struct wire_body *body, struct wire_take *take);

/* TAKEN: the devices that were chosen, and the seats on them; a seat's devices are positions among these. */
struct wire_taken {
    struct device *devices; /* [n_devices], free() it after reading */
    struct seat *seats; /* [n_seats], free() it after reading; without devices if there are none */
    uint32_t n_devices, n_seats;
    char *notes;        /* lines for the user, free() it after reading; not NULL */
    uint32_t n_cpus;    /* CPUs that the agent may use; 0: not known */
    char program[4096]; /* the agent's own; "": not known */
    char place[128];    /* where its presence is seen: machine and network; "": nowhere */
    uint8_t *
        distance; /* [n_devices * n_devices], smaller is nearer; NULL: not known. free() it after reading */
};
void wire_taken(struct wire_body *body, struct wire_taken *taken);
/* After reading: makes names printable, and identities safe in paths. */
void wire_taken_clean(struct wire_taken *taken);
void wire_taken_release(struct wire_taken *taken);

/* REFUSED and FAILED: an error. */
void wire_error(struct wire_body *body, struct err *err);

/* SPAWN. A first word AGENT_PROGRAM stands for the agent's own program, whatever its path is there. */
#define AGENT_PROGRAM "{muster}"
struct wire_spawn {
    uint32_t seat; /* its number among the seats that were taken */
    uint64_t grace_ms;
    bool has_input, answers;
    uint8_t channel;         /* enum worker_channel */
    uint32_t umask;          /* of the head's files */
    uint32_t files;          /* the number of the worker's files; WIRE_NO_WORKER: none */
    char error_variable[64]; /* "": it has no error file */
    struct cpu_wish cpus;    /* n_ranks 0: the CPUs are the seat's */
    uint32_t local_rank;     /* among the ranks of `cpus` */
    char cwd[4096];          /* "": that of the agent */
    /* The worker has the devices of these seats together, or none, instead of those of `seat`. */
    bool is_joined;
    uint32_t n_joined, joined[SEAT_DEVICES_MAX];
    /* NULL-terminated. changes: of the agent's own environment, as env_apply() has them. */
    const char **argv, **changes;
};
void wire_spawn(struct wire_body *body, struct wire_spawn *spawn);
void wire_spawn_release(struct wire_spawn *spawn);

struct wire_started {
    uint64_t pid, guard_pid;
};
void wire_started(struct wire_body *body, struct wire_started *started);
/* GONE. */
void wire_exit(struct wire_body *body, struct worker_exit *exit);

/* ASK: what node_ask_read() and the others were given. */
enum wire_ask_kind {
    ASK_READ,
    ASK_REST,
    ASK_WAIT,
    ASK_STAND,
    ASK_WHERE, /* value: a new number each time */
    ASK_KINDS
};
struct wire_ask {
    uint8_t kind;
    uint64_t value;
};
void wire_ask(struct wire_body *body, struct wire_ask *ask);
/* INPUT: a fact about a worker that had been sent so many bytes of input. */
struct wire_input {
    uint8_t fact; /* enum input_fact */
    uint64_t n_bytes;
};
void wire_input(struct wire_body *body, struct wire_input *input);
/* STAND. */
void wire_stand(struct wire_body *body, struct proc_stand *stand);
/* SAMPLE: of a device, by its position among the devices of TAKEN. */
void wire_sample(struct wire_body *body, struct device_sample *sample);

/* STAGE: asks whether the agent sees the head's files. */
struct wire_stage {
    char probe_path[4096], probe_token[64]; /* a file of the head's, and its content */
    bool needs_cwd;                         /* the head's folder of work as well */
};
void wire_stage(struct wire_body *body, struct wire_stage *stage);
/* STAGED. */
struct wire_staged {
    bool is_shared;    /* the head's paths hold there, too */
    char folder[4096]; /* else the folder for the files */
};
void wire_staged(struct wire_body *body, struct wire_staged *staged);
/* PREPARE: the files of a worker that is to be started. */
struct wire_prepare {
    char input_name[512], output_name[512]; /* below the folder for the files; "": none */
    /* NULL-terminated, of the same length: for each file that the worker is to leave, the option that names it, and its
     * pattern; "": it is the output. */
    const char **options, **patterns;
    uint64_t
        since_ns; /* files count that are not older, by the agent's clock; 0: files from now on */
};
void wire_prepare(struct wire_body *body, struct wire_prepare *prepare);
void wire_prepare_release(struct wire_prepare *prepare);
/* FOUND: the files, in the order of `patterns`. */
struct wire_found {
    struct left_file *files; /* [n_files], with wire_found_release after reading */
    uint32_t n_files;
};
void wire_found(struct wire_body *body, struct wire_found *found);
void wire_found_release(struct wire_found *found);
/* FETCH: the file as it was found, without its first bytes. */
struct wire_fetch {
    struct file_trace trace; /* free() its path after reading */
    uint64_t from;
};
void wire_fetch(struct wire_body *body, struct wire_fetch *fetch);
struct wire_file_end {
    uint64_t n_bytes, hash; /* of the whole file: XXH3-64 */
};
void wire_file_end(struct wire_body *body, struct wire_file_end *end);
