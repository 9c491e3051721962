/* SPDX-License-Identifier: Apache-2.0 */
#include "node/wire_body.h"

#include <ctype.h>
#include <endian.h>
#include <limits.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/xalloc.h"
#include "node/wire.h"

enum {
    TEXTS_MAX = 1 << 20, /* of an argv or an environment */
    SEATS_MAX = 8192,
    CPUS_MAX = 1 << 20,
    EXIT_CODE_MAX = 255,
    EXIT_SIGNAL_MAX = 64,
    LEFT_MAX = 4096 /* files that a worker leaves */
};

/* ---- fields ---- */

/* A view of the next `len` bytes; at NULL if they are not there. */
static struct str take(struct wire_body *body, size_t len)
{
    if (body->is_malformed || body->in.len < len) {
        body->is_malformed = true;
        return (struct str){NULL, 0};
    }
    struct str taken = {body->in.at, len};
    body->in.at += len;
    body->in.len -= len;
    return taken;
}

/* The low n_bytes bytes of *value. */
static void number(struct wire_body *body, uint64_t *value, size_t n_bytes)
{
    uint64_t little = htole64(*value);
    if (body->out) {
        buf_add(body->out, &little, n_bytes);
        return;
    }
    struct str bytes = take(body, n_bytes);
    little = 0;
    if (bytes.at)
        memcpy(&little, bytes.at, n_bytes);
    *value = le64toh(little);
}

void wire_u64(struct wire_body *body, uint64_t *value)
{
    number(body, value, 8);
}

void wire_u8(struct wire_body *body, uint8_t *value)
{
    uint64_t wide = *value;
    number(body, &wide, 1);
    *value = (uint8_t)wide;
}

void wire_u32(struct wire_body *body, uint32_t *value)
{
    uint64_t wide = *value;
    number(body, &wide, 4);
    *value = (uint32_t)wide;
}

void wire_i32(struct wire_body *body, int *value)
{
    uint32_t wide = (uint32_t)*value;
    wire_u32(body, &wide);
    *value = (int)wide;
}

void wire_flag(struct wire_body *body, bool *value)
{
    uint8_t byte = *value;
    wire_u8(body, &byte);
    if (byte > 1)
        body->is_malformed = true;
    *value = byte == 1;
}

static void text_add(struct wire_body *body, const char *text)
{
    uint64_t len = strlen(text);
    number(body, &len, 4);
    buf_add(body->out, text, len);
}

/* A view of a text without NUL. */
static struct str text_view(struct wire_body *body)
{
    uint64_t len = 0;
    number(body, &len, 4);
    struct str text = take(body, (size_t)len);
    if (text.len > 0 && memchr(text.at, '\0', text.len))
        body->is_malformed = true;
    return body->is_malformed ? (struct str){"", 0} : text;
}

void wire_text(struct wire_body *body, char *at, size_t cap)
{
    if (body->out) {
        text_add(body, at);
        return;
    }
    struct str view = text_view(body);
    if (view.len >= cap) {
        body->is_malformed = true;
        view.len = 0;
    }
    if (view.len > 0)
        memcpy(at, view.at, view.len);
    at[view.len] = '\0';
}

void wire_bytes(struct wire_body *body, struct str *bytes, size_t max)
{
    uint64_t len = bytes->len;
    number(body, &len, 4);
    if (body->out) {
        ASSERT(len <= max);
        buf_add_str(body->out, *bytes);
        return;
    }
    *bytes = take(body, (size_t)len);
    if (len > max)
        body->is_malformed = true;
    if (body->is_malformed)
        *bytes = STR("");
}

void wire_raw(struct wire_body *body, void *at, size_t len)
{
    if (body->out) {
        buf_add(body->out, at, len);
        return;
    }
    struct str bytes = take(body, len);
    memset(at, 0, len);
    if (bytes.at)
        memcpy(at, bytes.at, len);
}

/* NULL is written as "". */
static void text_owned(struct wire_body *body, char **owned)
{
    if (body->out) {
        text_add(body, *owned ? *owned : "");
        return;
    }
    struct str view = text_view(body);
    *owned = xstrndup(view.at, view.len);
}

/* The number of elements that follow. Each has at least `bytes_min` bytes, so an impossible count costs no memory. */
static void count(struct wire_body *body, uint32_t *n, uint32_t n_max, size_t bytes_min)
{
    wire_u32(body, n);
    if (body->out)
        return;
    if (*n > n_max || *n > body->in.len / bytes_min)
        body->is_malformed = true;
    if (body->is_malformed)
        *n = 0;
}

