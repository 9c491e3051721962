/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of a run: from how it ended, from its output, and from the summary of a muster map inside the run.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "bench/bench_impl.h"

enum {
    SUMMARY_BYTES_MAX = 1 << 20
};

/* The summary of a muster map. A number that is not known is 0. */
struct map_summary {
    bool is_there;
    uint64_t n_items, n_done, n_failed, n_ooms, ready_ms;
    bool is_ready_known;
    double loaded_rate;
};

static bool count_take(struct str object, const char *key, uint64_t *out)
{
    struct str value;
    return json_get(object, key, &value) && json_to_u64(value, out);
}

static struct map_summary summary_read(const struct benching *b)
{
    struct map_summary out = {0};
    cleanup_free char *path = summary_path_new(b);
    cleanup_buf struct buf text = BUF_INIT;
    struct str value;
    if (!path_exists(path) || file_read(path, SUMMARY_BYTES_MAX, &text, NULL) != 0)
        return out;
    struct str object = str_trim(buf_str(&text));
    out.is_there = json_is_object(object) && count_take(object, "done", &out.n_done) &&
                   count_take(object, "failed", &out.n_failed);
    count_take(object, "items", &out.n_items);
    count_take(object, "ooms", &out.n_ooms);
    out.is_ready_known = count_take(object, "ready_ms", &out.ready_ms);
    if (json_get(object, "loaded_items_per_s", &value))
        json_to_double(value, &out.loaded_rate);
    return out;
}

/* ---- whether it did its work ---- */

/* Writes why the run does not count although its command ended well. Returns true if there is such a cause. */
static bool is_lacking(const struct benching *b, const struct map_summary *map, char *out,
                       size_t cap)
{
    const struct {
        const char *option, *text;
        bool is_found;
    } wanted[] = {
        {"--items-pattern", b->request->items_pattern, b->session.run.matches[0].number > 0},
        {"--rate-pattern", b->request->rate_pattern, b->session.run.matches[1].number > 0},
        {"--ready-pattern", b->request->ready_pattern, b->session.run.matches[2].at_us > 0},
    };
    for (size_t i = 0; !map->is_there && i < countof(wanted); i++)
        if (wanted[i].text && !wanted[i].is_found) {
            snprintf(out, cap, "it printed nothing that matches %s '%.80s'", wanted[i].option,
                     wanted[i].text);
            return true;
        }
    return false;
}

static enum contest_outcome outcome_of(const struct benching *b, const struct trial_end *end,
                                       const struct map_summary *map, char *out, size_t cap)
{
    char limit[24];
    bool is_endless = end->was_late && b->session.run.matches[1].number > 0;
    duration_format(limit, b->request->trial_limit_ms);
    out[0] = '\0';
    if (end->death == DEATH_OOM || end->death == DEATH_HOST_OOM || map->n_ooms > 0) {
        snprintf(out, cap, "%s",
                 death_text(end->death == DEATH_HOST_OOM ? DEATH_HOST_OOM : DEATH_OOM));
        return CONTEST_OOM;
    }
    if (end->was_late && !is_endless) {
        snprintf(out, cap, "not done after %s", limit);
        return CONTEST_LATE;
    }
    if (map->is_there && map->n_failed > 0)
        snprintf(out, cap, "%lu of %lu item%s failed", map->n_failed,
                 MAX(map->n_items, map->n_failed), plural(MAX(map->n_items, map->n_failed)));
    else if (end->death != DEATH_CLEAN && !is_endless)
        trial_end_format(&b->session.run, end, out, cap);
    else if (!is_lacking(b, map, out, cap))
        return CONTEST_OK;
    return CONTEST_FAILED;
}

/* ---- figures ---- */

static double seconds_of(uint64_t us)
{
    return (double)MAX(us, (uint64_t)1) / 1e6;
}

/* Sets how long the run loaded, and its rate after that. */
static void loaded_take(const struct benching *b, const struct map_summary *map,
                        const struct trial_end *end, double n_items, double figure[])
{
    const struct output_match *rate = &b->session.run.matches[1],
                              *ready = &b->session.run.matches[2];
    if (rate->number > 0) {
        double working_s = n_items / rate->number;
        figure[CONTEST_LOADED] = rate->number;
        figure[CONTEST_LOADING_S] = n_items > 0 ? seconds_of(end->took_us) - working_s : 0;
    } else if (ready->at_us > 0) {
        uint64_t loading_us = ready->at_us - MIN(b->session.run.begin_us, ready->at_us);
        uint64_t working_us = end->took_us - MIN(loading_us, end->took_us);
        figure[CONTEST_LOADING_S] = seconds_of(loading_us);
        figure[CONTEST_LOADED] = n_items / seconds_of(working_us);
    } else if (map->is_there && map->is_ready_known) {
        figure[CONTEST_LOADED] = map->loaded_rate;
        figure[CONTEST_LOADING_S] = (double)map->ready_ms / 1000;
    }
}

void run_judge(struct benching *b, const struct trial_end *end, struct contest_run *out)
{
    struct bench_variant *variant = &b->variants[b->variant];
    const struct map_summary map = summary_read(b);
    *out = (struct contest_run){.seconds = seconds_of(end->took_us)};
    out->outcome = outcome_of(b, end, &map, variant->end, sizeof(variant->end));
    variant->peak_bytes = MAX(variant->peak_bytes, end->peak_bytes);
    if (out->outcome != CONTEST_OK)
        return;
    out->n_items = map.is_there ? map.n_done
                   : b->session.run.matches[0].number > 0
                       ? (uint64_t)b->session.run.matches[0].number
                       : b->request->n_items;
    /* If the items are not counted, a run is one piece of work, unless it prints a rate, which is a rate of items. */
    out->is_piece = out->n_items == 0 && !b->request->rate_pattern;
    double n_items = (double)MAX(out->n_items, (uint64_t)out->is_piece);
    variant->n_items = out->n_items;
    if (!end->was_late)
        out->figure[CONTEST_WHOLE] = n_items / out->seconds;
    loaded_take(b, &map, end, n_items, out->figure);
    if (end->joules > 0 && n_items > 0)
        out->figure[CONTEST_ITEM_J] = end->joules / n_items;
}
