/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder under any events: workers that say anything at any time, in worlds that the simulator's
 * workers would not make. What the shell itself guarantees is kept to: a process starts once and ends
 * once, commits are answered in order, time does not run backwards.
 *
 *   8 bytes   the configuration        then 3 bytes an event: kind, worker, argument
 */
#include "core/feed.h"
#include "fuzz.h"

enum {
    WORKERS_FIRST_MAX = 4,
    WORKERS_MAX = 6, /* with those that come later */
    DEVICES_MAX = 6,
    ITEMS_MAX = 64,
    WISHES_MAX = 4096,
    EVENTS_MAX = 600,
    SENT_MAX = 4096
};

struct sent {
    uint64_t item;
    bool is_unfit;
};

enum life {
    LIFE_NONE,
    LIFE_ASKED,
    LIFE_RUNS
};

struct wish {
    uint64_t item, count;
};

struct world {
    struct feed *feed;
    uint64_t now_ms, known;
    uint32_t n_workers, n_devices;
    uint32_t first_of[DEVICES_MAX]; /* the first device of each device's set */
    bool is_drained[DEVICES_MAX];   /* of a set, by its first device */
    enum life lives[WORKERS_MAX];
    struct sent sent[WORKERS_MAX][SENT_MAX]; /* what those that answer in order have not answered */
    size_t n_sent[WORKERS_MAX];
    uint32_t last_worker; /* who was sent what by the last event */
    uint64_t last_item, last_count;
    struct wish wishes[WISHES_MAX]; /* commits that were not answered */
    size_t n_wishes, n_answered;
    uint8_t settled[ITEMS_MAX];
    bool is_keyed, is_over;
};

static void settle(struct world *world, const struct feed_action *a, uint64_t count)
{
    for (uint64_t item = a->item; item < a->item + count; item++) {
        ASSERT(item < world->known && !world->settled[item]);
        world->settled[item] = 1;
    }
    ASSERT(world->n_wishes < WISHES_MAX);
    world->wishes[world->n_wishes++] = (struct wish){a->item, count};
}

static bool answers_in_order(const struct world *world, uint32_t worker)
{
    struct feed_worker_view view;
    feed_worker(world->feed, worker, &view);
    return view.mode == MODE_UNKNOWN || view.mode == MODE_FILTER;
}

static void send(struct world *world, const struct feed_action *a)
{
    ASSERT(world->lives[a->worker] == LIFE_RUNS && a->count > 0);
    for (uint64_t item = a->item; item < a->item + a->count; item++) {
        ASSERT(item < world->known && !world->settled[item]);
        ASSERT(world->n_sent[a->worker] < SENT_MAX);
        world->sent[a->worker][world->n_sent[a->worker]++] = (struct sent){.item = item};
    }
    world->last_worker = a->worker;
    world->last_item = a->item;
    world->last_count = a->count;
}

static void obey(struct world *world, const struct feed_action *a)
{
    ASSERT(!world->is_over);
    if (a->kind == ACT_SPAWN) {
        ASSERT(world->lives[a->worker] == LIFE_NONE);
        world->lives[a->worker] = LIFE_ASKED;
    } else if (a->kind == ACT_SEND) {
        send(world, a);
    } else if (a->kind == ACT_COMMIT) {
        settle(world, a, a->count);
    } else if (a->kind == ACT_SET_ASIDE) {
        settle(world, a, 1);
    }
    world->is_over = a->kind == ACT_OVER;
}

static void tell(struct world *world, struct feed_event event)
{
    const struct feed_action *actions;
    event.now_ms = world->now_ms;
    size_t n_actions = feed_step(world->feed, &event, &actions);
    world->last_count = 0;
    feed_check(world->feed);
    for (size_t i = 0; i < n_actions; i++)
        obey(world, &actions[i]);
}

static void commit(struct world *world, uint64_t n_wishes)
{
    for (; n_wishes > 0 && world->n_answered < world->n_wishes; n_wishes--) {
        struct wish wish = world->wishes[world->n_answered++];
        tell(world,
             (struct feed_event){.kind = EV_COMMITTED, .item = wish.item, .count = wish.count});
    }
}

static void die(struct world *world, uint32_t worker, enum feed_death death)
{
    if (world->lives[worker] == LIFE_NONE)
        return;
    if (world->lives[worker] == LIFE_ASKED)
        death = GONE_NOT_STARTED;
    world->lives[worker] = LIFE_NONE;
    world->n_sent[worker] = 0;
    tell(world, (struct feed_event){.kind = EV_EXIT, .worker = worker, .death = death});
}

static void sent_drop(struct world *world, uint32_t worker, size_t count)
{
    world->n_sent[worker] -= count;
    memmove(world->sent[worker], world->sent[worker] + count,
            world->n_sent[worker] * sizeof(struct sent));
}

/* Those whose turn it is and that were never written. */
static void pass(struct world *world, uint32_t worker)
{
    while (answers_in_order(world, worker) && world->n_sent[worker] > 0 &&
           world->sent[worker][0].is_unfit) {
        sent_drop(world, worker, 1);
        tell(world, (struct feed_event){.kind = EV_PASSED, .worker = worker, .count = 1});
    }
}

