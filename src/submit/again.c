/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/again.h"

#include <signal.h>
#include <stddef.h>

enum {
    STATUS_STOPPED = 75 /* the verb was stopped, and can be resumed */
};

static const struct {
    bool goes_on;
    const char *why;
} verdicts[] = {
#define X(id, is_again, why) [AGAIN_##id] = {is_again, why},
    AGAIN_VERDICTS(X)
#undef X
};

bool again_goes_on(enum again_verdict verdict)
{
    return verdicts[verdict].goes_on;
}

const char *again_why(enum again_verdict verdict)
{
    return verdicts[verdict].why;
}

/* Did the verb end because it was asked to, as when the job's time is over? */
static bool is_left_off(const struct again_facts *facts)
{
    bool is_by_signal = facts->status == 128 + SIGTERM || facts->status == 128 + SIGKILL;
    bool is_at_limit = facts->is_limit_near && facts->is_ended; /* its programs got SIGTERM too */
    return facts->is_killed || facts->status == STATUS_STOPPED || is_at_limit ||
           (facts->is_limit_near && is_by_signal);
}

enum again_verdict again_judge(const struct again_facts *facts)
{
    if (facts->status == 0 && !facts->is_killed)
        return AGAIN_DONE;
    if (facts->is_stopped)
        return AGAIN_STOPPED;
    if (facts->is_ended && !facts->is_limit_near)
        return AGAIN_CANCELLED;
    if (!is_left_off(facts))
        return AGAIN_FAILED;
    if (facts->again_max == 0)
        return AGAIN_FORBIDDEN;
    if (facts->n_again >= facts->again_max)
        return AGAIN_BOUND;
    if (facts->knows_gain && facts->n_done <= facts->n_done_before)
        return AGAIN_NO_GAIN;
    return AGAIN_GOES_ON;
}
