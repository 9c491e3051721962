/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a verb that only looks (gpus, doctor) on many hosts at once. The agent of each host runs its own program as a
 * worker without a device; "local" in the list is this machine. The answers are foreign bytes: bounded here; the
 * caller parses and cleans them.
 */
#pragma once

#include "node/host_list.h"
#include "shell/hosts.h"

enum {
    HOST_OUT_MAX_BYTES =
        8 << 20, /* of what the verb prints; a longer answer is an error of the host */
    HOST_SAID_MAX_BYTES = 8192,
};

/* What one host answered. */
struct host_answer {
    const struct host *host;
    struct err why; /* code 0: the verb ran to its end there */
    int status;     /* of the verb */
    struct buf out, /* the verb's standard output */
        said;       /* the beginning of its standard error, and of the transport's */
    bool is_said_cut;
    char version[64]; /* of muster there; "": not known */
    uint32_t n_cpus;  /* that muster may use there; 0: not known */
    uint64_t round_trip_ms;
    int64_t clock_ahead_ms; /* its clock minus ours, to within a round trip */
};

struct host_ask_opts {
    struct log *log;
    const char *self_path;
    const struct allocation_wish *wish; /* its hosts, and how to reach them; borrowed */
};

struct host_question {
    const char *const *words; /* the verb and its options, NULL-terminated */
    const char *gpus; /* SPEC for -g; NULL: none. The SPEC of a host in the list overrides it */
    const char *const
        *variables;    /* of options that the host's environment must not set; NULL-terminated */
    uint64_t limit_ms; /* for the verb, in addition to the limit for the host's answer */
};

/*
 * Makes the environment for a verb that looks, on another host or on this one. The `variables` of its options (NULL-
 * terminated) are unset: --hosts would ask without end, --watch would not return.
 */
void look_environment(const char *const *variables, struct env_list *env);

struct host_ask;

/* ERR_USAGE, ERR_UNAVAILABLE. Close *out also after an error, if it is not NULL. */
MUST_CHECK int host_ask_open(const struct host_ask_opts *opts, struct host_ask **out,
                             struct err *err);
/*
 * Asks all hosts, and waits until each has answered or its time is over. Connections are kept for the next question.
 * Returns 0, or 128 + a signal that came meanwhile.
 */
MUST_CHECK int host_ask(struct host_ask *ask, const struct host_question *question);
/* In the order of the list; valid until the next question. */
const struct host_answer *host_answers(const struct host_ask *ask, size_t *n_answers);
/* Waits between two questions, and keeps the connections alive. Returns as host_ask(). */
MUST_CHECK int host_ask_pause(struct host_ask *ask, uint64_t pause_ms);
void host_ask_close(struct host_ask *ask);