/* As many as it has in a row, or, where it has none, a surplus. */
static void answer(struct world *world, uint32_t worker, uint64_t count)
{
    size_t n_fit = 0;
    while (n_fit < MIN(count, world->n_sent[worker]) && !world->sent[worker][n_fit].is_unfit)
        n_fit++;
    if (world->n_sent[worker] > 0)
        count = n_fit;
    sent_drop(world, worker, n_fit);
    tell(world, (struct feed_event){.kind = EV_ANSWERS, .worker = worker, .count = count});
    pass(world, worker);
}

/* Found out while it was being written, so before anything else happens. */
static void refuse(struct world *world, unsigned argument)
{
    if (world->last_count == 0)
        return;
    uint32_t worker = world->last_worker;
    uint64_t item = world->last_item + argument % world->last_count;
    for (size_t i = 0; i < world->n_sent[worker]; i++)
        if (world->sent[worker][i].item == item)
            world->sent[worker][i].is_unfit = true;
    tell(world, (struct feed_event){.kind = EV_UNFIT, .worker = worker, .item = item});
    pass(world, worker);
}

static void pass_time(struct world *world, unsigned argument)
{
    uint64_t next_ms = feed_next_ms(world->feed);
    if (argument < 128)
        world->now_ms += (uint64_t)argument * argument;
    else if (next_ms != UINT64_MAX)
        world->now_ms = MAX(world->now_ms, next_ms + argument - 128);
    tell(world, (struct feed_event){.kind = EV_TICK});
}

/* What the shell tells of each kind of worker. */
static bool can_say(const struct world *world, enum feed_event_kind kind, uint32_t worker)
{
    struct feed_worker_view view;
    feed_worker(world->feed, worker, &view);
    bool by_name = kind == EV_DONE || kind == EV_FAIL || kind == EV_OOM || kind == EV_LOADED;
    if (world->lives[worker] != LIFE_RUNS)
        return false;
    if (view.mode == MODE_CHANNEL)
        return by_name || kind == EV_READY || kind == EV_STRAY;
    if (view.mode == MODE_KEYED)
        return kind != EV_ANSWERS && (!by_name || kind == EV_DONE);
    return !by_name;
}

/* A set of its own, or one more device of a set. */
static void device_come(struct world *world, uint32_t device, bool is_alone)
{
    if (world->n_devices == DEVICES_MAX)
        return;
    uint32_t number = world->n_devices++;
    uint32_t first = is_alone ? number : world->first_of[device];
    world->first_of[number] = first;
    tell(world, (struct feed_event){.kind = EV_DEVICE_UP, .worker = first, .count = first % 3});
}

static void seat_come(struct world *world, uint32_t device, uint64_t round_trip_ms)
{
    uint32_t first = world->first_of[device];
    if (world->n_workers == WORKERS_MAX || world->is_drained[first])
        return;
    world->n_workers++;
    tell(world, (struct feed_event){.kind = EV_SEAT_UP, .worker = first, .count = round_trip_ms});
}

static void set_go(struct world *world, uint32_t device, bool now)
{
    uint32_t first = world->first_of[device];
    world->is_drained[first] = true;
    tell(world, (struct feed_event){.kind = EV_SET_DRAIN, .worker = first, .flag = now});
}

static void seats_change(struct world *world, const struct feed_event *event, uint32_t device,
                         uint64_t round_trip_ms)
{
    if (event->kind == EV_DEVICE_UP)
        device_come(world, device, event->flag);
    else if (event->kind == EV_SEAT_UP)
        seat_come(world, device, round_trip_ms);
    else
        set_go(world, device, event->flag);
}

static void start(struct world *world, uint32_t worker)
{
    if (world->lives[worker] != LIFE_ASKED)
        return;
    world->lives[worker] = LIFE_RUNS;
    tell(world, (struct feed_event){.kind = EV_STARTED, .worker = worker});
    if (world->is_keyed)
        tell(world, (struct feed_event){.kind = EV_KEYED, .worker = worker});
}

static void happen(struct world *world, enum feed_event_kind kind, uint32_t worker,
                   unsigned argument)
{
    static const uint8_t counts[] = {0, 1, 2, 3, 5, 8, 40, 255};
    uint64_t item = argument % ITEMS_MAX, count = counts[argument % countof(counts)];
    struct feed_event event = {.kind = kind, .worker = worker, .flag = argument & 64};
    switch (kind) {
    case EV_TICK:
        pass_time(world, argument);
        return;
    case EV_EXIT:
        die(world, worker, (enum feed_death)(argument % GONE_NOT_STARTED));
        return;
    case EV_COMMITTED:
        commit(world, count);
        return;
    case EV_UNFIT:
        refuse(world, argument);
        return;
    case EV_ANSWERS:
        if (can_say(world, kind, worker))
            answer(world, worker, count);
        return;
    case EV_INPUT:
        world->known = event.count = MIN(world->known + item, (uint64_t)ITEMS_MAX);
        break;
    case EV_STARTED:
        start(world, worker);
        return;
    case EV_DEVICE_LOST:
    case EV_DEVICE_BACK:
        event.worker = (uint32_t)item % world->n_devices;
        break;
    case EV_DEVICE_UP:
    case EV_SEAT_UP:
    case EV_SET_DRAIN:
        seats_change(world, &event, (uint32_t)item % world->n_devices, count);
        return;
    case EV_READY:
    case EV_LOADED:
    case EV_ROOM:
    case EV_DONE:
    case EV_FAIL:
    case EV_OOM:
    case EV_READS:
    case EV_IDLE:
    case EV_RESTS:
    case EV_CLOSED:
    case EV_WORKS:
    case EV_FULL:
    case EV_STRAY:
        if (!can_say(world, kind, worker))
            return;
        event.item = item;
        event.count = count;
        break;
    case EV_ENDED:
        if (can_say(world, EV_READY, worker))
            break;
        return;
    case EV_KEYED:
    case EV_PASSED:
        return; /* told at its start, and after answers */
    case EV_MEM_BACK:
    case EV_AWAIT:
    case EV_STOP:
        break;
    }
    tell(world, event);
}

