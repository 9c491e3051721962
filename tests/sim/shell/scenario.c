/* SPDX-License-Identifier: Apache-2.0
 *
 * The run that is asked for, and what befalls it. Most runs have a fault or two: where everything fails at once,
 * nothing is seen of how one fault is met.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/cleanup.h"
#include "shard/shard.h"
#include "sim/shell/fake_agent.h"
#include "store/runs.h"

enum {
    END_STEPS = 14,
    MANY_ITEMS = 256
};

static uint64_t one_of(const uint64_t *values, size_t n)
{
    return values[below(n)];
}
#define ONE_OF(...) \
    one_of((const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static bool is_filter(enum worker_kind kind)
{
    return kind == KIND_LINES || kind == KIND_BLOCKS;
}

static void rates_draw(struct rates *rates, enum worker_kind kind)
{
    unsigned *const all[] = {&rates->refused,    &rates->no_room,   &rates->dies,
                             &rates->guard_lost, &rates->deaf,      &rates->unseen,
                             &rates->no_sample,  &rates->disk_full, &rates->early_close,
                             &rates->babbles};
    static const unsigned most[] = {200, 30, 30, 500, 500, 1000, 300, 100, 30, 20};
    /* The last is of filters that flush: a surplus line and an answer held back make the count right. */
    size_t n = countof(all) - (kind == KIND_LINES ? 0 : kind == KIND_BLOCKS ? 1 : 2);
    for (uint64_t i = below(3); i > 0; i--) {
        size_t which = below(n);
        *all[which] = (unsigned)between(1, most[which]);
    }
    if (rates->babbles > 0) /* a line too many for an answer that never comes: nobody can see it */
        rates->early_close = rates->dies = 0;
}

static void fates_draw(struct scenario *scene)
{
    bool is_channel = scene->kind == KIND_CHANNEL;
    bool has_fates = chance(500) && scene->rates.babbles == 0;
    for (uint64_t i = has_fates ? between(1, 3) : 0; i > 0; i--) {
        enum item_fate fate =
            (enum item_fate)between(FATE_KILLS, is_channel ? FATE_HANGS : FATE_KILLS_ONCE);
        if (fate == FATE_HANGS)
            scene->item_limit_ms = 4 * scene->item_ms + scene->load_ms + 1000;
        scene->fates[below(scene->n_items)] = fate;
    }
}

static void devices_draw(struct scenario *scene)
{
    scene->has_gpus = chance(400);
    scene->devices_per_worker = scene->has_gpus && chance(300) ? 2 : 1;
    scene->workers_per_device = scene->devices_per_worker == 1 && chance(200) ? 2 : 1;
    scene->n_devices = (uint32_t)between(1, 4) * scene->devices_per_worker;
    scene->n_devices = MIN(scene->n_devices, (uint32_t)DEVICES_MAX_SIM);
    scene->n_seats = scene->n_devices / scene->devices_per_worker * scene->workers_per_device;
    scene->memory_lag_ms = ONE_OF(0, 100, 2500, 20000);
    if (!scene->has_gpus || !chance(200))
        return;
    scene->lost_device = (uint32_t)below(scene->n_devices);
    scene->n_lost = chance(700) ? 1 : (uint32_t)between(1, scene->n_devices);
    scene->lost_at_ms = below(4000);
    scene->back_at_ms = chance(500) ? scene->lost_at_ms + below(10000) : UINT64_MAX;
    scene->loss_kills = chance(500);
}

static void orders_draw(struct scenario *scene)
{
    scene->order_at_ms = 1 + below(chance(500) ? 500 : 6000);
    if (chance(150))
        scene->signal = (int)ONE_OF(SIGINT, SIGTERM, SIGHUP);
    else if (chance(120))
        scene->stop_how = (int)between(1, 2);
    else if (chance(60))
        scene->run_limit_ms = scene->order_at_ms;
    if (chance(250))
        scene->crash_at_ms = 1 + below(ONE_OF(1000, 1000, 12000, 25000));
}

/* Muster is killed at the end, once or twice: its output is in place or not, and this is recorded or not. */
static void end_draw(struct scenario *scene)
{
    if (scene->crash_at_ms == 0 && chance(50))
        for (uint32_t i = 0; i < END_CRASHES; i++)
            scene->end_crashes[i] = (uint32_t)below(END_STEPS);
}

