/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/queue.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "slurm/job.h"
#include "slurm/sbatch_request.h"

/* squeue also lists jobs that have ended, for as long as the controller knows them (MinJobAge, usually 5 minutes). */
void queue_words(struct env_list *out)
{
    static const char *const words[] = {
        "squeue", "--me", "--noheader", "--states=all", "--format=%F|%T|%r|%S|%e|%N|%l|%o", NULL};
    env_list_add_words(out, words);
}

void queue_past_words(uint64_t job, struct env_list *out)
{
    static const char *const words[] = {"sacct",       "--allocations",  "--noheader",
                                        "--parsable2", "--format=State", NULL};
    env_list_add_words(out, words);
    env_list_add(out, xasprintf("--jobs=%llu", (unsigned long long)job));
}

void queue_waiting_words(struct env_list *out)
{
    static const char *const words[] = {
        "squeue", "--me", "--noheader", "--states=PENDING", "--format=%F|%E|%o", NULL};
    env_list_add_words(out, words);
}

/* Makes squeue print times in seconds, which do not depend on the time zone. */
void queue_environment(struct env_list *env)
{
    env_unset_beginning(env, "SQUEUE_", NULL);
    env_unset_beginning(env, "SACCT_", NULL);
    env_unset(env, "SLURM_CLUSTERS"); /* jobs are submitted to the cluster of this node */
    env_set(env, xstrdup("SLURM_TIME_FORMAT=%s"));
}

static uint64_t seconds_of(struct str text)
{
    uint64_t seconds = 0;
    return u64_parse(text, 1, INT64_MAX / 1000, &seconds, NULL) == 0 ? seconds : 0;
}

bool queue_next(struct str *answer, struct queue_entry *out)
{
    enum {
        FIELDS = 7 /* fields before the script, whose name may contain a | */
    };
    struct str line;
    while (answer->len > 0 && str_next(answer, '\n', &line)) {
        struct str fields[FIELDS] = {0}, rest = str_trim(line);
        size_t n = 0;
        while (n < FIELDS && rest.at && str_next(&rest, '|', &fields[n]))
            n++;
        uint64_t job;
        /* A line that an older version of muster has kept has one field less: no time limit. */
        if (n < FIELDS - 1 || u64_parse(fields[0], 1, UINT32_MAX, &job, NULL) != 0)
            continue;
        *out = (struct queue_entry){
            .job = job,
            .state = fields[1],
            .reason = fields[2],
            .nodes = fields[5],
            .start_s = seconds_of(fields[3]),
            .end_s = seconds_of(fields[4]),
            .limit_s = slurm_seconds(fields[6]),
            .script = rest,
        };
        return true;
    }
    return false;
}

bool queue_waiting_next(struct str *answer, struct queue_waiting *out)
{
    struct str line, number, dependency;
    while (answer->len > 0 && str_next(answer, '\n', &line)) {
        uint64_t job;
        if (!str_next(&line, '|', &number) || !str_next(&line, '|', &dependency) ||
            u64_parse(str_trim(number), 1, UINT32_MAX, &job, NULL) != 0)
            continue;
        *out = (struct queue_waiting){job, str_trim(dependency), str_trim(line)};
        return true;
    }
    return false;
}

bool queue_waits_for_end(const struct queue_waiting *waiting, uint64_t job)
{
    cleanup_free char *words = xasprintf("afterany:%llu", (unsigned long long)job);
    const size_t len = strlen(words);
    const struct str dependency = waiting->dependency;
    return str_starts_with(dependency, str_of(words)) &&
           (dependency.len == len || dependency.at[len] == '(') &&
           !memchr(dependency.at, ',', dependency.len);
}

uint64_t queue_time_over_s(const struct queue_entry *entry)
{
    if (str_equal(entry->state, STR("RUNNING")))
        return entry->end_s; /* Slurm's own value is right also for a job that was suspended */
    bool is_known = entry->start_s > 0 && entry->limit_s > 0;
    return !is_known                                     ? 0
           : entry->limit_s < INT64_MAX - entry->start_s ? entry->start_s + entry->limit_s
                                                         : INT64_MAX;
}

bool queue_is_at_limit(const struct queue_entry *entry)
{
    return str_equal(entry->reason, STR("TimeLimit"));
}

bool queue_is_being_ended(const struct queue_entry *entry)
{
    return str_equal(entry->state, STR("COMPLETING")) || queue_phase_of(entry->state) != QUEUE_RUNS;
}

bool queue_is_held(const struct queue_entry *entry)
{
    return str_starts_with(entry->reason, STR("JobHeld")) ||
           str_equal(entry->reason, STR("job requeued in held state")) ||
           str_equal(entry->reason, STR("job_requeued_in_held_state"));
}

