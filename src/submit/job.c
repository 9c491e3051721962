/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/job.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/env_list.h"
#include "base/fs.h"
#include "base/ignored_signals.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "proc/front.h"
#include "slurm/job.h"
#include "slurm/queue.h"
#include "store/lock.h"
#include "store/orders.h"
#include "store/runs.h"
#include "store/submission.h"
#include "submit/again.h"
#include "submit/batch.h"
#include "submit/gain.h"
#include "submit/queue_answer.h"
#include "submit/stage.h"
#include "submit/tasks.h"

enum {
    LOOK_EVERY_S = 1,
    LOCK_WAIT_MS = 10 * 60 * 1000,
    CLOCKS_DIFFER_S = 30, /* at most, between Slurm's clock and this node's */
    CGROUPS_BYTES_MAX = 1 << 16,
    ASK_AGAIN_WITHIN_MS = 2000,
    TRIES = 5, /* of submitting again */
    TRY_EVERY_S = 5,
    PATIENCE_MS =
        10 * 60 * 1000 /* if the controller is away: another one takes over after minutes */
};

struct job {
    const struct job_request *request;
    const char *ledger_dir; /* of the verb's run; NULL: the verb has none */
    uint64_t number;
    struct run_lock lock; /* of a verb without a ledger */
    sigset_t signals, signals_before;
    pid_t child;         /* 0: none */
    struct front front;  /* of the child */
    int status;          /* of the child, when it has ended */
    int64_t time_over_s; /* when the job's time is over, by Slurm's clock; 0: unknown */
    bool is_being_ended; /* squeue says that Slurm ends it */
    bool is_at_limit;    /* squeue says that the limit is the reason */
    bool drain_is_due;
    bool is_over; /* it is decided whether the script is submitted again */
    bool has_noted_interruption;
    int64_t since_ms; /* of a job that begins again: when it was submitted; 0: it begins first */
    struct again_facts facts;
};

/* ---- the run's folder ---- */

/*
 * Is the run complete, so that there is nothing to do? Not a graph that the user submits again: jobs of it that are
 * done may have to run again.
 */
static bool is_finished(const struct job *job)
{
    struct run_summary run = {0};
    bool is = job->ledger_dir && run_inspect(job->ledger_dir, &run, NULL) == 0 &&
              run.state == RUN_FINISHED && (job->since_ms > 0 || !run_is_graph(&run));
    run_summary_release(&run);
    return is;
}

static void signals_block(struct job *job)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigemptyset(&job->signals);
    for (size_t i = 0; i < countof(numbers); i++)
        sigaddset(&job->signals, numbers[i]);
    sigprocmask(SIG_BLOCK, &job->signals, &job->signals_before);
}

/* Waits for the run's lock: the job before this one may still be ending, or may go on on a node that Slurm has lost. */
static int lock_await(const struct job *job, struct err *err)
{
    const char *run_dir = job->request->run_dir;
    const uint64_t begin_ms = clock_now_ms();
    const struct timespec pause = {.tv_sec = LOOK_EVERY_S};
    struct run_holder holder;
    bool is_said = false;
    while (run_is_locked(run_dir, &holder)) {
        if (clock_now_ms() - begin_ms > LOCK_WAIT_MS)
            return fail(err, ERR_UNAVAILABLE, "run %s is still worked on by process %d on %s",
                        path_basename(run_dir), (int)holder.pid, holder.host);
        if (!is_said)
            talk("waiting for process %d on %s, which works on run %s", (int)holder.pid,
                 holder.host, path_basename(run_dir));
        is_said = true;
        if (sigtimedwait(&job->signals, NULL, &pause) > 0)
            return fail(err, ERR_STOPPED,
                        "the job was ended while process %d on %s worked on its run",
                        (int)holder.pid, holder.host);
    }
    return 0;
}

/* Does the job, and not the verb, hold the run's folder and take its orders? */
static bool has_folder(const struct job *job)
{
    return !job->ledger_dir || job->request->stage;
}

/*
 * Takes the run's lock, so that two jobs never work on one run; a verb with a ledger takes it itself. Drops orders,
 * which were meant for an earlier job.
 */
static int folder_take(struct job *job, struct err *err)
{
    const char *run_dir = job->request->run_dir;
    int rc = lock_await(job, err);
    if (rc == 0 && has_folder(job))
        rc = run_lock_take(&job->lock, run_dir, err);
    return rc ? rc : run_orders_drop(run_dir, err);
}

