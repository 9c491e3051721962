/* SPDX-License-Identifier: Apache-2.0
 *
 * One host: its connection, what it has, its loss and return.
 */
#include "shell/hosts_impl.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "node/group.h"
#include "version.h"

enum {
    RETRY_MIN_MS = 1000, /* the pauses double */
    RETRY_MAX_MS = 60000,
    TRIES_MAX = 15,      /* in a row, without success: about ten minutes */
    SAID_MAX = 200,      /* lines of a transport that are logged */
    PRINTED_MAX = 20,    /* lines before its agent spoke */
    STEADY_MS = 60000,   /* after so long a connection, the pauses begin anew */
    START_TRIES_MAX = 3, /* before the run begins */
    START_PAUSE_MS = 500 /* after the first try; doubles */
};

void host_log(const struct remote_host *h, enum log_level level, const char *before,
              const char *text)
{
    const struct shell *shell = h->hosts->shell;
    log_add(shell->log, level, "host", "%s: %s%s", h->host.name, before, text);
    if (shell->log->fd < 0 && shell->verb->takes_seats && level <= LOG_WARN) /* a log comes later */
        buf_addf(&h->hosts->shown, "%s: %s%s\n", h->host.name, before, text);
}

static struct device_watch *watch_of(const struct remote_host *h)
{
    return h->hosts->shell->machines.watch;
}

static void growth_end(struct remote_host *h);

static void devices_tell(struct remote_host *h, enum host_change change)
{
    if (watch_of(h) && h->part > 0)
        device_watch_host(watch_of(h), h->part, change);
    if (change != HOST_BACK)
        growth_end(h);
    if (change == HOST_GIVEN_UP)
        remote_give_up(h->node);
}

/* ---- what it has ---- */

static void devices_forget(struct remote_host *h)
{
    device_list_release(&h->devices);
    free(h->seats);
    h->seats = NULL;
    h->n_seats = h->n_grown = 0;
    h->part = 0;
}

static void devices_keep(struct remote_host *h, const struct wire_taken *taken)
{
    devices_forget(h);
    h->devices = (struct device_list){xcalloc(taken->n_devices + 1, sizeof(struct device)),
                                      taken->n_devices};
    memcpy(h->devices.at, taken->devices, taken->n_devices * sizeof(struct device));
    h->devices.distance = distance_copy_new(taken->distance, taken->n_devices);
    h->seats = xcalloc(taken->n_seats + 1, sizeof(*h->seats));
    memcpy(h->seats, taken->seats, taken->n_seats * sizeof(*h->seats));
    h->n_seats = taken->n_seats;
    h->n_agent_devices = taken->n_devices;
    h->n_agent_seats = taken->n_seats;
}

/* Has the host the same devices as before, of which the run's seats are made? */
static bool has_same_devices(const struct remote_host *h, const struct wire_taken *taken)
{
    bool is_same = taken->n_devices == h->devices.len && taken->n_seats == h->n_seats;
    for (size_t i = 0; is_same && i < h->devices.len; i++)
        is_same = strcmp(taken->devices[i].uuid, h->devices.at[i].uuid) == 0;
    return is_same;
}

/*
 * A host of a Slurm job may not be late for a verb that can use it only from the next start on: the job would wait in
 * vain.
 */
bool host_may_be_late(const struct remote_host *h)
{
    const struct shell_verb *verb = h->hosts->shell->verb;
    return verb->takes_seats || (verb->takes_hosts && !h->host.is_job);
}

bool host_may_come(const struct remote_host *h)
{
    bool is_asked = h->state == HOST_WAITS || h->state == HOST_STARTING || h->state == HOST_AWAY;
    return (is_asked && h->part == 0) || h->slurm.is_renewed;
}

void host_join(struct remote_host *h)
{
    struct allocation *allocation = h->hosts->allocation;
    h->part = allocation_add_host(
        allocation, &(struct allocation_part){.name = h->host.label,
                                              .node = h->position,
                                              .devices = &h->devices,
                                              .seats = h->seats,
                                              .n_seats = h->n_seats,
                                              .round_trip_ms = remote_round_trip_ms(h->node)});
    if (watch_of(h))
        device_watch_came(watch_of(h), h->part);
}

