/* SPDX-License-Identifier: Apache-2.0
 *
 * The channel worker of the benchmarks. By hand it does the same work on lines of stdin, which makes it
 * its own baseline: what a run takes longer than that is muster's doing.
 *
 *     bench_worker echo       give each item back
 *     bench_worker sleep      sleep the item's "ms", as a model does on a device that needs no core
 *     bench_worker model MS   compute for MS milliseconds of the clock, however loaded the cores are
 *     bench_worker share MS SERIAL_MS LOAD_MS   load; sleep MS, then SERIAL_MS while no other worker in this folder does
 *     bench_worker stamp      give the time at which the item came, in seconds of the monotonic clock
 */
#include <muster/worker.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* serial_ms is for `share` alone. */
typedef int work_fn(struct muster_worker *worker, const struct muster_item *item, double ms,
                    double serial_ms);

static void sleep_ms(double ms)
{
    struct timespec pause = {.tv_sec = (time_t)(ms / 1e3)};
    pause.tv_nsec = (long)((ms - (double)pause.tv_sec * 1e3) * 1e6);
    nanosleep(&pause, NULL);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int work_echo(struct muster_worker *worker, const struct muster_item *item, double ms,
                     double serial_ms)
{
    (void)serial_ms;
    (void)ms;
    return muster_item_done(worker, item, item->data);
}

static int work_sleep(struct muster_worker *worker, const struct muster_item *item, double ms,
                      double serial_ms)
{
    (void)serial_ms;
    struct muster_text member;
    if (muster_json_member(item->data, "ms", &member))
        ms = strtod(member.at, NULL);
    sleep_ms(ms);
    return muster_item_done(worker, item, (struct muster_text){"0", 1});
}

static int work_share(struct muster_worker *worker, const struct muster_item *item, double ms,
                      double serial_ms)
{
    int lock = open("serial.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    sleep_ms(ms);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        return muster_item_fail(worker, item, "the lock cannot be had", false);
    sleep_ms(serial_ms);
    close(lock);
    return muster_item_done(worker, item, (struct muster_text){"0", 1});
}

/* The sum keeps the compiler from leaving the loop out; its value means nothing. */
static int work_model(struct muster_worker *worker, const struct muster_item *item, double ms,
                      double serial_ms)
{
    (void)serial_ms;
    char text[40];
    double until_ms = now_ms() + ms, sum = 0;
    while (now_ms() < until_ms)
        for (int i = 1; i < 2000; i++)
            sum += 1.0 / (double)i;
    int len = snprintf(text, sizeof(text), "%.6g", sum);
    return muster_item_done(worker, item, (struct muster_text){text, (size_t)len});
}

static int work_stamp(struct muster_worker *worker, const struct muster_item *item, double ms,
                      double serial_ms)
{
    (void)serial_ms;
    char text[40];
    (void)ms;
    int len = snprintf(text, sizeof(text), "%.6f", now_ms() / 1e3);
    return muster_item_done(worker, item, (struct muster_text){text, (size_t)len});
}

static const struct {
    const char *name;
    work_fn *work;
} works[] = {
    {"echo", work_echo},   {"sleep", work_sleep}, {"model", work_model},
    {"share", work_share}, {"stamp", work_stamp},
};

static work_fn *work_find(const char *name)
{
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
        if (strcmp(works[i].name, name) == 0)
            return works[i].work;
    return NULL;
}

int main(int argc, char **argv)
{
    struct muster_item item;
    work_fn *work = argc > 1 ? work_find(argv[1]) : NULL;
    double ms = argc > 2 ? strtod(argv[2], NULL) : 0;
    double serial_ms = argc > 3 ? strtod(argv[3], NULL) : 0;
    double load_ms = argc > 4 ? strtod(argv[4], NULL) : 0;
    if (!work) {
        fprintf(
            stderr,
            "usage: bench_worker echo | sleep | model MS | share MS SERIAL_MS LOAD_MS | stamp\n");
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1000ul); /* sleeps are to be as long as asked for */
    sleep_ms(load_ms);
    struct muster_worker *worker = muster_worker_open(NULL);
    while (muster_worker_next(worker, &item) > 0)
        if (work(worker, &item, ms, serial_ms) < 0)
            break;
    const char *error = muster_worker_error(worker);
    if (*error)
        fprintf(stderr, "bench_worker: %s\n", error);
    return muster_worker_close(worker) == 0 ? 0 : 1;
}
