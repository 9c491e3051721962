/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor_print.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/json.h"

enum {
    TEXT_COLUMN = 16,
    TEXT_WIDTH = 100,
};

struct paint {
    const char *begin, *end;
};

static struct paint paint_of(enum finding_level level, bool has_color)
{
    static const char *const begins[] = {
        [FINDING_OK] = "\033[32m", [FINDING_WARN] = "\033[33m", [FINDING_FAIL] = "\033[1;31m"};
    return has_color ? (struct paint){begins[level], "\033[0m"} : (struct paint){"", ""};
}

/* Adds "  means: " and the text, wrapped. */
static void advice_add(struct buf *out, const char *name, const char *text)
{
    size_t column = TEXT_COLUMN + 7;
    buf_addf(out, "%*s%-6s", TEXT_COLUMN, "", name);
    while (*text) {
        size_t len = strcspn(text, " ");
        if (column + len > TEXT_WIDTH) {
            buf_addf(out, "\n%*s", TEXT_COLUMN + 6, "");
            column = TEXT_COLUMN + 7;
        }
        buf_addf(out, " %.*s", (int)len, text);
        column += len + 1;
        text += len + strspn(text + len, " ");
    }
    buf_add_char(out, '\n');
}

/*
 * Adds the words of a finding. Names of processes and values of variables may hold escape
 * sequences, which are made harmless.
 */
static void words_add(struct buf *out, const struct finding *finding)
{
    console_text_add(out, str_of(finding->subject), false);
    buf_add_text(out, finding->subject[0] ? ": " : "");
    console_text_add(out, str_of(finding->found), false);
}

void finding_add(struct buf *out, const struct finding *finding, bool has_color)
{
    struct paint paint = paint_of(finding->level, has_color);
    cleanup_free char *check =
        console_visible_new(finding->check); /* the check's name is any text if it comes from
                                              * another host */
    buf_addf(out, "%s%-4s%s  %-9s ", paint.begin, finding_level_name(finding->level), paint.end,
             check);
    words_add(out, finding);
    buf_add_char(out, '\n');
    if (finding->level == FINDING_OK)
        return;
    cleanup_free char *means = console_visible_new(finding->means);
    cleanup_free char *cure = console_visible_new(finding->cure);
    advice_add(out, "means", means);
    advice_add(out, "cure", cure);
}

static void count_add(struct buf *out, const struct findings *findings, enum finding_level level,
                      const char *one, const char *many)
{
    size_t count = findings_count(findings, level);
    if (count > 0)
        buf_addf(out, ", %zu %s", count, count == 1 ? one : many);
}

/* Adds the counts of findings, the worst level first. */
void findings_summary_add(struct buf *out, const struct findings *findings, bool has_color)
{
    static const char *const verdicts[] = {
        [FINDING_OK] = "fit", [FINDING_WARN] = "fit, with warnings", [FINDING_FAIL] = "not fit"};
    const struct finding *worst = findings_worst(findings);
    enum finding_level level = worst ? worst->level : FINDING_OK;
    struct paint paint = paint_of(level, has_color);
    if (!worst) {
        buf_add_text(out, "there is nothing of that on this machine\n");
        return;
    }
    buf_addf(out, "\n%s%s%s", paint.begin, verdicts[level], paint.end);
    count_add(out, findings, FINDING_FAIL, "failure", "failures");
    count_add(out, findings, FINDING_WARN, "warning", "warnings");
    count_add(out, findings, FINDING_OK, "ok", "ok");
    if (level != FINDING_OK) {
        buf_add_text(out, "; first of all ");
        console_visible_add(out, str_of(worst->check));
        buf_add_text(out, ": ");
        words_add(out, worst);
    }
    buf_add_char(out, '\n');
}

/* ---- objects ---- */

void object_line_add(struct buf *out, const struct buf *object, const char *host)
{
    cleanup_buf struct buf line = BUF_INIT;
    char time[40];
    clock_rfc3339(time, clock_wall_ms());
    buf_addf(&line, "{\"time\":\"%s\",", time);
    if (host) {
        buf_add_text(&line, "\"host\":");
        if (host[0])
            buf_add_json(&line, str_of(host));
        else
            buf_add_text(&line, "null");
        buf_add_char(&line, ',');
    }
    buf_add_text(&line, buf_text(object) + 1);
    console_visible_add(out, buf_str(&line));
    buf_add_char(out, '\n');
}

void finding_object_add(struct buf *out, const struct finding *finding, const char *host)
{
    cleanup_buf struct buf object = BUF_INIT;
    finding_format_json(finding, &object);
    object_line_add(out, &object, host);
}

void check_object_add(struct buf *out, const char *name, const char *purpose)
{
    cleanup_buf struct buf object = BUF_INIT;
    buf_addf(&object, "{\"check\":\"%s\",\"purpose\":", name);
    buf_add_json(&object, str_of(purpose));
    buf_add_char(&object, '}');
    object_line_add(out, &object, NULL);
}

void traits_objects_add(struct buf *out, const struct traits *traits, const char *host)
{
    for (int trait = 0; trait < TRAITS_COUNT; trait++) {
        cleanup_buf struct buf object = BUF_INIT;
        if (!traits->at[trait])
            continue;
        buf_addf(&object, "{\"trait\":\"%s\",\"value\":", trait_name((enum trait)trait));
        buf_add_json(&object, str_of(traits->at[trait]));
        buf_add_char(&object, '}');
        object_line_add(out, &object, host);
    }
}

void traits_add(struct buf *out, const struct traits *traits)
{
    for (int trait = 0; trait < TRAITS_COUNT; trait++) {
        if (!traits->at[trait])
            continue;
        buf_addf(out, "%-22s  ", trait_name((enum trait)trait));
        console_visible_add(out, str_of(traits->at[trait][0] ? traits->at[trait] : "none"));
        buf_add_char(out, '\n');
    }
}