static int note(const struct job *job, struct job_record record, struct err *err)
{
    record.job = job->number;
    return submission_add(job->request->run_dir, &record, err);
}

static uint64_t number_of_variable(const char *name)
{
    const char *text = getenv(name);
    uint64_t number = 0;
    return text && u64_parse(str_of(text), 0, UINT32_MAX, &number, NULL) == 0 ? number : 0;
}

static int past_look(struct job *job, struct err *err)
{
    struct submission submission;
    int rc = submission_read(job->request->run_dir, &submission, err);
    if (rc)
        return rc;
    job->since_ms = submission_since_ms(&submission, job->request->stage);
    submission_release(&submission);
    return 0;
}

static int begin_note(const struct job *job, struct err *err)
{
    uint64_t n_restarts = number_of_variable("SLURM_RESTART_COUNT");
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    talk("job %llu%s on %s", (unsigned long long)job->number,
         n_restarts > 0 ? ", started again by Slurm," : "", nodes ? nodes : "?");
    /* The role is noted for jobs that the user submitted by sbatch, whose stage is not known before. */
    return note(job,
                (struct job_record){.event = JOB_STARTED,
                                    .role = job->request->stage,
                                    .nodes = nodes,
                                    .restarts = n_restarts},
                err);
}

/* ---- the verb ---- */

static _Noreturn void child_become(const struct job *job, pid_t parent, int child_fd)
{
    const struct job_request *r = job->request;
    size_t n_words = 0, n = 0;
    while (r->words[n_words])
        n_words++;
    ASSERT(n_words > 0);
    char **argv = xcalloc(n_words + 3, sizeof(*argv));
    if (!r->is_program)
        argv[n++] = xstrdup(r->self_path);
    argv[n++] = r->words[0];
    if (job->ledger_dir && job->since_ms > 0)
        argv[n++] = xasprintf("--since=%lld", (long long)job->since_ms);
    for (size_t i = 1; i < n_words; i++)
        argv[n++] = r->words[i];
    if (!r->is_program)
        front_leave(child_fd);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signals_put_back();
    sigprocmask(SIG_SETMASK, &job->signals_before, NULL);
    if (getppid() == parent)
        execvp(argv[0], argv);
    talk("run %s: %s", argv[0], errno_text(errno));
    _exit(69);
}

static int child_start(struct job *job, struct err *err)
{
    int child_fd;
    pid_t self = getpid();
    int rc = front_open(&job->front, &child_fd, err);
    if (rc)
        return rc;
    fflush(NULL);
    job->child = job->front.worker = fork();
    if (job->child == 0)
        child_become(job, self, child_fd);
    rc = job->child < 0 ? fail_errno(err, "start a process") : 0;
    close(child_fd);
    return rc;
}

