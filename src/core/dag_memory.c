/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a dag: all that is allocated, and when. Arrays that grow are doubled.
 */
#include <string.h>

#include "core/dag_impl.h"

enum {
    JOBS_MIN = 64,
    EDGES_MIN = 256,
    SHAPES_MIN = 16,
    PLACES_PER_DEVICE = 32, /* jobs with several devices, for each possible device */
    STRIKES = 2,
    STRIKES_MAX = 64
};
#define AGE_MS      (15ull * 60 * 1000)
#define PATIENCE_MS (5ull * 60 * 1000)

/* False: memory ran out, and the array is as it was. */
#define REGROW(at, cap)                                              \
    ({                                                               \
        void *grown_ = realloc((at), (size_t)(cap) * sizeof(*(at))); \
        if (grown_)                                                  \
            (at) = grown_;                                           \
        grown_ != NULL;                                              \
    })

static bool edges_grow(struct dag *dag, uint32_t n_more)
{
    uint64_t cap = MAX(dag->edges.cap, (uint64_t)EDGES_MIN), n = (uint64_t)dag->edges.len + n_more;
    while (cap < n)
        cap *= 2;
    if (cap == dag->edges.cap)
        return true;
    if (n >= NONE || !REGROW(dag->edges.at, cap) || !REGROW(dag->edges.list, cap))
        return false;
    dag->edges.cap = (uint32_t)MIN(cap, NONE);
    return true;
}

static bool out_grow(struct dag *dag, size_t cap)
{
    if (!REGROW(dag->out.at, cap))
        return false;
    dag->out.cap = cap;
    return true;
}

/* A step has at most one action for each job and each device, and a few more for the event's job. */
static size_t actions_max(const struct dag *dag, uint32_t n_jobs)
{
    return (size_t)n_jobs + dag->config.n_devices_max + 4;
}

bool dag_jobs_grow(struct dag *dag, uint32_t n_more_edges)
{
    if (!edges_grow(dag, n_more_edges))
        return false;
    if (dag->jobs.len < dag->jobs.cap)
        return true;
    uint32_t cap = MAX(2 * dag->jobs.cap, (uint32_t)JOBS_MIN);
    if (dag->jobs.cap > NONE / 4 || !REGROW(dag->jobs.at, cap) || !REGROW(dag->jobs.by_end, cap) ||
        !out_grow(dag, actions_max(dag, cap)) || !REGROW(dag->edges.first, cap + 2ul))
        return false;
    dag->jobs.cap = cap;
    dag->edges.first[cap + 1] = NONE; /* no followers are in a list */
    return true;
}

/* The table is at most half full. */
bool dag_shapes_grow(struct dag *dag)
{
    if (dag->shapes.len < dag->shapes.cap)
        return true;
    uint32_t cap = MAX(2 * dag->shapes.cap, (uint32_t)SHAPES_MIN);
    if (!REGROW(dag->shapes.at, cap) || !REGROW(dag->shapes.hot, cap) ||
        !REGROW(dag->shapes.skipped, cap) || !REGROW(dag->shapes.table, 2 * (size_t)cap))
        return false;
    dag->shapes.cap = cap;
    dag->shapes.table_cap = 0; /* the table has to be filled again */
    return true;
}

static bool room_new(const struct dag *dag, struct room *room)
{
    room->loads = calloc(dag->config.n_devices_max + 1ul, sizeof(*room->loads));
    room->cpus_used = calloc(DAG_HOSTS_MAX, sizeof(*room->cpus_used));
    return room->loads && room->cpus_used;
}

static void room_free(struct room *room)
{
    free(room->loads);
    free(room->cpus_used);
}

static struct dag_config with_defaults(const struct dag_config *given)
{
    struct dag_config config = *given;
    config.n_devices_max = MAX(config.n_devices_max, config.n_devices);
    config.age_ms = MIN(config.age_ms > 0 ? config.age_ms : AGE_MS, AGE_MAX_MS);
    config.patience_ms = config.patience_ms > 0 ? config.patience_ms : PATIENCE_MS;
    config.n_running_max = config.n_running_max > 0 ? config.n_running_max : UINT32_MAX;
    config.strikes = MIN(config.strikes > 0 ? config.strikes : STRIKES, (uint32_t)STRIKES_MAX);
    return config;
}

