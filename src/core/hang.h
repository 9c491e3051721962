/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds which ranks of a silent job stand still while others wait for them. In a training that hangs, one rank is
 * blocked, by a lock, a dead file system, or a worker that gives no data; the others wait for it in a collective
 * operation: they sleep as well, or they spin.
 *
 * A rank is silent from its last output on. Two looks tell what it did between them: it computes if its processes
 * used at least a twentieth of a processor, read or wrote at least 256 KiB a second, or came or went, or if its
 * device was busy; else it stands still. Any output of any rank shows that the whole job goes on.
 *
 * Pure: facts in, verdict out. No clock, and no allocation after hang_new.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is seen of a rank. Sums are of all its processes, since their start. */
struct hang_look {
    uint64_t cpu_ms, io_bytes;
    uint64_t family;  /* changes if one of its processes comes or goes */
    uint64_t place;   /* equal for ranks whose programs stand at the same place */
    bool is_blocked;  /* in the kernel, where not even a signal wakes it (state D) */
    bool is_paused;   /* by SIGSTOP, or by a debugger */
    int busy_percent; /* of its device; -1: not known */
};

enum hang_motion {
    HANG_UNKNOWN, /* no two looks, or none lately */
    HANG_STILL,
    HANG_COMPUTES,
    HANG_PAUSED,
    HANG_GONE, /* it has ended */
    HANG_MOTIONS
};

enum hang_kind {
    HANG_NONE,
    HANG_IS_PAUSED, /* named: the paused ranks. No hang, but the job does not go on */
    /* Most ranks stand still, and a few compute: those are named. They may well do what the others wait for, such as
     * writing a checkpoint, so this is no hang. */
    HANG_WAITS_FOR_WORK,
    HANG_OF_SOME, /* named: the ranks that stand still, while as many or more compute or spin */
    HANG_OF_ALL,  /* all stand still; named: those not where the majority is, if there is one */
};

struct hang_verdict {
    enum hang_kind kind;
    uint64_t silent_ms;      /* since the last output of any rank */
    uint32_t n_named, first; /* how many are named; the lowest of them */
    uint32_t n_of[HANG_MOTIONS];
};

struct hang;
/* NULL: memory ran out. after_ms: the silence from which on there are verdicts; > 0. n_ranks > 0. */
struct hang *hang_new(uint32_t n_ranks, uint64_t after_ms, uint64_t now_ms);
void hang_free(struct hang *hang);
/* The rank has printed. Times may be earlier than the last one. */
void hang_spoke(struct hang *hang, uint32_t rank, uint64_t at_ms);
void hang_ended(struct hang *hang, uint32_t rank, uint64_t at_ms);
/* Takes a look at a rank, hang_every_ms after the last one. */
void hang_looked(struct hang *hang, uint32_t rank, const struct hang_look *look, uint64_t now_ms);
/* Are looks needed? From half of after_ms of silence on: before that they would decide nothing. */
bool hang_wants_looks(const struct hang *hang, uint64_t now_ms);
uint64_t hang_every_ms(const struct hang *hang);

/* Call it after looks. */
void hang_judge(struct hang *hang, uint64_t now_ms, struct hang_verdict *out);
/* By the last verdict. */
bool hang_is_named(const struct hang *hang, uint32_t rank);
enum hang_motion hang_motion_of(const struct hang *hang, uint32_t rank);
uint64_t hang_silent_ms(const struct hang *hang, uint32_t rank, uint64_t now_ms);