/* A NULL-terminated list of texts. */
static void texts(struct wire_body *body, const char ***list)
{
    uint32_t n = 0;
    while (body->out && (*list)[n])
        n++;
    count(body, &n, TEXTS_MAX, 4);
    if (!body->out)
        *list = xcalloc(n + 1, sizeof(**list));
    for (uint32_t i = 0; i < n; i++) {
        char *owned = (char *)(uintptr_t)(*list)[i];
        text_owned(body, &owned);
        if (!body->out)
            (*list)[i] = owned;
    }
}

static void texts_release(const char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free((char *)(uintptr_t)list[i]);
    free(list);
}

/* ---- messages ---- */

void wire_hello(struct wire_body *body, struct wire_hello *hello)
{
    wire_u32(body, &hello->protocol); /* first in every protocol to come */
    wire_text(body, hello->version, sizeof(hello->version));
    wire_text(body, hello->program, sizeof(hello->program));
    wire_text(body, hello->host, sizeof(hello->host));
    wire_text(body, hello->machine, sizeof(hello->machine));
    wire_u64(body, &hello->pid);
    wire_u64(body, &hello->wall_ms);
    wire_u64(body, &hello->silence_limit_ms);
    wire_u64(body, &hello->slurm_job);
}

void wire_take(struct wire_body *body, struct wire_take *take)
{
    wire_text(body, take->gpus, sizeof(take->gpus));
    wire_u64(body, &take->gpus_per_worker);
    wire_u64(body, &take->workers_per_gpu);
    wire_u64(body, &take->wait_ms);
    wire_u8(body, &take->visible);
    if (take->visible > VISIBLE_UUID)
        body->is_malformed = true;
    wire_text(body, take->run_id, sizeof(take->run_id));
    wire_text(body, take->cwd, sizeof(take->cwd));
    wire_text(body, take->program, sizeof(take->program));
    wire_text(body, take->script, sizeof(take->script));
    wire_text(body, take->presence, sizeof(take->presence));
    wire_u32(body, &take->agent_number);
    wire_u32(body, &take->empty_number);
}

/* The fields of a device that the head shows, or tells its workers. */
static void device(struct wire_body *body, struct device *device)
{
    uint32_t kind = device->kind;
    wire_u32(body, &kind);
    if (kind > DEVICE_SIM)
        body->is_malformed = true;
    device->kind = body->is_malformed ? DEVICE_CPU : (enum device_kind)kind;
    wire_i32(body, &device->index);
    wire_i32(body, &device->physical);
    wire_text(body, device->uuid, sizeof(device->uuid));
    wire_text(body, device->name, sizeof(device->name));
    wire_text(body, device->pci, sizeof(device->pci));
    wire_text(body, device->parent_uuid, sizeof(device->parent_uuid));
    wire_flag(body, &device->is_unnamed);
    wire_flag(body, &device->is_integrated);
    wire_u64(body, &device->mem_total_bytes);
    wire_u64(body, &device->mem_free_bytes);
    wire_i32(body, &device->numa_node);
    wire_text(body, device->script, sizeof(device->script));
}

static void seat_device(struct wire_body *body, size_t *position, uint32_t n_devices)
{
    uint64_t wide = *position;
    number(body, &wide, 4);
    if (wide >= n_devices)
        body->is_malformed = true;
    *position = body->is_malformed ? 0 : (size_t)wide;
}

/* The cores of a seat stay with the agent. */
static void seat(struct wire_body *body, struct seat *seat, uint32_t n_devices)
{
    uint32_t n = (uint32_t)seat->n_devices, threads = seat->threads;
    count(body, &n, SEAT_DEVICES_MAX, 4);
    seat->n_devices = n;
    for (uint32_t i = 0; i < n; i++)
        seat_device(body, &seat->devices[i], n_devices);
    if ((n == 0) != (n_devices == 0))
        body->is_malformed = true;
    wire_u32(body, &seat->share);
    wire_text(body, seat->label, sizeof(seat->label));
    wire_u32(body, &threads);
    seat->threads = threads;
}

