/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that do one job together, and of which nothing is heard: do some stand still while others wait for them, and
 * which? In a hang of a training one rank is blocked, on a lock, a dead file system, a worker that gives no data, and the
 * others wait for it in a collective operation: they sleep as well, or they spin.
 *
 * A rank is silent from its last output on. What it did between two looks is known from them: it computes if its
 * processes used a twentieth of a processor or more, read or wrote 256 KiB a second or more, came or went, or if its device
 * was busy; else it stands still. One output of any rank, and the whole job goes on.
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
    uint64_t family;  /* another number if one of its processes came or went */
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
    HANG_IS_PAUSED, /* named: the ranks that are paused. No hang, but nothing goes on */
    /* Most ranks stand still, and a few compute: those are named. They may well do what the others wait for, such as
     * writing a checkpoint, so this is no hang. */
    HANG_WAITS_FOR_WORK,
    HANG_OF_SOME, /* named: those that stand still, while as many or more compute, which a rank that waits may do too */
    HANG_OF_ALL, /* all stand still; named: those at another place than most are; none if there is no such majority */
};

struct hang_verdict {
    enum hang_kind kind;
    uint64_t silent_ms;      /* since the last output of any rank */
    uint32_t n_named, first; /* hang_is_named(); the first of them, by number */
    uint32_t n_of[HANG_MOTIONS];
};

struct hang;
/* NULL: memory ran out. after_ms: the silence from which on there are verdicts; > 0. n_ranks > 0. */
struct hang *hang_new(uint32_t n_ranks, uint64_t after_ms, uint64_t now_ms);
void hang_free(struct hang *hang);
/* It printed something. Times may be earlier than what was told last. */
void hang_spoke(struct hang *hang, uint32_t rank, uint64_t at_ms);
void hang_ended(struct hang *hang, uint32_t rank, uint64_t at_ms);
/* One look at a rank; hang_every_ms from the last one. */
void hang_looked(struct hang *hang, uint32_t rank, const struct hang_look *look, uint64_t now_ms);
/* Looks are of use from half of after_ms on: before that, they cost something and decide nothing. */
bool hang_wants_looks(const struct hang *hang, uint64_t now_ms);
uint64_t hang_every_ms(const struct hang *hang);

/* To be asked after looks. */
void hang_judge(struct hang *hang, uint64_t now_ms, struct hang_verdict *out);
/* By the last verdict. */
bool hang_is_named(const struct hang *hang, uint32_t rank);
enum hang_motion hang_motion_of(const struct hang *hang, uint32_t rank);
uint64_t hang_silent_ms(const struct hang *hang, uint32_t rank, uint64_t now_ms);