bool host_has_part(const struct remote_host *h, uint32_t part)
{
    bool has = h->part == part;
    for (size_t i = 0; i < h->n_grown; i++)
        has = has || h->grown[i].part == part;
    return has;
}

void host_ask_more(const struct remote_host *h)
{
    bool names_devices = h->host.gpus && !str_starts_with(str_of(h->host.gpus), STR("free"));
    if (h->state == HOST_UP && h->part > 0 && h->n_grown < GROWTHS_MAX && !names_devices)
        remote_ask_more(h->node);
}

static void on_more(void *context, const struct wire_taken *taken)
{
    struct remote_host *h = context;
    struct allocation *allocation = h->hosts->allocation;
    struct device_list devices = {taken->devices, taken->n_devices, taken->distance};
    bool is_room = allocation_has_room(allocation, taken->n_devices, taken->n_seats) &&
                   h->n_grown < GROWTHS_MAX;
    uint32_t first_device = h->n_agent_devices, first_number = h->n_agent_seats;
    h->n_agent_devices +=
        taken->n_devices; /* the agent has them, even if the run cannot use them */
    h->n_agent_seats += taken->n_seats;
    if (h->state != HOST_UP || h->part == 0 || !is_room || h->hosts->is_leaving)
        return;
    uint32_t part = allocation_add_host(
        allocation, &(struct allocation_part){.name = h->host.label,
                                              .node = h->position,
                                              .devices = &devices,
                                              .seats = taken->seats,
                                              .n_seats = taken->n_seats,
                                              .first_number = first_number,
                                              .round_trip_ms = remote_round_trip_ms(h->node)});
    h->grown[h->n_grown++] = (struct host_growth){part, first_device};
    device_watch_came(watch_of(h), part);
}

/* Gives back the devices that were added by --grow: a new agent will not have them, and asks again for free ones. */
static void growth_end(struct remote_host *h)
{
    for (size_t i = 0; i < h->n_grown; i++)
        device_watch_give_back(watch_of(h), h->grown[i].part, true);
    h->n_grown = 0;
    h->n_agent_devices = (uint32_t)h->devices.len;
    h->n_agent_seats = (uint32_t)h->n_seats;
}

static void host_leave(struct remote_host *h, enum host_state state)
{
    h->state = state;
    h->left_at_ms = clock_now_ms();
    devices_forget(h);
    remote_leave(h->node);
}

/* Ends the transport of a host that has left, if it has not ended with its agent, as when the network is gone. */
void host_left_check(const struct remote_host *h, uint64_t now_ms)
{
    if (h->state == HOST_LEFT && h->left_at_ms > 0 && now_ms - h->left_at_ms >= HOST_LEAVE_MS)
        remote_end_transport(h->node, END_AT_ONCE);
}

static void give_up(struct remote_host *h, const char *why)
{
    host_log(h, LOG_WARN, "given up: ", why);
    devices_tell(h, HOST_GIVEN_UP);
    h->state = HOST_FAILED;
}

/* Why the run cannot use a host that comes late; NULL: it can. */
static const char *late_reason(const struct remote_host *h, const struct wire_taken *taken)
{
    if (h->part > 0 && !h->hosts->shell->verb->takes_seats)
        return "it is back with other devices";
    if (!host_may_be_late(h))
        return "it came when the command had been started on the other hosts";
    if (!allocation_has_room(h->hosts->allocation, taken->n_devices, taken->n_seats))
        return "this run has as many seats as it can have";
    return NULL;
}