/* Each device belongs to one set, known by its first device, and has a seat: the feeder relies on it. */
static bool sets_are_sound(const struct wire_taken *taken)
{
    uint32_t set_of[DEVICES_MAX] = {0}; /* first device + 1; 0: none yet */
    bool are_sound = true;
    for (uint32_t i = 0; i < taken->n_seats; i++) {
        const struct seat *seat = &taken->seats[i];
        uint32_t set = (uint32_t)seat->devices[0] + 1;
        for (size_t d = 0; d < seat->n_devices; d++) {
            uint32_t *of = &set_of[seat->devices[d]];
            are_sound = are_sound && (*of == 0 || *of == set);
            *of = set;
        }
    }
    for (uint32_t d = 0; d < taken->n_devices; d++)
        are_sound = are_sound && set_of[d] != 0;
    return are_sound;
}

static void distances(struct wire_body *body, struct wire_taken *taken)
{
    size_t n = (size_t)taken->n_devices * taken->n_devices;
    bool are_known = taken->distance;
    wire_flag(body, &are_known);
    if (!are_known)
        return;
    if (!body->out && body->in.len < n) {
        body->is_malformed = true;
        return;
    }
    if (!body->out)
        taken->distance = xmalloc(n + 1);
    wire_raw(body, taken->distance, n);
}

void wire_taken(struct wire_body *body, struct wire_taken *taken)
{
    enum {
        DEVICE_MIN_BYTES = 54,
        SEAT_MIN_BYTES = 16
    };
    count(body, &taken->n_devices, DEVICES_MAX, DEVICE_MIN_BYTES);
    if (!body->out)
        taken->devices = xcalloc(taken->n_devices + 1, sizeof(*taken->devices));
    for (uint32_t i = 0; i < taken->n_devices; i++)
        device(body, &taken->devices[i]);
    count(body, &taken->n_seats, SEATS_MAX, SEAT_MIN_BYTES);
    if (!body->out)
        taken->seats = xcalloc(taken->n_seats + 1, sizeof(*taken->seats));
    for (uint32_t i = 0; i < taken->n_seats; i++)
        seat(body, &taken->seats[i], taken->n_devices);
    text_owned(body, &taken->notes);
    wire_u32(body, &taken->n_cpus);
    if (taken->n_cpus > CPUS_MAX)
        body->is_malformed = true;
    wire_text(body, taken->program, sizeof(taken->program));
    wire_text(body, taken->place, sizeof(taken->place));
    distances(body, taken);
    if (!body->out && !body->is_malformed && !sets_are_sound(taken))
        body->is_malformed = true;
}

/* A UUID also fills {gpu_uuid} in paths of shards' files, so it must lead neither upwards nor to the root. */
static void identity_clean(char *text)
{
    for (char *c = text; *c; c++) {
        bool is_upward = c > text && c[0] == '.' && c[-1] == '.';
        bool is_root = c == text && *c == '/';
        if (is_upward || is_root || (!isalnum((unsigned char)*c) && !strchr("-_.:/+", *c)))
            *c = '-';
    }
}

void wire_taken_clean(struct wire_taken *taken)
{
    for (uint32_t i = 0; i < taken->n_devices; i++) {
        struct device *device = &taken->devices[i];
        cleanup_free char *name = console_visible_new(device->name);
        size_t len = console_text_cut(str_of(name), sizeof(device->name) - 1);
        snprintf(device->name, sizeof(device->name), "%.*s", (int)len, name);
        identity_clean(device->uuid);
        identity_clean(device->pci);
        identity_clean(device->parent_uuid);
    }
}

void wire_taken_release(struct wire_taken *taken)
{
    free(taken->devices);
    free(taken->seats);
    free(taken->notes);
    free(taken->distance);
    *taken = (struct wire_taken){0};
}

void wire_error(struct wire_body *body, struct err *err)
{
    wire_i32(body, &err->code);
    wire_i32(body, &err->sys);
    wire_text(body, err->text, sizeof(err->text));
    if (!body->out && (err->code >= 0 || err->code < ERR_RECORD || !err->text[0]))
        body->is_malformed = true;
}

static void cpu_wish(struct wire_body *body, struct cpu_wish *wish, uint32_t *local_rank)
{
    uint8_t binding = (uint8_t)wish->binding;
    wire_u8(body, &binding);
    wire_flag(body, &wish->shares_threads);
    wire_u32(body, &wish->n_ranks);
    wire_u32(body, local_rank);
    wish->binding = binding;
    if (binding >= NUMA_BINDINGS || wish->n_ranks > CPU_RANKS_MAX ||
        *local_rank >= MAX(wish->n_ranks, 1u))
        body->is_malformed = true;
}