bool queue_find(struct str answer, uint64_t job, struct queue_entry *out)
{
    struct queue_entry entry;
    bool is_found = false;
    while (queue_next(&answer, &entry))
        if (entry.job == job && !(is_found && queue_phase_of(out->state) == QUEUE_RUNS)) {
            *out = entry;
            is_found = true;
        }
    return is_found;
}

/* ---- words ---- */

struct saying {
    const char *slurms, *words;
};

/* squeue(1), JOB REASON CODES */
static const struct saying reasons[] = {
    {"None", "Slurm has not looked at it yet"},
    {"Priority", "jobs of a higher priority are before it"},
    {"Resources", "the nodes or GPUs that it asks for are in use"},
    {"Dependency", "it begins when the job before it has ended"},
    {"DependencyNeverSatisfied", "the job that it depends on did not end as was asked"},
    {"BeginTime", "the time at which it may begin has not come"},
    {"Cleaning", "what was left of its last start is cleaned up"},
    {"JobHeldUser", "it is held: scontrol release"},
    {"job requeued in held state", "it is held: scontrol release"},
    {"job_requeued_in_held_state", "it is held: scontrol release"},
    {"JobHeldAdmin", "an administrator holds it"},
    {"JobLaunchFailure", "a node could not start it"},
    {"Licenses", "it waits for a licence"},
    {"NodeDown", "a node that it needs is down"},
    {"ReqNodeNotAvail", "a node that it names is not available"},
    {"PartitionDown", "its partition is down"},
    {"PartitionInactive", "its partition takes no jobs to run now"},
    {"PartitionNodeLimit", "it asks for more nodes than its partition gives, or has"},
    {"PartitionTimeLimit", "it asks for more time than its partition gives"},
    {"Reservation", "it waits for its reservation"},
    {"AssocGrpGRES", "the account's GPUs are all in use"},
    {"QOSMaxGRESPerUser", "you use as many GPUs as its QOS gives to a user"},
    {"QOSMaxJobsPerUserLimit", "you run as many jobs as its QOS gives to a user"},
    {"QOSMaxCpuPerUserLimit", "you use as many CPUs as its QOS gives to a user"},
    {"QOSGrpGRES", "the GPUs of its QOS are all in use"},
};

static const struct saying ends[] = {
    {"COMPLETED", "it has ended"},
    {"CANCELLED", "it was cancelled"},
    {"FAILED", "it failed"},
    {"TIMEOUT", "its time was over"},
    {"NODE_FAIL", "a node failed"},
    {"PREEMPTED", "another job took its place"},
    {"BOOT_FAIL", "its nodes could not be started"},
    {"DEADLINE", "its deadline came"},
    {"OUT_OF_MEMORY", "it ran out of its memory on a node"},
};

/* The states of jobs that are not over. A job in any other state is over. */
static const struct {
    const char *state;
    enum queue_phase phase;
} phases[] = {
    {"PENDING", QUEUE_WAITS},     {"REQUEUED", QUEUE_WAITS},     {"REQUEUE_HOLD", QUEUE_WAITS},
    {"REQUEUE_FED", QUEUE_WAITS}, {"SPECIAL_EXIT", QUEUE_WAITS}, {"RESV_DEL_HOLD", QUEUE_WAITS},
    {"CONFIGURING", QUEUE_RUNS},  {"RUNNING", QUEUE_RUNS},       {"COMPLETING", QUEUE_RUNS},
    {"SUSPENDED", QUEUE_RUNS},    {"STOPPED", QUEUE_RUNS},       {"STAGE_OUT", QUEUE_RUNS},
    {"SIGNALING", QUEUE_RUNS},    {"RESIZING", QUEUE_RUNS},
};

enum queue_phase queue_phase_of(struct str state)
{
    for (size_t i = 0; i < countof(phases); i++)
        if (str_equal(state, str_of(phases[i].state)))
            return phases[i].phase;
    return QUEUE_OVER;
}

static void saying_add(const struct saying *sayings, size_t n, struct str slurms, struct buf *out)
{
    for (size_t i = 0; i < n; i++)
        if (str_equal(slurms, str_of(sayings[i].slurms))) {
            buf_add_text(out, sayings[i].words);
            return;
        }
    buf_add_str(out, slurms);
}

void queue_reason_add(struct str reason, struct buf *out)
{
    saying_add(reasons, countof(reasons), reason, out);
}

void queue_end_add(struct str state, struct buf *out)
{
    saying_add(ends, countof(ends), state, out);
}