/* A host that comes while the run lasts, or comes back with other devices. */
static void late_take(struct remote_host *h, const struct wire_taken *taken)
{
    char text[64];
    uint32_t part_before = h->part;
    if (!watch_of(h) && h->hosts->shell->verb->takes_seats) { /* the run has not begun yet */
        host_leave(h, HOST_AWAY);
        host_retry(h);
        return;
    }
    const char *reason = late_reason(h, taken);
    if (reason) {
        give_up(h, reason);
        host_leave(h, HOST_FAILED);
        return;
    }
    if (part_before > 0)
        host_log(h, LOG_WARN, "", "it is back with other devices");
    devices_keep(h, taken);
    snprintf(text, sizeof(text), "%zu more worker%s", h->n_seats, h->n_seats == 1 ? "" : "s");
    if (h->hosts->shell->verb->takes_seats)
        host_log(h, LOG_WARN, "it joins the run: ", text);
    else
        host_log(h, LOG_WARN, "it is here, ", "from the next start on");
    host_join(h);
    if (part_before > 0) /* only now, so that the run always has a host */
        device_watch_give_back(watch_of(h), part_before, true);
}

static void on_taken(void *context, const struct wire_taken *taken)
{
    struct remote_host *h = context;
    bool is_back = h->part > 0 && has_same_devices(h, taken);
    if (h->hosts->is_leaving || h->state == HOST_LEFT || h->state == HOST_FAILED) {
        remote_leave(h->node); /* the host was dropped while it was being connected */
        return;
    }
    h->why = (struct err){0};
    h->n_cpus = taken->n_cpus;
    free(h->program);
    h->program = xstrdup(taken->program);
    h->state = HOST_UP;
    h->up_at_ms = clock_now_ms();
    h->lost_ms += h->lost_at_ms > 0 ? h->up_at_ms - h->lost_at_ms : 0;
    h->lost_at_ms = 0;
    h->n_tries = 0;
    if (is_back) {
        host_log(h, LOG_WARN, "", "it is connected again");
        devices_tell(h, HOST_BACK);
    } else if (h->hosts->has_begun) {
        late_take(h, taken);
    } else {
        devices_keep(h, taken);
    }
}

/* ---- loss ---- */

static void retry_plan(struct remote_host *h)
{
    uint64_t now_ms = clock_now_ms();
    if (h->up_at_ms > 0 && now_ms - h->up_at_ms >= STEADY_MS)
        h->retry_pause_ms = 0;
    h->up_at_ms = 0;
    h->retry_pause_ms =
        MIN(MAX(2 * h->retry_pause_ms, (uint64_t)RETRY_MIN_MS), (uint64_t)RETRY_MAX_MS);
    h->retry_at_ms = now_ms + h->retry_pause_ms;
}

void host_retry(struct remote_host *h)
{
    h->state = HOST_AWAY;
    retry_plan(h);
}

/*
 * A host failed before the run has begun. It is tried again, since the run may need it: it may be just booting, or
 * refuse some of many connections.
 */
static void start_failed(struct remote_host *h)
{
    bool may_pass = !h->host.is_job && remote_may_be_tried(h->node);
    h->state = may_pass && ++h->n_tries < START_TRIES_MAX ? HOST_AWAY : HOST_FAILED;
    if (h->state == HOST_FAILED)
        return;
    h->retry_at_ms = clock_now_ms() + ((uint64_t)START_PAUSE_MS << (h->n_tries - 1));
    if (h->hosts->shell->verb->takes_seats) /* other verbs tell only of the last try */
        buf_addf(&h->hosts->notes, "%s: %s; it is tried again\n", h->host.name, h->why.text);
}

static void on_lost(void *context, const struct err *why)
{
    struct remote_host *h = context;
    enum host_state before = h->state;
    if (h->hosts->is_leaving || before == HOST_FAILED || before == HOST_LEFT)
        return;
    bool is_news = strcmp(h->why.text, why->text) != 0;
    h->why = *why;
    if (before == HOST_DRAINING) {
        host_log(h, LOG_WARN, "lost before its workers had finished: ", why->text);
        devices_tell(h, HOST_GIVEN_UP);
        return;
    }
    if (!h->hosts->has_begun) {
        start_failed(h);
        return;
    }
    if (before != HOST_UP && (++h->n_tries >= TRIES_MAX || remote_is_over(h->node))) {
        give_up(h, why->text);
        return;
    }
    host_retry(h);
    if (before != HOST_UP && h->part == 0 && is_news)
        host_log(h, LOG_WARN, "cannot be had: ", why->text);
    if (before != HOST_UP)
        return;
    h->lost_at_ms = clock_now_ms();
    host_log(h, LOG_WARN,
             h->hosts->shell->verb->takes_seats ? "lost; what it had not answered runs elsewhere: "
                                                : "lost: ",
             why->text);
    devices_tell(h, HOST_LOST);
}

