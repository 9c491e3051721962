/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run promises, held against what has truly happened.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "sim/shell/world.h"
#include "store/store.h"

enum {
    SPAWNS_MAX_FAILING = 400,
    END_SLACK_MS = 8000, /* a look for orders each second, a shard's file that is looked at */
    HALVING_LIVES = 16,
    UNPROVEN_LIVES = 6, /* RESTARTS_MAX + 1 */
    HOSTS_LEAVE_MS = 8000,
    KEPT_AFTER_MS = 10000,
    KEPT_WORKED = 50,
    KEPT_PERCENT = 60
};

static const char *out_path(void)
{
    return world.scene.is_json ? "out.jsonl" : "out.txt";
}

/* Of shards, as they are cut: as even as can be, the first ones longer. */
static uint32_t shard_first(uint32_t shard)
{
    uint32_t n = world.scene.n_items, k = world.scene.n_shards;
    return shard * (n / k) + MIN(shard, n % k);
}

static void unit_items(uint32_t unit, uint32_t *first, uint32_t *end)
{
    bool is_shard = world.scene.kind == KIND_SHARD;
    *first = is_shard ? shard_first(unit) : unit;
    *end = is_shard ? shard_first(unit + 1) : unit + 1;
}

static bool is_faultless(void)
{
    static const struct rates nothing = {0};
    return memcmp(&world.scene.rates, &nothing, sizeof(nothing)) == 0 && !world.scene.always_fails;
}

/*
 * Where nothing failed and the kernel showed what filters do, a muster that was killed after ten seconds has kept most
 * of what its workers had done, also of such that hold their answers back.
 */
static void kept_check(void)
{
    const struct scenario *scene = &world.scene;
    uint32_t n_worked = 0, n_kept = 0;
    bool is_quiet = is_faultless() && scene->load_ms <= 20 && scene->teardown_ms <= 50 &&
                    scene->disk_ms <= 300 && scene->n_lost == 0 && scene->batch == 0 &&
                    scene->stagger_ms == 0;
    bool is_filter = scene->kind == KIND_LINES || scene->kind == KIND_BLOCKS;
    for (uint32_t item = 0; item < scene->n_items; item++) {
        n_worked += world.truth->worked[item] > 0;
        n_kept += world.truth->is_done[item];
        is_quiet = is_quiet && scene->fates[item] == FATE_WELL;
    }
    if (is_quiet && is_filter && !scene->has_gpus && scene->crash_at_ms >= KEPT_AFTER_MS &&
        n_worked >= KEPT_WORKED && 100 * n_kept < KEPT_PERCENT * n_worked)
        broken("%u items were worked on in %lu ms, and %u were kept", n_worked, scene->crash_at_ms,
               n_kept);
}

void done_note(bool was_killed)
{
    struct store *store = NULL;
    struct err err = {0};
    struct item_span *done = NULL;
    size_t n_done = 0;
    if (store_open(&store, "run", STORE_PEEK, &err) != 0)
        return; /* not begun yet */
    if (store_done(store, &done, &n_done, &err) != 0)
        broken("the store cannot be read: %s", err.text);
    for (size_t i = 0; i < n_done; i++)
        for (uint64_t unit = done[i].first; unit < done[i].first + done[i].count; unit++) {
            uint32_t first, end;
            unit_items((uint32_t)unit, &first, &end);
            if (end > world.scene.n_items)
                broken("item %lu is done, of %u", unit, world.scene.n_items);
            for (uint32_t item = first; item < end; item++)
                world.truth->is_done[item] = true;
        }
    free(done);
    store_close(store);
    if (was_killed)
        kept_check();
}

/* A silent host is given up before its workers count as ended; then transports have some seconds. */
static uint64_t hosts_end_ms(void)
{
    const struct scenario_hosts *hosts = &world.scene.hosts;
    uint64_t slowest_us = 0;
    for (uint32_t host = 1; host <= hosts->n; host++)
        slowest_us = MAX(slowest_us, hosts->links[host].latency_us + hosts->links[host].jitter_us);
    return hosts->n > 0 ? hosts->timeout_ms + 4 * slowest_us / 1000 + HOSTS_LEAVE_MS : 0;
}

