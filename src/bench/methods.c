/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes methods from the command line, and variants from the methods: each method with each number
 * of devices and each batch size.
 */
#include <sys/stat.h>

#include "base/console_text.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "bench/bench_impl.h"
#include "map/template.h"

#define PLACES                                                                          \
    (1u << PLACE_BATCH | 1u << PLACE_DEVICES | 1u << PLACE_GPU | 1u << PLACE_GPU_UUID | \
     1u << PLACE_OUTPUT)

/* ---- lists of numbers ---- */

static bool has_count(const struct bench_counts *counts, uint64_t count)
{
    for (size_t i = 0; i < counts->len; i++)
        if (counts->at[i] == count)
            return true;
    return false;
}

int bench_counts_parse(struct str text, struct bench_counts *out, struct err *err)
{
    struct str word;
    *out = (struct bench_counts){0};
    while (str_next(&text, ',', &word)) {
        uint64_t count;
        int rc = u64_parse(str_trim(word), 1, 1000000, &count, err);
        if (rc)
            return rc;
        if (has_count(out, count))
            return fail(err, ERR_USAGE, "%lu occurs twice", count);
        if (out->len == BENCH_COUNTS_MAX)
            return fail(err, ERR_USAGE, "more than %d numbers", BENCH_COUNTS_MAX);
        out->at[out->len++] = count;
        if (text.len == 0)
            break;
    }
    return out->len > 0 ? 0 : fail(err, ERR_USAGE, "expected numbers such as 1,2,4");
}

void bench_counts_format(const struct bench_counts *counts, struct buf *out)
{
    for (size_t i = 0; i < counts->len; i++)
        buf_addf(out, "%s%lu", i > 0 ? "," : "", counts->at[i]);
}

/* ---- methods ---- */

static int places_check(uint32_t uses, bool has_batch, struct err *err)
{
    if (uses & ~PLACES)
        return fail(err, ERR_USAGE,
                    "of the placeholders, muster bench fills in {batch}, {devices}, {gpu}, "
                    "{gpu_uuid} and {output} only; give a value for the others, or double the "
                    "braces of a word that is none");
    if (uses & 1u << PLACE_BATCH && !has_batch)
        return fail(err, ERR_USAGE, "{batch} needs --batch");
    return 0;
}

static int word_check(const char *word, bool has_batch, struct err *err)
{
    int rc = template_check(str_of(word), err);
    return rc ? rc : places_check(template_uses(str_of(word)), has_batch, err);
}

/* Reads NAME[@DEVICES]=LINE. */
static int method_parse(const char *typed, struct bench_method *out, struct err *err)
{
    const char *equals = strchr(typed, '=');
    struct str name = {typed, equals ? (size_t)(equals - typed) : 0};
    const char *at = memrchr(name.at, '@', name.len);
    if (!equals || str_trim((struct str){equals + 1, strlen(equals + 1)}).len == 0)
        return fail(err, ERR_USAGE,
                    "--method '%s': expected NAME=COMMAND, or NAME@DEVICES=COMMAND for some "
                    "numbers of devices only",
                    typed);
    if (at) {
        struct str counts = {at + 1, (size_t)(equals - at) - 1};
        int rc = bench_counts_parse(counts, &out->own, err);
        if (rc)
            return wrap(err, rc, "--method '%.*s'", (int)name.len, name.at);
        name.len = (size_t)(at - typed);
    }
    if (str_trim(name).len == 0)
        return fail(err, ERR_USAGE, "--method '%s': it has no name", typed);
    out->name = xstrndup(str_trim(name).at, str_trim(name).len);
    out->line = equals + 1;
    return 0;
}

static int method_add(struct benching *b, const struct bench_method *method, struct err *err)
{
    for (size_t i = 0; i < b->n_methods; i++)
        if (str_equal(str_of(b->methods[i].name), str_of(method->name))) {
            int rc = fail(err, ERR_USAGE, "two methods are called '%s'", method->name);
            free(method->name);
            return rc;
        }
    b->methods = xrealloc(b->methods, (b->n_methods + 1) * sizeof(*b->methods));
    b->methods[b->n_methods++] = *method;
    return 0;
}