void host_loss_tell(struct remote_host *h)
{
    devices_tell(h, h->state == HOST_FAILED ? HOST_GIVEN_UP : HOST_LOST);
}

static void give_back(struct remote_host *h, bool now)
{
    bool has_seats = h->part > 0;
    bool is_connected = h->state == HOST_UP || h->state == HOST_DRAINING;
    if (!is_connected) { /* it may wait in a queue, and the run would wait for its files */
        remote_end_transport(h->node, END_POLITELY);
        remote_give_up(h->node);
    }
    if (has_seats) {
        h->state = is_connected ? HOST_DRAINING : HOST_LEFT;
        device_watch_give_back(watch_of(h), h->part, now);
        for (size_t i = 0; i < h->n_grown; i++)
            device_watch_give_back(watch_of(h), h->grown[i].part, now);
    } else {
        host_leave(h, HOST_LEFT);
    }
}

void host_give_back(struct remote_host *h, bool now)
{
    h->slurm.is_renewed = false;
    give_back(h, now);
}

/* The run is told first that seats will come; otherwise it would end with its last seat. */
void host_renew(struct remote_host *h)
{
    h->slurm.is_renewed = true;
    hosts_arrivals_tell(h->hosts);
    give_back(h, false);
}

void host_vacated(struct remote_host *h)
{
    const struct allocation_host *parts = h->hosts->allocation->hosts;
    bool is_leaving = h->state == HOST_DRAINING || h->state == HOST_LEFT;
    bool is_empty = parts[h->part].n_sets_left == 0;
    for (size_t i = 0; i < h->n_grown; i++)
        is_empty = is_empty && parts[h->grown[i].part].n_sets_left == 0;
    if (!is_leaving || !is_empty)
        return;
    bool is_renewed = h->slurm.is_renewed;
    h->slurm.is_renewed = false;
    const char *then = !is_renewed      ? ""
                       : h->host.is_job ? "; another job is asked for"
                                        : "; it is asked again";
    host_log(h, LOG_WARN, "it has left the run", then);
    host_leave(h, is_renewed ? HOST_AWAY : HOST_LEFT);
    h->retry_at_ms = 0; /* at once, when the transport has ended */
    if (is_renewed && !h->host.is_job)
        retry_plan(h);
}

/* ---- what it tells ---- */

static void on_sampled(void *context, const struct device_sample *sample)
{
    const struct remote_host *h = context;
    struct device_sample of_part = *sample;
    uint32_t part = h->part;
    if (!watch_of(h) || part == 0)
        return;
    for (size_t i = 0; i < h->n_grown && sample->device >= h->grown[i].first_device; i++) {
        part = h->grown[i].part;
        of_part.device = sample->device - h->grown[i].first_device;
    }
    if (of_part.device < h->hosts->allocation->hosts[part].n_chosen)
        device_watch_sampled(watch_of(h), part, &of_part);
}

/* Is it the path where this muster installs its program on hosts? */
static bool is_own_program(const struct hosts *hosts, const char *program)
{
    bool is = strcmp(program, hosts->bundles.program) == 0;
    for (size_t i = 0; i < hosts->bundles.len; i++)
        is |= strcmp(program, hosts->bundles.at[i].program) == 0;
    return is;
}

/* What came before its agent spoke, such as a banner. */
static void printed_note(const struct remote_host *h, struct str printed)
{
    struct str line;
    for (unsigned n = 0; n < PRINTED_MAX && printed.len > 0 && str_next(&printed, '\n', &line);) {
        line = str_trim(line);
        n += line.len > 0;
        if (line.len > 0)
            buf_addf(&h->hosts->notes, "%s: it printed: %.*s\n", h->host.name, (int)line.len,
                     line.at);
    }
}