bool dag_near(struct dag *dag, uint32_t first, uint32_t n, const uint8_t *distance)
{
    size_t n_max = dag->config.n_devices_max;
    ASSERT(first + n <= n_max);
    if (!dag->devices.distance) {
        dag->devices.distance = malloc(n_max * n_max + 1);
        if (!dag->devices.distance)
            return false;
        memset(dag->devices.distance, UINT8_MAX, n_max * n_max);
    }
    for (size_t i = 0; i < n; i++)
        memcpy(dag->devices.distance + (first + i) * n_max + first, distance + i * n, n);
    return true;
}

static bool distance_new(struct dag *dag, const struct dag_config *given)
{
    return !given->distance || dag_near(dag, 0, given->n_devices, given->distance);
}

static bool arrays_new(struct dag *dag)
{
    size_t n_max = dag->config.n_devices_max + 1ul, n_places = n_max * PLACES_PER_DEVICE;
    dag->devices.at = calloc(n_max, sizeof(*dag->devices.at));
    dag->devices.numbers = calloc(n_max, sizeof(*dag->devices.numbers));
    dag->devices.fitting = calloc(n_max, sizeof(*dag->devices.fitting));
    dag->devices.ill_jobs = calloc(n_max * dag->config.strikes, sizeof(*dag->devices.ill_jobs));
    dag->places.at = calloc(n_places, sizeof(*dag->places.at));
    dag->places.free = calloc(n_places, sizeof(*dag->places.free));
    if (!dag->devices.at || !dag->devices.numbers || !dag->devices.fitting ||
        !dag->devices.ill_jobs || !dag->places.at || !dag->places.free)
        return false;
    for (uint32_t i = 0; i < n_max; i++)
        dag->devices.numbers[i] = i;
    for (uint32_t i = 0; i < n_places; i++)
        dag->places.free[dag->places.n_free++] = i;
    return room_new(dag, &dag->now) && room_new(dag, &dag->later) && room_new(dag, &dag->empty) &&
           out_grow(dag, actions_max(dag, 0));
}

static void hosts_init(struct dag *dag, const struct dag_config *given)
{
    dag->hosts.len = given->n_hosts;
    for (uint32_t i = 0; i < DAG_HOSTS_MAX; i++)
        dag->hosts.at[i].first_device = NONE;
    for (uint32_t i = 0; i < given->n_hosts; i++)
        dag->hosts.at[i] = (struct place_host){given->host_cpus[i], NONE, true};
    memset(dag->hosts.allowed[0], 0xff, sizeof(dag->hosts.allowed[0]));
}

struct dag *dag_new(const struct dag_config *config)
{
    ASSERT(config->n_hosts <= DAG_HOSTS_MAX);
    ASSERT(MAX(config->n_devices, config->n_devices_max) <= DAG_DEVICES_MAX);
    struct dag *dag = calloc(1, sizeof(*dag));
    if (!dag)
        return NULL;
    dag->config = with_defaults(config);
    dag->running = dag->head.job = dag->shapes.skipped_jobs = NONE;
    dag->wake_ms = NEVER;
    dag->paths.is_due = true;
    hosts_init(dag, config);
    static const struct dag_want nothing;
    if (!arrays_new(dag) || !distance_new(dag, config) || dag_shape_find(dag, &nothing) == NONE) {
        dag_free(dag);
        return NULL;
    }
    for (uint32_t i = 0; i < config->n_devices; i++) {
        ASSERT(config->devices[i].host < config->n_hosts);
        dag_add_device(dag, &config->devices[i], 0);
        dag->devices.at[i].is_up = config->devices[i].is_up;
    }
    dag->config.devices = NULL;
    dag->config.distance = NULL;
    dag->config.host_cpus = NULL;
    return dag;
}

void dag_free(struct dag *dag)
{
    if (!dag)
        return;
    room_free(&dag->now);
    room_free(&dag->later);
    room_free(&dag->empty);
    void *const all[] = {
        dag->jobs.at,         dag->jobs.by_end,      dag->edges.at,        dag->edges.list,
        dag->edges.first,     dag->shapes.at,        dag->shapes.table,    dag->shapes.hot,
        dag->shapes.skipped,  dag->devices.at,       dag->devices.numbers, dag->devices.ill_jobs,
        dag->devices.fitting, dag->devices.distance, dag->places.at,       dag->places.free,
        dag->out.at,
    };
    for (size_t i = 0; i < countof(all); i++)
        free(all[i]);
    free(dag);
}