/* Adds the command behind `--` as a method. */
static int command_add(struct benching *b, struct err *err)
{
    const struct bench_request *r = b->request;
    bool is_map = r->inputs.len > 0;
    int rc = 0;
    if (!r->command || !r->command[0])
        return is_map
                   ? fail(err, ERR_USAGE,
                          "-i: the worker that gets the items stands behind --, as for muster map")
                   : 0;
    for (const char *const *word = r->command; rc == 0 && !is_map && *word; word++)
        rc = word_check(*word, r->batches.len > 0, err);
    return rc ? rc
              : method_add(b,
                           &(struct bench_method){.name = xstrdup(is_map ? "map" : "command"),
                                                  .words = r->command,
                                                  .is_map = is_map},
                           err);
}

int methods_make(struct benching *b, struct err *err)
{
    const struct bench_request *r = b->request;
    int rc = command_add(b, err);
    for (size_t i = 0; rc == 0 && i < r->methods.len; i++) {
        struct bench_method method = {0};
        rc = method_parse(r->methods.at[i], &method, err);
        rc = rc ? rc : word_check(method.line, r->batches.len > 0, err);
        if (rc == 0)
            rc = method_add(b, &method, err);
        else
            free(method.name);
    }
    if (rc == 0 && b->n_methods == 0)
        rc = fail(err, ERR_USAGE,
                  "nothing to measure: give a command behind --, or --method NAME='COMMAND'");
    for (size_t i = 0; i < b->n_methods; i++)
        b->methods[i].wish = b->methods[i].own.len > 0 ? &b->methods[i].own : &r->devices;
    return rc;
}

void methods_release(struct benching *b)
{
    for (size_t i = 0; i < b->n_methods; i++)
        free(b->methods[i].name);
    free(b->methods);
    free(b->variants);
}

uint32_t methods_devices_max(const struct benching *b)
{
    uint64_t most = 0;
    for (size_t i = 0; i < b->n_methods; i++) {
        const struct bench_counts *wish = b->methods[i].wish;
        if (wish->len == 0)
            return 0;
        for (size_t k = 0; k < wish->len; k++)
            most = MAX(most, wish->at[k]);
    }
    return (uint32_t)MIN(most, (uint64_t)UINT32_MAX);
}

/* ---- variants ---- */

/* The numbers 1, 2, 4 … and n_devices, up to the most devices that a run can have. */
static struct bench_counts doublings(uint32_t n_devices)
{
    struct bench_counts out = {0};
    n_devices = MIN(n_devices, (uint32_t)SEAT_DEVICES_MAX);
    for (uint64_t n = 1; n < n_devices && out.len < BENCH_COUNTS_MAX - 1; n *= 2)
        out.at[out.len++] = n;
    out.at[out.len++] = n_devices;
    return out;
}

static int variant_add(struct benching *b, const struct bench_variant *variant, struct err *err)
{
    if (b->n_variants == CONTEST_VARIANTS_MAX)
        return fail(err, ERR_USAGE,
                    "methods, numbers of devices and batch sizes make more than %d rows",
                    CONTEST_VARIANTS_MAX);
    b->variants = xrealloc(b->variants, (b->n_variants + 1) * sizeof(*b->variants));
    b->variants[b->n_variants++] = *variant;
    return 0;
}

static int method_variants(struct benching *b, uint32_t method, uint32_t n_devices, struct err *err)
{
    const struct bench_counts all = doublings(n_devices), *wish = b->methods[method].wish;
    const struct bench_counts *devices = wish->len > 0 ? wish : &all;
    const struct bench_counts *batches = &b->request->batches;
    int rc = 0;
    for (size_t d = 0; rc == 0 && d < devices->len; d++) {
        struct bench_variant variant = {.method = method, .n_devices = (uint32_t)devices->at[d]};
        if (devices->at[d] > SEAT_DEVICES_MAX)
            return fail(err, ERR_USAGE, "%lu devices are more than the %d that a run can have",
                        devices->at[d], SEAT_DEVICES_MAX);
        if (devices->at[d] > n_devices)
            return fail(err, ERR_UNAVAILABLE,
                        "%lu devices are asked for, and there %s %u; -g names them, --devices "
                        "how many are used",
                        devices->at[d], n_devices == 1 ? "is" : "are", n_devices);
        for (size_t i = 0; rc == 0 && i < batches->len; i++) {
            variant.batch = batches->at[i];
            rc = variant_add(b, &variant, err);
        }
        if (batches->len == 0)
            rc = variant_add(b, &variant, err);
    }
    return rc;
}