static void child_reap(struct job *job)
{
    int wait_status;
    if (waitpid(job->child, &wait_status, WNOHANG) != job->child)
        return;
    job->child = 0;
    job->status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/* Asks the verb to finish what is in flight. A run that has not taken its lock yet is asked again later. */
static void drain(struct job *job)
{
    struct err err = {0};
    bool was_running = true;
    enum stop_how how;
    if (!job->ledger_dir) {
        kill(job->child, SIGTERM);
    } else if (run_stop_asked(job->ledger_dir, &how)) {
        job->facts.is_stopped = true;
    } else if (run_stop(job->ledger_dir, STOP_DRAIN, &was_running, &err) != 0) {
        talk("%s", err.text);
        kill(job->child, SIGTERM);
    }
    job->drain_is_due = !was_running;
}

/* Takes orders to a verb without a ledger, and to a stage: nothing else reads them. */
static void orders_look(struct job *job)
{
    enum stop_how how;
    if (!has_folder(job) || !run_stop_asked(job->request->run_dir, &how))
        return;
    if (!job->facts.is_stopped) {
        talk("stopped; ending %s", job->request->words[0]);
        drain(job);
    }
    job->facts.is_stopped = true;
    if (how == STOP_NOW)
        kill(job->child, SIGINT);
}

/* ---- what Slurm says ---- */

/*
 * Asks squeue for the job's time. If squeue itself got the SIGTERM of this job's processes, it is asked again; a slow
 * controller is not, since SIGKILL follows.
 */
static void time_ask(struct job *job)
{
    const uint64_t begin_ms = clock_now_ms();
    struct queue_entry entry;
    bool is_told = false;
    for (int i = 0; i < 2 && !is_told && clock_now_ms() - begin_ms < ASK_AGAIN_WITHIN_MS; i++) {
        cleanup_buf struct buf answer = BUF_INIT;
        is_told = queue_ask(&answer, NULL) == 0;
        if (!is_told || !queue_find(buf_str(&answer), job->number, &entry))
            continue;
        uint64_t time_over_s = queue_time_over_s(&entry);
        job->time_over_s = time_over_s > 0 ? (int64_t)time_over_s : job->time_over_s;
        job->is_being_ended = queue_is_being_ended(&entry);
        job->is_at_limit = queue_is_at_limit(&entry);
    }
}

/* Was the job ended because its time is over? Slurm says so; if it does not, the clock decides. */
static bool is_time_over(const struct job *job)
{
    if (job->is_being_ended)
        return job->is_at_limit;
    return job->time_over_s > 0 ? job->time_over_s - CLOCKS_DIFFER_S <= clock_wall_ms() / 1000
                                : job->facts.is_limit_near;
}

static void on_limit_near(struct job *job)
{
    if (job->facts.is_limit_near || job->facts.is_ended)
        return;
    job->facts.is_limit_near = true;
    if (job->child == 0)
        return;
    talk("the time of job %llu is over soon; %s finishes what it has in hand",
         (unsigned long long)job->number, job->request->words[0]);
    drain(job);
    time_ask(job); /* the limit may have been changed */
}

/*
 * Hands SIGTERM on to the verb. With proctrack/cgroup, Slurm sends it to the script alone; otherwise to every process
 * of the job. Then the verb gets two: muster takes them for one, and another program sees both.
 */
static void end_hand_on(struct job *job)
{
    cleanup_free char *mark = xasprintf("/job_%llu/", (unsigned long long)job->number);
    cleanup_buf struct buf groups = BUF_INIT;
    bool is_alone = file_read("/proc/self/cgroup", CGROUPS_BYTES_MAX, &groups, NULL) == 0 &&
                    strstr(buf_text(&groups), mark);
    if (!job->request->is_program || is_alone)
        front_hand_on(&job->front, SIGTERM);
}

/* Takes SIGTERM, which SIGKILL follows soon. False: there is nothing left to do. */
static bool end_take(struct job *job)
{
    bool goes_on = job->child > 0 && !job->is_over;
    job->facts.is_ended = true;
    if (goes_on)
        end_hand_on(job);
    time_ask(job); /* the limit may have been changed since */
    job->facts.is_limit_near = is_time_over(job);
    return goes_on;
}

/* Returns SIGUSR1: the time is over soon; SIGTERM: the job is ended; 0: no signal came. */
static int signal_await(const struct job *job, time_t wait_s)
{
    int number = sigtimedwait(&job->signals, NULL, &(struct timespec){.tv_sec = wait_s});
    if (number == SIGUSR1 || number == SIGUSR2) /* --signal may name either */
        return SIGUSR1;
    return number == SIGTERM || number == SIGINT || number == SIGHUP ? SIGTERM : 0;
}

/* ---- what follows ---- */

/* Waits for wait_s, or until the job is ended. */
static void pause_for_signals(struct job *job, time_t wait_s)
{
    uint64_t until_ms = clock_now_ms() + (uint64_t)wait_s * 1000;
    while (!job->facts.is_ended && clock_now_ms() < until_ms) {
        int number = signal_await(job, LOOK_EVERY_S);
        if (number == SIGUSR1)
            on_limit_near(job);
        else if (number == SIGTERM)
            (void)end_take(job);
    }
}

/* Does sbatch's message say that the controller is away? Any other message is a refusal of the job. */
static bool is_controller_away(const struct err *err)
{
    static const char *const words[] = {"contact slurm controller", "timed out",
                                        "has not answered"};
    for (size_t i = 0; i < countof(words); i++)
        if (strstr(err->text, words[i]))
            return true;
    return false;
}

/*
 * Tries several times, since a controller that is busy, or that starts again, must not end the work. Stops if scancel
 * comes meanwhile.
 */
static uint64_t submit_patiently(struct job *job, struct err *err)
{
    const char *stage = job->request->stage;
    cleanup_free char *script = stage ? stage_script_new(stage) : NULL;
    const struct batch_wish wish = {.script = script, .role = stage, .after = job->number};
    const uint64_t begin_ms = clock_now_ms();
    uint64_t next = 0;
    int rc = batch_submit(job->request->run_dir, &wish, &next, err);
    for (int i = 1; rc && next == 0 && !job->facts.is_ended; i++) {
        bool is_patient = is_controller_away(err) && clock_now_ms() - begin_ms < PATIENCE_MS;
        if (i >= TRIES && !is_patient)
            break;
        talk("%s; trying again", err->text);
        pause_for_signals(job, TRY_EVERY_S);
        if (!again_goes_on(again_judge(&job->facts)))
            break;
        rc = batch_find(job->request->run_dir, &wish, &next, err);
        if (rc == 0 && next == 0)
            rc = batch_submit(job->request->run_dir, &wish, &next, err);
    }
    return next;
}

/* Makes the stages that wait for the end of this job wait for the end of the next one. */
static void stages_tie(const struct job *job, uint64_t next)
{
    struct err err = {0};
    const struct job_request *r = job->request;
    int rc = r->stage ? stage_tie(job->number, next, &err) : 0;
    for (int i = 1; rc && i < TRIES; i++) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        rc = stage_tie(job->number, next, &err);
    }
    if (rc)
        talk("the stages behind %s do not wait for job %llu: %s", r->stage,
             (unsigned long long)next, err.text);
}

