/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/graph_status.h"

#include <jansson.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"

enum {
    JOBS_BYTES_MAX = 16 << 20
};

static long number_of(const json_t *object, const char *key)
{
    return (long)json_integer_value(json_object_get(object, key));
}

static char *text_new(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return console_visible_new(text ? text : "?");
}

/* "train 22/150 (2 running, 1 failed)" */
static void stage_add(const json_t *stage, bool goes_on, struct buf *out)
{
    static const char *const states[] = {"done",   "running", "ending",    "ready", "waiting",
                                         "failed", "blocked", "cancelled", "unfit"};
    static const char *const shown[] = {"running", "failed", "blocked", "cancelled",
                                        "unfit",   "held",   "spoilt"};
    cleanup_free char *name = text_new(stage, "stage");
    long total = 0;
    const char *before = " (";
    for (size_t i = 0; i < countof(states); i++)
        total += number_of(stage, states[i]);
    buf_addf(out, "  %s %ld/%ld", name, number_of(stage, "done"), total);
    for (size_t i = 0; i < countof(shown); i++) {
        if (number_of(stage, shown[i]) == 0 || (i == 0 && !goes_on))
            continue;
        buf_addf(out, "%s%ld %s", before, number_of(stage, shown[i]), shown[i]);
        before = ", ";
    }
    buf_add_text(out, before[0] == ',' ? ")" : "");
}

/* The state for which a job was ready is no longer true when the run does not go on. */
static void waiting_add(const json_t *waiting, bool goes_on, struct buf *out)
{
    for (size_t i = 0; i < json_array_size(waiting); i++) {
        const json_t *entry = json_array_get(waiting, i);
        const char *why = json_string_value(json_object_get(entry, "why"));
        const char *state = json_string_value(json_object_get(entry, "state"));
        if (!goes_on && (!state || strcmp(state, "ready") == 0))
            continue;
        cleanup_free char *job = text_new(entry, "job");
        buf_addf(out, "  %s: ", job);
        console_lines_add(out, str_of(why ? why : "?"));
        buf_add_char(out, '\n');
    }
}

void graph_jobs_add(struct buf *out, const char *dir, bool goes_on)
{
    cleanup_free char *path = path_join(dir, "jobs.json");
    cleanup_buf struct buf text = BUF_INIT;
    if (plain_file_read(path, JOBS_BYTES_MAX, &text, NULL) != 0)
        return;
    json_t *root = json_loadb(buf_text(&text), text.len, 0, NULL);
    const json_t *stages = json_object_get(root, "stages"),
                 *waiting = json_object_get(root, "waiting");
    if (json_array_size(stages) > 0)
        buf_add_text(out, "stages  ");
    for (size_t i = 0; i < json_array_size(stages); i++)
        stage_add(json_array_get(stages, i), goes_on, out);
    if (json_array_size(stages) > 0)
        buf_add_char(out, '\n');
    waiting_add(waiting, goes_on, out);
    json_decref(root);
}