int variants_make(struct benching *b, uint32_t n_devices, struct err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < b->n_methods; i++)
        rc = method_variants(b, i, n_devices, err);
    return rc;
}

bool has_batches(const struct benching *b)
{
    return b->request->batches.len > 0;
}

void variant_name_add(const struct benching *b, uint32_t variant, struct buf *out)
{
    const struct bench_variant *w = &b->variants[variant];
    if (b->n_methods > 1) {
        console_visible_add(out, str_of(b->methods[w->method].name));
        buf_add_text(out, ", ");
    }
    buf_addf(out, "%u device%s", w->n_devices, plural(w->n_devices));
    if (w->batch > 0)
        buf_addf(out, ", batch %lu", w->batch);
}

const char *unit_of(const struct benching *b)
{
    const struct bench_request *r = b->request;
    bool is_known = r->n_items > 0 || r->items_pattern || r->rate_pattern || r->inputs.len > 0;
    for (uint32_t i = 0; i < b->n_variants; i++)
        is_known = is_known || (b->variants[i].n_items > 0 &&
                                contest_outcome(b->contest, i) != CONTEST_OTHER_WORK);
    return is_known ? "items" : "runs";
}

/* ---- what is refused ---- */

static int variants_of_counting_check(const struct bench_request *r, struct err *err)
{
    if (r->n_items > 0 && r->items_pattern)
        return fail(err, ERR_USAGE, "--items and --items-pattern tell the same number; give one");
    if (r->inputs.len > 0 && r->methods.len == 0 &&
        (r->n_items > 0 || r->items_pattern || r->rate_pattern || r->ready_pattern))
        return fail(err, ERR_USAGE,
                    "with -i, muster map counts the items and sees when its workers are loaded; "
                    "leave --items and the patterns out");
    if (r->inputs.len == 0 && r->limit > 0)
        return fail(err, ERR_USAGE, "--limit is about the items of -i");
    return 0;
}

static int inputs_check(const struct bench_request *r, struct err *err)
{
    struct trial_input input = TRIAL_INPUT_INIT;
    struct stat st;
    int rc = 0;
    if (r->stdin_path && r->inputs.len > 0 && r->methods.len == 0)
        return fail(err, ERR_USAGE, "--stdin is not for -i: muster map gives the items");
    for (size_t i = 0; i < r->inputs.len; i++) {
        if (stat(r->inputs.at[i], &st) != 0)
            return fail_errno_as(err, ERR_USAGE, "open %s", r->inputs.at[i]);
        if (!S_ISREG(st.st_mode))
            return fail(err, ERR_USAGE,
                        "-i %s: every run reads it from its beginning, so it must be a file",
                        r->inputs.at[i]);
    }
    if (rc == 0 && r->stdin_path)
        rc = trial_input_open(&input, r->stdin_path, err);
    trial_input_close(&input);
    return rc;
}

static int patterns_check(const struct bench_request *r, struct err *err)
{
    const char *const given[][2] = {{"--items-pattern", r->items_pattern},
                                    {"--rate-pattern", r->rate_pattern},
                                    {"--ready-pattern", r->ready_pattern}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(given); i++) {
        struct output_pattern pattern;
        rc = output_pattern_make(&pattern, given[i][0], given[i][1], err);
        output_pattern_release(&pattern);
    }
    return rc;
}

int bench_check(const struct bench_request *request, struct err *err)
{
    struct benching b = {.request = request};
    int rc = methods_make(&b, err);
    methods_release(&b);
    rc = rc ? rc : variants_of_counting_check(request, err);
    rc = rc ? rc : inputs_check(request, err);
    return rc ? rc : patterns_check(request, err);
}