static void joined_seats(struct wire_body *body, struct wire_spawn *spawn)
{
    wire_flag(body, &spawn->is_joined);
    count(body, &spawn->n_joined, SEAT_DEVICES_MAX, 4);
    for (uint32_t i = 0; i < spawn->n_joined; i++)
        wire_u32(body, &spawn->joined[i]);
    if (!spawn->is_joined && spawn->n_joined > 0)
        body->is_malformed = true;
}

void wire_spawn(struct wire_body *body, struct wire_spawn *spawn)
{
    wire_u32(body, &spawn->seat);
    wire_u64(body, &spawn->grace_ms);
    wire_flag(body, &spawn->has_input);
    wire_flag(body, &spawn->answers);
    wire_u8(body, &spawn->channel);
    if (spawn->channel > CHANNEL_PATH)
        body->is_malformed = true;
    wire_u32(body, &spawn->umask);
    if (spawn->umask > 0777)
        body->is_malformed = true;
    wire_u32(body, &spawn->files);
    wire_text(body, spawn->error_variable, sizeof(spawn->error_variable));
    cpu_wish(body, &spawn->cpus, &spawn->local_rank);
    wire_text(body, spawn->cwd, sizeof(spawn->cwd));
    joined_seats(body, spawn);
    texts(body, &spawn->argv);
    texts(body, &spawn->changes);
    if (!spawn->argv[0])
        body->is_malformed = true;
}

void wire_spawn_release(struct wire_spawn *spawn)
{
    texts_release(spawn->argv);
    texts_release(spawn->changes);
    spawn->argv = spawn->changes = NULL;
}

void wire_started(struct wire_body *body, struct wire_started *started)
{
    wire_u64(body, &started->pid);
    wire_u64(body, &started->guard_pid);
}

void wire_exit(struct wire_body *body, struct worker_exit *exit)
{
    uint64_t stuck = (uint64_t)exit->stuck_pid;
    wire_flag(body, &exit->was_refused);
    wire_i32(body, &exit->exec_errno);
    wire_flag(body, &exit->has_exited);
    wire_i32(body, &exit->exit_code);
    wire_i32(body, &exit->exit_signal);
    wire_flag(body, &exit->oom_kills.knows_own);
    wire_u64(body, &exit->oom_kills.own);
    wire_u64(body, &exit->oom_kills.host);
    wire_u64(body, &exit->memory_bytes);
    wire_u64(body, &exit->rss_peak_bytes);
    wire_i32(body, &exit->n_left_behind);
    number(body, &stuck, 4);
    exit->stuck_pid = (pid_t)stuck;
    if ((unsigned)exit->exit_code > EXIT_CODE_MAX ||
        (unsigned)exit->exit_signal > EXIT_SIGNAL_MAX || exit->n_left_behind < 0 ||
        exit->stuck_pid < 0)
        body->is_malformed = true;
}

void wire_ask(struct wire_body *body, struct wire_ask *ask)
{
    wire_u8(body, &ask->kind);
    wire_u64(body, &ask->value);
    if (ask->kind >= ASK_KINDS)
        body->is_malformed = true;
}

void wire_stand(struct wire_body *body, struct proc_stand *stand)
{
    uint32_t pid = (uint32_t)stand->pid, tracer = (uint32_t)stand->tracer;
    uint8_t state = (uint8_t)stand->state;
    wire_u64(body, &stand->cpu_ms);
    wire_u64(body, &stand->io_bytes);
    wire_u64(body, &stand->family);
    wire_u32(body, &pid);
    wire_u8(body, &state);
    wire_flag(body, &stand->is_blocked);
    wire_u32(body, &tracer);
    wire_u64(body, &stand->depth);
    wire_text(body, stand->place, sizeof(stand->place));
    if (pid > INT32_MAX || tracer > INT32_MAX || state < ' ' || state > '~')
        body->is_malformed = true;
    stand->pid = (pid_t)pid;
    stand->tracer = (pid_t)tracer;
    stand->state = (char)state;
}

void wire_input(struct wire_body *body, struct wire_input *input)
{
    wire_u8(body, &input->fact);
    wire_u64(body, &input->n_bytes);
    if (input->fact > INPUT_WAITS_PERHAPS)
        body->is_malformed = true;
}