/* Nothing fails but muster, which is killed after a while: what is kept then? */
static void quiet_draw(struct scenario *scene)
{
    *scene = (struct scenario){.kind = chance(500) ? KIND_BLOCKS : KIND_LINES,
                               .n_items = MANY_ITEMS,
                               .n_seats = 2,
                               .n_devices = 2,
                               .devices_per_worker = 1,
                               .workers_per_device = 1,
                               .retries = 2,
                               .block = (uint32_t)ONE_OF(7, 32, 100000),
                               .load_ms = ONE_OF(1, 20),
                               .item_ms = ONE_OF(100, 400),
                               .grace_ms = 1000,
                               .disk_ms = 5,
                               .pipe_bytes = ONE_OF(4096, 65536),
                               .cut_bytes = 100000,
                               .crash_at_ms = between(10000, 25000)};
}

/* Nothing fails but an item that kills: how many lives does it cost? */
static void killer_draw(struct scenario *scene)
{
    *scene = (struct scenario){.kind = KIND_CHANNEL,
                               .is_json = true,
                               .n_items = 100,
                               .n_seats = 1,
                               .n_devices = 1,
                               .devices_per_worker = 1,
                               .workers_per_device = 1,
                               .retries = (uint32_t)below(3),
                               .credits = (uint32_t)between(2, 8),
                               .load_ms = 20,
                               .item_ms = 10,
                               .grace_ms = 1000,
                               .disk_ms = 5,
                               .pipe_bytes = 65536,
                               .cut_bytes = 100000};
    scene->fates[below(scene->n_items)] = FATE_KILLS;
}

/* Nothing fails but a set of devices, which is lost and comes back: is it used again? */
static void return_draw(struct scenario *scene)
{
    uint32_t per_worker = (uint32_t)between(1, 2);
    *scene = (struct scenario){.kind = chance(500) ? KIND_CHANNEL : KIND_LINES,
                               .has_gpus = true,
                               .n_items = MANY_ITEMS,
                               .n_seats = 2,
                               .n_devices = 2 * per_worker,
                               .devices_per_worker = per_worker,
                               .workers_per_device = 1,
                               .lost_device = (uint32_t)below(2 * per_worker),
                               .n_lost = 1,
                               .lost_at_ms = between(1000, 4000),
                               .loss_kills = chance(500),
                               .retries = 5,
                               .credits = 2,
                               .load_ms = 20,
                               .item_ms = 400,
                               .grace_ms = 1000,
                               .disk_ms = 5,
                               .memory_lag_ms = ONE_OF(100, 2500, 20000),
                               .pipe_bytes = 4096,
                               .cut_bytes = 100000};
    scene->is_json = scene->kind == KIND_CHANNEL;
    scene->back_at_ms = scene->lost_at_ms + between(2500, 8000); /* longer than two samples */
}

void scenario_draw(uint64_t seed, struct scenario *scene)
{
    *scene = (struct scenario){0};
    world.rng = (struct rng){mix64(seed ^ 0x5ce9a7105ce9a710u)};
    scene->kind = (enum worker_kind)below(WORKER_KINDS);
    scene->n_items = (uint32_t)between(1, chance(200) ? 200 : 24);
    devices_draw(scene);
    scene->any_order = chance(150) && scene->kind != KIND_SHARD;
    scene->no_reissue = chance(300);
    scene->always_fails = chance(30);
    scene->retries = (uint32_t)ONE_OF(0, 1, 2, 2, 2, 5);
    scene->batch = chance(150) ? (uint32_t)between(1, 5) : 0;
    scene->block = (uint32_t)ONE_OF(2, 7, 32, 100000);
    scene->credits = (uint32_t)ONE_OF(1, 1, 2, 8, 100);
    scene->n_shards = (uint32_t)between(1, MIN(scene->n_items, 9u));
    scene->load_ms = ONE_OF(1, 20, 300, 2000);
    scene->item_ms = ONE_OF(0, 1, 10, 100, 400);
    scene->teardown_ms = ONE_OF(0, 0, 50, 1500);
    scene->grace_ms = ONE_OF(200, 1000, 5000);
    scene->stagger_ms = chance(100) ? between(1, 500) : 0;
    scene->loading_max = chance(150) ? (uint32_t)between(1, 2) : 0;
    scene->disk_ms = ONE_OF(5, 5, 300, 8000);
    scene->pipe_bytes = ONE_OF(40, 200, 4096, 65536);
    scene->cut_bytes = ONE_OF(1, 5, 100, 100000);
    scene->is_json = scene->kind == KIND_CHANNEL || (is_filter(scene->kind) && chance(300));
    scene->is_keyed = scene->is_json && is_filter(scene->kind) && chance(300);
    scene->fixed_batches = scene->batch > 0 && chance(400);
    rates_draw(&scene->rates, scene->kind);
    fates_draw(scene);
    orders_draw(scene);
    end_draw(scene);
    if (world.crowd > 0)
        crowd_draw(scene);
    else if (chance(10))
        quiet_draw(scene);
    else if (chance(5))
        killer_draw(scene);
    else if (chance(10))
        return_draw(scene);
    else
        hosts_draw(seed, scene);
}