static void note_or_say(const struct job *job, struct job_record record)
{
    struct err err = {0};
    if (note(job, record, &err) != 0)
        talk("%s", err.text);
}

static void interruption_note(struct job *job)
{
    job->has_noted_interruption = true;
    note_or_say(job, (struct job_record){.event = JOB_INTERRUPTED,
                                         .status = job->facts.status,
                                         .why = again_why(AGAIN_CANCELLED)});
}

static void follow_up(struct job *job)
{
    struct err err = {0};
    job->is_over = true;
    uint64_t next = again_goes_on(again_judge(&job->facts)) ? submit_patiently(job, &err) : 0;
    enum again_verdict verdict = again_judge(&job->facts);
    const char *why = again_why(verdict);
    if (next > 0)
        stages_tie(job, next);
    if (next > 0)
        talk("%s; submitted again as job %llu", why, (unsigned long long)next);
    else if (again_goes_on(verdict))
        talk("%s, but the job cannot be submitted again: %s", why, err.text);
    else if (verdict != AGAIN_DONE)
        talk("not submitted again: %s", why);
    if (verdict != AGAIN_CANCELLED)
        note_or_say(
            job, (struct job_record){.event = JOB_ENDED,
                                     .status = job->facts.status,
                                     .why = again_goes_on(verdict) && next == 0 ? err.text : why});
    else if (!job->has_noted_interruption)
        interruption_note(job);
}

static void facts_complete(struct job *job)
{
    enum stop_how how;
    if (!job->ledger_dir)
        return;
    job->facts.n_done = gain_count(job->ledger_dir);
    if (!job->facts.is_limit_near && !job->facts.is_ended && run_stop_asked(job->ledger_dir, &how))
        job->facts.is_stopped = true;
}

/* ---- signals ---- */

static void on_end(struct job *job)
{
    bool is_drained = job->facts.is_limit_near;
    if (job->facts.is_ended || !end_take(job))
        return;
    if (job->facts.is_limit_near) {
        job->facts.is_killed = true;
        job->facts.status = err_exit_status(ERR_STOPPED);
        facts_complete(job);
        follow_up(job);
        return;
    }
    if (job->ledger_dir && !is_drained)
        drain(job);
    if (job->facts.is_stopped)
        return;
    /* Follows up at once: SIGKILL may come before the verb has ended. */
    job->facts.status = err_exit_status(ERR_STOPPED);
    interruption_note(job);
}

static void signal_take(struct job *job, time_t wait_s)
{
    int number = signal_await(job, wait_s);
    if (number == SIGUSR1)
        on_limit_near(job);
    else if (number == SIGTERM)
        on_end(job);
}

static void turn(struct job *job)
{
    signal_take(job, LOOK_EVERY_S);
    child_reap(job);
    if (job->child > 0 && job->drain_is_due)
        drain(job);
    if (job->child > 0)
        orders_look(job);
}

static int work(struct job *job, struct err *err)
{
    struct submission submission;
    int rc = submission_read(job->request->run_dir, &submission, err);
    if (rc)
        return rc;
    const struct job_request *r = job->request;
    job->facts =
        (struct again_facts){.knows_gain = job->ledger_dir && !r->gains_unseen,
                             .n_done_before = job->ledger_dir ? gain_count(job->ledger_dir) : 0,
                             .n_again = submission_count_again(&submission, r->stage),
                             .again_max = r->again_max};
    submission_release(&submission);
    rc = child_start(job, err);
    if (rc == 0)
        time_ask(job);
    while (rc == 0 && job->child > 0)
        turn(job);
    if (rc == 0 && !job->is_over) {
        signal_take(job, 0); /* the verb may have ended first */
        job->facts.status = job->status;
        facts_complete(job);
        follow_up(job);
    }
    return rc ? rc : job->status;
}