static void wire_uses(struct wire_body *body, struct device_sample *sample)
{
    uint32_t n_uses = (uint32_t)sample->n_uses;
    wire_u32(body, &n_uses);
    if (n_uses > SAMPLE_USES_MAX) {
        body->is_malformed = true;
        n_uses = 0;
    }
    sample->n_uses = n_uses;
    for (uint32_t i = 0; i < n_uses; i++) {
        wire_i32(body, &sample->uses[i].guard_pid);
        wire_u64(body, &sample->uses[i].mem_bytes);
    }
}

void wire_sample(struct wire_body *body, struct device_sample *sample)
{
    int milliwatts = sample->power_w < 0 ? -1 : (int)(sample->power_w * 1000 + 0.5);
    uint32_t device = (uint32_t)sample->device;
    wire_u32(body, &device);
    sample->device = device;
    wire_flag(body, &sample->is_lost);
    wire_u64(body, &sample->mem_used_bytes);
    wire_u64(body, &sample->mem_total_bytes);
    wire_i32(body, &sample->busy_percent);
    wire_i32(body, &sample->temperature_c);
    wire_i32(body, &milliwatts);
    if (milliwatts < -1)
        body->is_malformed = true;
    sample->power_w = milliwatts < 0 ? -1 : milliwatts / 1000.0;
    wire_uses(body, sample);
}

/* ---- files ---- */

void wire_stage(struct wire_body *body, struct wire_stage *stage)
{
    wire_text(body, stage->probe_path, sizeof(stage->probe_path));
    wire_text(body, stage->probe_token, sizeof(stage->probe_token));
    wire_flag(body, &stage->needs_cwd);
}

static size_t texts_len(const char **list)
{
    size_t n = 0;
    while (list[n])
        n++;
    return n;
}

void wire_prepare(struct wire_body *body, struct wire_prepare *prepare)
{
    wire_text(body, prepare->input_name, sizeof(prepare->input_name));
    wire_text(body, prepare->output_name, sizeof(prepare->output_name));
    texts(body, &prepare->options);
    texts(body, &prepare->patterns);
    wire_u64(body, &prepare->since_ns);
    if (prepare->since_ns > INT64_MAX)
        body->is_malformed = true;
    size_t n_files = texts_len(prepare->patterns);
    if (n_files > LEFT_MAX || texts_len(prepare->options) != n_files)
        body->is_malformed = true;
}

void wire_prepare_release(struct wire_prepare *prepare)
{
    texts_release(prepare->options);
    texts_release(prepare->patterns);
    prepare->options = prepare->patterns = NULL;
}

void wire_staged(struct wire_body *body, struct wire_staged *staged)
{
    wire_flag(body, &staged->is_shared);
    wire_text(body, staged->folder, sizeof(staged->folder));
    if (staged->is_shared == (staged->folder[0] == '/'))
        body->is_malformed = true;
}

static void file_trace(struct wire_body *body, struct file_trace *trace)
{
    uint64_t mtime = (uint64_t)trace->mtime_ns;
    text_owned(body, &trace->path);
    wire_u64(body, &trace->device);
    wire_u64(body, &trace->inode);
    wire_u64(body, &trace->bytes);
    wire_u64(body, &mtime);
    trace->mtime_ns = (int64_t)mtime;
    if (trace->bytes > INT64_MAX || strlen(trace->path) >= PATH_MAX)
        body->is_malformed = true;
}

void wire_found(struct wire_body *body, struct wire_found *found)
{
    enum {
        FILE_MIN_BYTES = 40
    };
    count(body, &found->n_files, LEFT_MAX, FILE_MIN_BYTES);
    if (!body->out)
        found->files = xcalloc(found->n_files + 1, sizeof(*found->files));
    for (uint32_t i = 0; i < found->n_files; i++) {
        text_owned(body, &found->files[i].name);
        file_trace(body, &found->files[i].trace);
        if (strlen(found->files[i].name) >= PATH_MAX)
            body->is_malformed = true;
    }
}

void wire_found_release(struct wire_found *found)
{
    for (uint32_t i = 0; i < found->n_files; i++)
        left_file_release(&found->files[i]);
    free(found->files);
    *found = (struct wire_found){0};
}

void wire_fetch(struct wire_body *body, struct wire_fetch *fetch)
{
    file_trace(body, &fetch->trace);
    wire_u64(body, &fetch->from);
    if (fetch->from > fetch->trace.bytes)
        body->is_malformed = true;
}

void wire_file_end(struct wire_body *body, struct wire_file_end *end)
{
    wire_u64(body, &end->n_bytes);
    wire_u64(body, &end->hash);
}