/* Who was told to end at once has the grace of its workers for it, and what a slow disk takes. */
static void end_check(int status)
{
    const struct scenario *scene = &world.scene;
    bool is_at_once = scene->signal || scene->stop_how == 2 || scene->run_limit_ms;
    uint64_t limit_ms =
        scene->order_at_ms + scene->grace_ms + 2 * scene->disk_ms + END_SLACK_MS + hosts_end_ms();
    bool is_told = world.session == 0 && is_at_once && status >= 75;
    if (is_told && world_ms() > limit_ms)
        broken("told to end at %lu ms, it ended at %lu ms", scene->order_at_ms, world_ms());
}

void session_check(int status)
{
    const struct scenario *scene = &world.scene;
    if (scene->hosts.n > 0)
        hosts_await_end();
    if (workers_alive() > 0)
        broken("muster has ended, and %u workers live on", workers_alive());
    bool is_told = scene->signal || scene->stop_how || scene->run_limit_ms;
    bool may_stop =
        (world.session == 0 && is_told) || scene->rates.no_room > 0 || scene->rates.disk_full > 0;
    for (uint32_t host = 1; host <= scene->hosts.n; host++) /* and could not be had again */
        may_stop |= may_have_been_left(host);
    bool is_stopped = status == 75 || status == 124 || status > 128;
    if (is_stopped && !may_stop)
        broken("status %d, and nobody stopped the run", status);
    bool has_no_host = status == 69 && has_troubles();
    if (!is_stopped && status != 0 && status != 1 && !has_no_host)
        broken("status %d", status);
    end_check(status);
}

/* Does anything in the world justify that the run was given up? */
static bool may_give_up(void)
{
    const struct scenario *scene = &world.scene;
    return scene->always_fails || scene->n_lost > 0 || has_troubles() || scene->rates.babbles > 0 ||
           scene->rates.early_close > 0 || world.truth->n_bad_lives > 0 || scene->rates.refused > 0;
}

struct outcome {
    bool is_there[ITEMS_MAX], is_aside[ITEMS_MAX];
};

static void line_read(const char *line, struct outcome *outcome, long *last)
{
    bool is_json = world.scene.is_json;
    char expected[64];
    const char *digits = strpbrk(line, "0123456789");
    uint32_t item = digits ? (uint32_t)strtoul(digits, NULL, 10) : UINT32_MAX;
    snprintf(expected, sizeof(expected), "%s%u%s", is_json ? "{\"r\":" : "R", item,
             is_json ? "}" : "");
    if (world.scene.is_keyed)
        snprintf(expected, sizeof(expected), "{\"item\":%u,\"r\":%u}", item, item);
    if (strcmp(line, expected) != 0 || item >= world.scene.n_items)
        broken("the output has a line that is nobody's answer: %s", line);
    if (outcome->is_there[item])
        broken("the answer to item %u is there twice", item);
    if (!world.scene.any_order && (long)item <= *last)
        broken("the answer to item %u is behind that to %ld", item, *last);
    outcome->is_there[item] = true;
    *last = (long)item;
}

static void output_read(struct outcome *outcome)
{
    FILE *file = fopen(out_path(), "r");
    char line[4096];
    long last = -1;
    if (!file)
        broken("there is no output");
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        line_read(line, outcome, &last);
    }
    fclose(file);
}

static void asides_read(struct outcome *outcome)
{
    char path[64], line[8192];
    snprintf(path, sizeof(path), "%s.failed.jsonl", out_path());
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        uint32_t first, end, unit = UINT32_MAX;
        if (sscanf(line, "{\"item\":%u", &unit) != 1)
            broken("a line of the list of failed items: %s", line);
        unit_items(unit, &first, &end);
        if (end > world.scene.n_items || first >= end)
            broken("item %u is in the list of failed items", unit);
        uint32_t faults = 0;
        for (uint32_t item = first; item < end; item++) {
            outcome->is_aside[item] = true;
            faults = MAX(faults, world.truth->faults[item]);
        }
        if (faults < world.scene.retries + 1)
            broken("item %u was set aside after %u faults, with %u retries", unit, faults,
                   world.scene.retries);
    }
    if (file)
        fclose(file);
}