void scenario_print(const struct scenario *s, FILE *out)
{
    static const char *const kinds[] = {"lines", "blocks", "channel", "shards"};
    static const char *const fates[] = {"well",       "kills",       "kills once", "fails",
                                        "fails once", "bad message", "hangs"};
    fprintf(out, "%s, %u items on %u seats (%u devices%s, %u a worker, %u workers a device)\n",
            kinds[s->kind], s->n_items, s->n_seats, s->n_devices, s->has_gpus ? ", GPUs" : "",
            s->devices_per_worker, s->workers_per_device);
    fprintf(out,
            "retries %u, batch %u, block %u, credits %u, shards %u, load %lu ms, item %lu ms, "
            "teardown %lu ms, grace %lu ms, disk %lu ms, pipe %zu, cut %zu, memory lag %lu ms\n",
            s->retries, s->batch, s->block, s->credits, s->n_shards, s->load_ms, s->item_ms,
            s->teardown_ms, s->grace_ms, s->disk_ms, s->pipe_bytes, s->cut_bytes, s->memory_lag_ms);
    fprintf(out,
            "rates: refused %u, no room %u, dies %u, guard lost %u, deaf %u, unseen %u, no sample "
            "%u, early close %u, babbles %u\n",
            s->rates.refused, s->rates.no_room, s->rates.dies, s->rates.guard_lost, s->rates.deaf,
            s->rates.unseen, s->rates.no_sample, s->rates.early_close, s->rates.babbles);
    fprintf(
        out,
        "signal %d, stop %d, run limit %lu, order at %lu, crash at %lu, %u devices from %u on lost "
        "at %lu%s, back at %lu%s%s%s\n",
        s->signal, s->stop_how, s->run_limit_ms, s->order_at_ms, s->crash_at_ms, s->n_lost,
        s->lost_device, s->lost_at_ms, s->loss_kills ? " with its workers" : "", s->back_at_ms,
        s->always_fails ? ", always fails" : "", s->any_order ? ", any order" : "",
        s->no_reissue ? ", no reissue" : "");
    fprintf(out, "disk full %u%s%s%s\n", s->rates.disk_full, s->is_json ? ", JSON" : "",
            s->is_keyed ? ", keyed" : "", s->fixed_batches ? ", fixed batches" : "");
    fprintf(out, "killed at step %u, %u, %u of its end\n", s->end_crashes[0], s->end_crashes[1],
            s->end_crashes[2]);
    hosts_print(s, out);
    for (uint32_t item = 0; item < s->n_items; item++)
        if (s->fates[item] != FATE_WELL)
            fprintf(out, "item %u: %s\n", item, fates[s->fates[item]]);
}

/* ---- a session ---- */

static void order_give(void *context, uint64_t argument)
{
    (void)context, (void)argument;
    if (world.scene.signal) {
        trace("signal %d", world.scene.signal);
        uv_raise(NULL, world.scene.signal);
        return;
    }
    FILE *file = fopen("run/stop", "w");
    if (!file)
        return;
    trace("an order to stop");
    fputs(world.scene.stop_how == 2 ? "now\n" : "drain\n", file);
    fclose(file);
}

/* What muster had started on its own machine ends with it; agents have to notice. */
static void hosts_outlive(void)
{
    for (struct fake_worker *w = fake_workers(); w; w = w->next)
        if (!w->place)
            fake_orphan(w, true);
    transports_kill();
    hosts_await_end();
}

void muster_kill(void)
{
    if (world.scene.hosts.n > 0)
        hosts_outlive();
    fflush(world.said);
    _exit(9);
}