static void on_greeted(void *context, const struct remote_greeting *greeting)
{
    struct remote_host *h = context;
    const struct wire_hello *hello = greeting->hello;
    char size[16];
    h->was_greeted = true;
    if (h->hosts->shell->verb->takes_seats) { /* it has a log */
        printed_note(h, buf_str(&h->said));
        printed_note(h, greeting->noise);
    }
    buf_release(&h->said);
    job_end_joined(h, hello->slurm_job);
    size_format(size, greeting->n_bundle_bytes);
    if (greeting->n_bundle_bytes > 0)
        buf_addf(&h->hosts->notes, "%s: installed muster %s (%s) in %s\n", h->host.name,
                 hello->version, size, greeting->folder);
    if (!is_own_program(h->hosts, hello->program))
        buf_addf(&h->hosts->notes, "%s: another build is there: muster %s (%s), here %s (%s)\n",
                 h->host.name, hello->version, hello->program, MUSTER_VERSION,
                 h->hosts->bundles.program);
}

static void on_said(void *context, struct str line)
{
    struct remote_host *h = context;
    const struct str own = STR("muster: ");
    size_t n_cut =
        h->was_greeted && str_starts_with(line, own) ? own.len : 0; /* the agent's name */
    cleanup_free char *text = xstrndup(line.at + n_cut, line.len - n_cut);
    h->n_said++;
    bool is_early = h->hosts->shell->log->fd < 0 && !h->was_greeted;
    if (is_early && h->said.len < WIRE_NOISE_KEPT_BYTES)
        buf_addf(&h->said, "%s\n", text);
    if (h->n_said < SAID_MAX)
        host_log(h, h->was_greeted ? LOG_WARN : LOG_INFO, "", text);
    else if (h->n_said == SAID_MAX)
        host_log(h, LOG_WARN, "", "it says more, which is left out");
}

static bool on_draining(void *context)
{
    return job_end_told(context);
}

static void on_empty(void *context)
{
    struct remote_host *h = context;
    h->is_empty = true;
}

static const struct remote_handlers handlers = {.greeted = on_greeted,
                                                .taken = on_taken,
                                                .more = on_more,
                                                .lost = on_lost,
                                                .draining = on_draining,
                                                .empty = on_empty,
                                                .sampled = on_sampled,
                                                .said = on_said};

/* ---- connecting ---- */

void host_connect(struct remote_host *h)
{
    struct err err = {0};
    h->state = HOST_STARTING;
    h->was_greeted = h->is_empty = false;
    buf_reset(&h->said);
    if (remote_connect(h->node, &err) != 0)
        on_lost(h, &err);
}

static int node_make(struct remote_host *h, struct err *err)
{
    struct shell *shell = h->hosts->shell;
    h->link = (struct host_link){.host = &h->host,
                                 .bundles = &h->hosts->bundles,
                                 .job_name = h->hosts->job_name,
                                 .handlers = &handlers,
                                 .context = h};
    int rc = host_link_open(shell, &h->hosts->job, &h->hosts->wish, &h->link, err);
    if (rc)
        return rc;
    h->node = h->link.node;
    h->position = group_add(shell->node, h->node);
    return 0;
}

struct remote_host *host_new(struct hosts *hosts, struct host *taken, struct err *err)
{
    struct remote_host *h = xcalloc(1, sizeof(*h));
    *h = (struct remote_host){.hosts = hosts, .host = *taken};
    *taken = (struct host){0};
    if (node_make(h, err) == 0)
        return h;
    host_free(h);
    return NULL;
}

/* The host's node is closed already, with those of the other hosts. */
void host_free(struct remote_host *h)
{
    host_release(&h->host);
    host_link_release(&h->link);
    devices_forget(h);
    buf_release(&h->said);
    free(h->program);
    free(h);
}