/* Each item has its answer, or is listed with the failed ones. */
static void outcome_check(int status)
{
    struct outcome outcome = {0};
    bool any_has_failed = false;
    output_read(&outcome);
    asides_read(&outcome);
    for (uint32_t item = 0; item < world.scene.n_items; item++) {
        if (outcome.is_there[item] && outcome.is_aside[item])
            broken("item %u has an answer, and is listed as failed", item);
        if (!outcome.is_there[item] && !outcome.is_aside[item])
            broken("item %u has no answer, and is not listed as failed", item);
        if (outcome.is_there[item] && world.scene.fates[item] == FATE_KILLS)
            broken("item %u has an answer, and each of its workers died", item);
        any_has_failed |= outcome.is_aside[item];
    }
    if (status != (any_has_failed ? 1 : 0))
        broken("status %d, and %s item failed", status, any_has_failed ? "an" : "no");
}

static bool log_says(const char *text)
{
    cleanup_buf struct buf log = BUF_INIT;
    struct err err = {0};
    return file_read("run/orchestrator.log", (size_t)64 << 20, &log, &err) == 0 &&
           memmem(log.at, log.len, text, strlen(text));
}

/* Where memory comes back within seconds and samples show it, nobody is said to keep it. */
static void memory_check(void)
{
    const struct scenario *scene = &world.scene;
    if (scene->has_gpus && scene->rates.no_sample == 0 && scene->n_lost == 0 &&
        log_says("was not freed within"))
        broken("device memory was back, and muster says that it was not");
}

/*
 * Each life may be minutes of loading: where only items kill, one costs the lives of its tries, and of the halving
 * that finds it among those that its worker had in hand. On a device that never gave a result, deaths are held
 * against the device, until it is benched.
 */
static void lives_check(void)
{
    const struct scenario *scene = &world.scene;
    uint32_t n_killers = 0;
    bool is_plain = is_faultless() && scene->n_lost == 0 && scene->hosts.n == 0 &&
                    world.session == 0 && scene->kind == KIND_CHANNEL;
    for (uint32_t item = 0; item < scene->n_items; item++)
        n_killers += scene->fates[item] == FATE_KILLS || scene->fates[item] == FATE_KILLS_ONCE;
    uint32_t most = n_killers * (scene->retries + 1 + HALVING_LIVES);
    most += n_killers > 0 ? (scene->n_devices - 1) * UNPROVEN_LIVES : 0;
    if (is_plain && world.truth->n_deaths > most)
        broken("%u workers died of %u items that kill", world.truth->n_deaths, n_killers);
}

/* Where nothing but a loss went wrong and work was left for another half a minute, the devices are used again. */
static void return_check(void)
{
    const struct scenario *scene = &world.scene;
    bool is_long = scene->n_items >= 256 && scene->item_ms == 400 && scene->n_seats == 2;
    bool is_plain = is_faultless() && world.session == 0 && scene->crash_at_ms == 0;
    if (is_plain && is_long && scene->n_lost == 1 && scene->back_at_ms < 12000 &&
        world.truth->n_returned == 0)
        broken("device %u was back at %lu ms, and was not used again", scene->lost_device,
               scene->back_at_ms);
}

/* Then the output may be that of a session before, which did not live to say so. */
static bool is_killed_at_end(void)
{
    bool is = false;
    for (uint32_t i = 0; i < END_CRASHES; i++)
        is = is || world.scene.end_crashes[i] > 0;
    return is;
}

void run_check_all(int status)
{
    lives_check();
    return_check();
    memory_check();
    if (world.truth->n_spawns > SPAWNS_MAX_FAILING * (1 + world.scene.hosts.n) &&
        world.scene.always_fails)
        broken("%u workers were started, each of which failed", world.truth->n_spawns);
    bool may_be_of_before = is_killed_at_end() && may_give_up();
    if (status == 1 && (may_be_of_before || access(out_path(), F_OK) != 0)) {
        if (!may_give_up())
            broken("the run was given up, and nothing in it failed");
        return;
    }
    outcome_check(status);
}