static const struct item_interval done_before[] = {{0, 2}, {5, 1}, {9, 3}};
static const uint32_t order[] = {15, 3, 14, 0, 13, 1, 12, 2, 11, 4, 10, 5, 9, 6, 8, 7};

static struct feed_config config_of(struct str *input, struct world *world)
{
    static const uint32_t device_of[] = {0, 1, 1, 0}, first_of[] = {0, 1, 0, 1};
    unsigned shape = fuzz_choice(input), batch = fuzz_choice(input), modes = fuzz_choice(input),
             limits = fuzz_choice(input), failures = fuzz_choice(input);
    world->is_keyed = modes & 32;
    world->n_workers = 1 + shape % WORKERS_FIRST_MAX;
    world->n_devices = 1 + (shape / 4 % 2 && world->n_workers > 1);
    bool shares = world->n_devices == 2 && shape & 8;
    struct feed_config config = {
        .n_workers = world->n_workers,
        .n_devices = !shares      ? world->n_workers
                     : limits & 8 ? countof(first_of)
                                  : 2,
        .n_workers_max = WORKERS_MAX,
        .n_devices_max = DEVICES_MAX,
        .device_of = shares ? device_of : NULL,
        .first_of = shares && limits & 8 ? first_of : NULL,
        .spread_log2 = 3 + shape / 16 % 4,
        .retries = modes % 4,
        .batch = batch % 5,
        .fixed_batches = batch % 5 > 0 && batch & 32,
        .no_reissue = batch & 64,
        .loading_max = batch & 128 ? 1 : 0,
        .stagger_ms = failures & 16 ? 700 : 0,
        .item_limit_ms = limits & 1 ? 1000 : 0,
        .end_limit_ms = 1000,
        .start_limit_ms = limits & 2 ? 2000 : 0,
        .silence_limit_ms = limits & 4 ? 3000 : 0,
        .failures_max = failures % 4,
        .failures_percent = failures / 4 % 4 * 10,
        .seed = failures,
        .done = done_before,
        .n_done = modes & 4 ? countof(done_before) : 0,
        .failed_before = modes & 4 && modes & 8 ? 1 : 0,
        .order = modes & 16 ? order : NULL,
        .n_order = modes & 16 ? countof(order) : 0,
    };
    world->n_devices = config.n_devices;
    for (uint32_t d = 0; d < config.n_devices; d++)
        world->first_of[d] = config.first_of ? config.first_of[d] : d;
    if (config.order)
        config.fixed_batches = false;
    return config;
}

static void begin(struct world *world, const struct feed_config *config)
{
    world->feed = feed_new(config);
    ASSERT(world->feed);
    for (size_t i = 0; i < config->n_done; i++)
        for (uint64_t n = 0; n < config->done[i].count; n++)
            world->settled[config->done[i].first + n] = 1;
    if (!config->order && config->n_done == 0)
        return;
    world->known = 16;
    tell(world, (struct feed_event){.kind = EV_INPUT, .count = 16, .flag = true});
}

/* However it stood: it is stopped, everybody goes, everything is durable, and then it is over. */
static void end(struct world *world)
{
    tell(world, (struct feed_event){.kind = EV_STOP, .flag = true});
    for (uint32_t worker = 0; worker < world->n_workers; worker++)
        die(world, worker, GONE_ENDED);
    commit(world, WISHES_MAX);
    ASSERT(world->is_over);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size};
    struct world world = {.now_ms = 1000};
    struct feed_config config = config_of(&input, &world);
    begin(&world, &config);
    for (int n = 0; n < EVENTS_MAX && input.len > 0 && !world.is_over; n++) {
        unsigned kind = fuzz_choice(&input), worker = fuzz_choice(&input);
        bool all_known = config.order || config.n_done > 0;
        kind %= EV_STOP + 1;
        if (all_known && kind == EV_INPUT)
            continue;
        happen(&world, (enum feed_event_kind)kind, worker % world.n_workers, fuzz_choice(&input));
    }
    if (!world.is_over)
        end(&world);
    feed_free(world.feed);
    return 0;
}
