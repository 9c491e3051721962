/* SPDX-License-Identifier: Apache-2.0
 *
 * Command and environment of a run. The run may start a muster of any verb. The environment tells that muster which
 * devices it may use (muster bench holds their locks), where its run folder goes, and that it must leave a summary.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "bench/bench_impl.h"
#include "map/template.h"

static const struct bench_method *method_of(const struct benching *b, uint32_t variant)
{
    return &b->methods[b->variants[variant].method];
}

static const struct device *device_at(const struct benching *b, uint32_t seat)
{
    return &b->session.allocation.devices.at[b->session.allocation.seats[seat].devices[0]];
}

/* ---- placeholders ---- */

struct values {
    char batch[24], devices[16];
    struct buf gpus, uuids, output;
};

static void values_make(const struct benching *b, uint32_t variant, bool is_for_shell,
                        struct values *out)
{
    const struct bench_variant *w = &b->variants[variant];
    cleanup_free char *output = path_join(b->scratch ? b->scratch : "", "output");
    *out = (struct values){.gpus = BUF_INIT, .uuids = BUF_INIT, .output = BUF_INIT};
    snprintf(out->batch, sizeof(out->batch), "%lu", w->batch);
    snprintf(out->devices, sizeof(out->devices), "%u", w->n_devices);
    for (uint32_t i = 0; i < w->n_devices; i++) {
        buf_addf(&out->gpus, "%s%d", i > 0 ? "," : "", device_at(b, i)->index);
        buf_addf(&out->uuids, "%s%s", i > 0 ? "," : "", device_at(b, i)->uuid);
    }
    if (is_for_shell)
        buf_add_shell_word(&out->output, output);
    else
        buf_add_text(&out->output, output);
}

static void values_release(struct values *values)
{
    buf_release(&values->gpus);
    buf_release(&values->uuids);
    buf_release(&values->output);
}

static char *filled_new(const char *word, const struct values *values)
{
    struct template_values at = {0};
    struct buf out = BUF_INIT;
    at.of[PLACE_BATCH] = str_of(values->batch);
    at.of[PLACE_DEVICES] = str_of(values->devices);
    at.of[PLACE_GPU] = buf_str(&values->gpus);
    at.of[PLACE_GPU_UUID] = buf_str(&values->uuids);
    at.of[PLACE_OUTPUT] = buf_str(&values->output);
    template_fill(str_of(word), &at, &out);
    return buf_steal(&out);
}

/* ---- words ---- */

/* Adds "muster map … -- WORKER". The environment has its devices. */
static void map_words(const struct benching *b, uint32_t variant, struct env_list *words)
{
    const struct bench_request *r = b->request;
    uint64_t batch = b->variants[variant].batch;
    env_list_add(words, xstrdup(b->caller->self_path));
    env_list_add(words, xstrdup("map"));
    env_list_add(words, xstrdup("-q"));
    for (size_t i = 0; i < r->inputs.len; i++)
        env_list_add(words, xstrdup(r->inputs.at[i]));
    env_list_add(words, xstrdup("-o"));
    env_list_add(words, path_join(b->scratch ? b->scratch : "", "output"));
    if (r->limit > 0) {
        env_list_add(words, xstrdup("--limit"));
        env_list_add(words, xasprintf("%lu", r->limit));
    }
    if (batch > 0) {
        env_list_add(words, xstrdup("--batch"));
        env_list_add(words, xasprintf("%lu", batch));
    }
    env_list_add(words, xstrdup("--"));
    env_list_add_words(words, method_of(b, variant)->words);
}

void variant_words(const struct benching *b, uint32_t variant, struct env_list *out)
{
    const struct bench_method *method = method_of(b, variant);
    struct env_list words = {0};
    struct values values;
    values_make(b, variant, method->line != NULL, &values);
    if (method->is_map)
        map_words(b, variant, &words);
    else if (method->line) {
        env_list_add(&words, xstrdup("sh"));
        env_list_add(&words, xstrdup("-c"));
        env_list_add(&words, filled_new(method->line, &values));
    }
    for (size_t i = 0; !method->is_map && !method->line && method->words[i]; i++)
        env_list_add(&words, filled_new(method->words[i], &values));
    env_end(&words);
    environment_command(&b->request->environment, (const char *const *)words.at, out);
    env_list_release(&words);
    values_release(&values);
}

/* ---- environment ---- */

/* The SPEC of the run's devices, for a muster inside the run. */
static char *spec_new(const struct benching *b, uint32_t n_devices)
{
    const struct device *first = device_at(b, 0);
    if (first->kind == DEVICE_CPU)
        return xasprintf("cpu:%u", n_devices);
    if (first->kind != DEVICE_SIM)
        return xstrdup("all");
    return xasprintf("sim:%ux%s:%luMiB", n_devices, first->name, first->mem_total_bytes >> 20);
}

char *summary_path_new(const struct benching *b)
{
    return path_join(b->scratch ? b->scratch : "", "summary.json");
}

static void muster_prepare(const struct benching *b, const struct bench_variant *variant,
                           struct env_list *env)
{
    cleanup_free char *spec = spec_new(b, variant->n_devices), *path = summary_path_new(b);
    cleanup_buf struct buf quoted = BUF_INIT;
    struct buf held = BUF_INIT;
    buf_add_text(&held, LOCK_HANDED_DOWN "=");
    for (uint32_t i = 0; i < variant->n_devices; i++)
        buf_addf(&held, "%s%s", i > 0 ? "," : "", device_at(b, i)->uuid);
    buf_add_shell_word(&quoted, path);
    env_set(env, buf_steal(&held));
    env_set(env, xasprintf("MUSTER_GPUS=%s", spec));
    env_set(env, xasprintf("MUSTER_RUNS_DIR=%s/runs", b->scratch ? b->scratch : ""));
    env_set(env, xasprintf("MUSTER_ON_FINISH=cat >%s", buf_text(&quoted)));
    env_set(env, xstrdup("MUSTER_GO_ON=muster bench")); /* its run folder will be removed */
}

void variant_environment(const struct benching *b, uint32_t variant, struct env_list *out)
{
    const struct bench_variant *w = &b->variants[variant];
    environment_begin(out);
    trial_devices_add(&b->session.run.setting, w->n_devices, out);
    /* Each process of the command would use the number of threads that is meant for all devices together. */
    if (!getenv("OMP_NUM_THREADS"))
        env_unset(out, "OMP_NUM_THREADS");
    muster_prepare(b, w, out);
    if (w->batch > 0)
        env_set(out, xasprintf("MUSTER_BATCH=%lu", w->batch));
    environment_wish_apply(&b->request->environment, out);
    env_end(out);
}