/*
 * Did scancel end tasks of the array before this job? If the user has submitted this job by sbatch, that does not
 * count.
 */
static bool are_tasks_cancelled(const struct job *job)
{
    struct submission submission;
    if (submission_read(job->request->run_dir, &submission, NULL) != 0)
        return false;
    uint64_t array = submission_array_before(&submission, job->number);
    submission_release(&submission);
    return array > 0 && queue_was_cancelled(array);
}

static int tasks_end_note(const struct job *job, const char *why, bool *is_over, struct err *err)
{
    *is_over = true;
    return note(
        job,
        (struct job_record){.event = JOB_ENDED, .status = err_exit_status(ERR_STOPPED), .why = why},
        err);
}

/*
 * Submits incomplete tasks again, and this job's script behind them, unless the user has cancelled tasks. *is_over:
 * this job has nothing else to do.
 */
static int tasks_send_again(const struct job *job, bool *is_over, struct err *err)
{
    const struct job_request *r = job->request;
    cleanup_buf struct buf left = BUF_INIT;
    uint64_t array = 0, next = 0;
    if (r->n_tasks == 0 || tasks_left(r->run_dir, r->n_tasks, &left) == 0)
        return 0;
    if (are_tasks_cancelled(job)) {
        talk("tasks %s are not complete, and tasks were cancelled: not submitted again",
             buf_text(&left));
        return tasks_end_note(job, "its tasks were cancelled", is_over, err);
    }
    if (tasks_count_rounds(r->run_dir) >= TASKS_ROUNDS) {
        talk("tasks %s are not complete after %d times; what they lack is run here",
             buf_text(&left), TASKS_ROUNDS);
        return 0;
    }
    const struct batch_wish tasks = {
        .script = TASKS_SCRIPT, .role = "tasks", .array = buf_text(&left)};
    int rc = batch_submit(r->run_dir, &tasks, &array, err);
    if (rc && array == 0) {
        talk("tasks %s are not complete, and cannot be submitted again (%s); what they lack is run "
             "here",
             buf_text(&left), err->text);
        *err = (struct err){0};
        return 0;
    }
    if (rc == 0)
        rc = batch_submit(r->run_dir, &(struct batch_wish){.after = array}, &next, err);
    if (rc && array > 0 && next == 0 && batch_cancel(r->run_dir, array, NULL, NULL) != 0)
        talk("job %llu may be left in the queue", (unsigned long long)array);
    if (rc && array > 0 && next == 0)
        return wrap(err, rc, "the job behind tasks %s cannot be submitted", buf_text(&left));
    if (rc)
        return rc;
    talk("tasks %s are not complete: submitted again as job %llu, and this job behind it as %llu",
         buf_text(&left), (unsigned long long)array, (unsigned long long)next);
    return tasks_end_note(job, "tasks that are not complete are submitted again", is_over, err);
}

int job_run(const struct job_request *request, struct err *err)
{
    bool is_over = false;
    struct job job = {.request = request,
                      .ledger_dir = request->ledger_dir,
                      .number = slurm_job_own(),
                      .lock = RUN_LOCK_INIT};
    if (job.number == 0)
        return fail(err, ERR_UNAVAILABLE,
                    "this is what the script of muster submit becomes in its "
                    "job, and this is no Slurm job");
    int rc = run_check_ours(request->run_dir, err);
    if (rc)
        return rc;
    signals_block(&job);
    rc = folder_take(&job, err);
    rc = rc ? rc : past_look(&job, err);
    rc = rc ? rc : begin_note(&job, err);
    if (rc == 0 && is_finished(&job)) {
        talk("run %s is complete", path_basename(request->run_dir));
        rc = note(&job, (struct job_record){.event = JOB_ENDED, .why = again_why(AGAIN_DONE)}, err);
    } else if (rc == 0) {
        rc = tasks_send_again(&job, &is_over, err);
        if (rc == 0)
            rc = is_over ? err_exit_status(ERR_STOPPED) : work(&job, err);
    }
    run_lock_release(&job.lock);
    const struct job_record failed = {
        .event = JOB_ENDED, .status = err_exit_status(rc), .why = err->text};
    if (rc < 0)
        note_or_say(&job, failed);
    return rc;
}