static void crash(void *context, uint64_t argument)
{
    (void)context, (void)argument;
    trace("muster is killed");
    muster_kill();
}

static void orders_set(void)
{
    const struct scenario *scene = &world.scene;
    if (world.session == 0 && (scene->signal || scene->stop_how))
        after_ms(scene->order_at_ms, order_give, NULL, 0);
    if (world.session < 2 && scene->crash_at_ms > 0)
        after_ms(scene->crash_at_ms, crash, NULL, 0);
}

static struct map_request request_make(char gpus[32], const char *hosts)
{
    static const char *const lines[] = {"in.txt"}, *const records[] = {"in.jsonl"};
    static const char *const filter[] = {"/bin/true", NULL};
    static const char *const shard[] = {"/bin/true", "{start}", "{count}",
                                        "{output}",  "{shard}", NULL};
    static const char *const words[] = {"muster", "map", "in.txt", NULL};
    const struct scenario *scene = &world.scene;
    bool is_shard = scene->kind == KIND_SHARD;
    bool takes_records = scene->is_json && is_filter(scene->kind);
    bool goes_on = access("run/manifest.json", F_OK) == 0;
    if (scene->has_gpus)
        snprintf(gpus, 32, "all");
    else
        snprintf(gpus, 32, "cpu:%u", scene->n_devices);
    return (struct map_request){
        .inputs = takes_records ? records : lines,
        .n_inputs = is_shard ? 0 : 1,
        .command = is_shard ? shard : filter,
        .out_path = scene->is_json ? "out.jsonl" : "out.txt",
        .any_order = scene->any_order,
        .shards.n_items = is_shard ? scene->n_items : 0,
        .shards.n_shards = is_shard ? scene->n_shards : 0,
        .allocation = {.gpus = gpus,
                       .gpus_per_worker = scene->devices_per_worker,
                       .workers_per_gpu = scene->workers_per_device,
                       .hosts = scene->hosts.n > 0 ? hosts : NULL,
                       .via = "reach {host}",
                       .agent_path = "/invented/muster",
                       .host_timeout_ms = scene->hosts.timeout_ms},
        .schedule.batch = is_shard ? 0 : scene->batch,
        .schedule.fixed_batches = !is_shard && scene->fixed_batches,
        .key_field = scene->is_keyed ? "item" : NULL,
        .schedule.retries = scene->retries,
        .schedule.no_reissue = scene->no_reissue,
        .schedule.loading_max = is_shard ? 0 : scene->loading_max,
        .schedule.stagger_ms = scene->stagger_ms,
        .schedule.item_limit_ms = scene->item_limit_ms,
        .run.limit_ms = world.session == 0 ? scene->run_limit_ms : 0,
        .run.grace_ms = scene->grace_ms,
        .schedule.seed = 42,
        .run.words = words,
        .run.run_dir = goes_on ? NULL : "run",
        .resume_dir = goes_on ? "run" : NULL,
        .run.line_max_bytes = (uint64_t)1 << 20,
        .run.log_level = world.is_traced ? LOG_DEBUG : LOG_INFO,
    };
}

/* `muster resume` says so, and does nothing. */
static bool is_finished(void)
{
    struct run_summary summary = {0};
    bool is = run_inspect("run", &summary, NULL) == 0 && summary.state == RUN_FINISHED;
    run_summary_release(&summary);
    return is;
}

int session_play(void)
{
    char gpus[32];
    struct log log = LOG_INIT;
    const struct map_caller caller = {
        .log = &log, .self_path = "/invented/muster", .is_quiet = true, .front_fd = -1};
    struct err err = {0};
    cleanup_free char *hosts = hosts_words_new();
    places_begin();
    node_world_begin();
    links_begin();
    heads_begin();
    uv_forget();
    if (world.session > 0 && is_finished())
        return 0;
    end_steps_begin();
    orders_set();
    devices_begin();
    troubles_begin();
    struct map_request request = request_make(gpus, hosts);
    int status = work_choose(&request, &err);
    if (status == 0)
        status = map_run(&caller, &request, &err);
    if (status < 0) {
        trace("muster: %s", err.text);
        status = err_exit_status(status);
    }
    end_steps_begin(); /* what follows is not muster's */
    trace("session %u ends with status %d", world.session, status);
    return status;
}
