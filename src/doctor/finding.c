/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/finding.h"

#include "base/json.h"
#include "base/xalloc.h"

void findings_release(struct findings *findings)
{
    for (size_t i = 0; i < findings->len; i++)
        free(findings->at[i].found);
    free(findings->at);
    *findings = (struct findings){0};
}

static struct finding *add(struct findings *findings, enum finding_level level, const char *subject,
                           char *text)
{
    findings->at = xrealloc(findings->at, (findings->len + 1) * sizeof(*findings->at));
    struct finding *finding = &findings->at[findings->len++];
    *finding = (struct finding){.level = level, .check = findings->check ? findings->check : ""};
    snprintf(finding->subject, sizeof(finding->subject), "%s", subject);
    finding->found = text;
    finding->means = finding->cure = "";
    return finding;
}

void found_ok(struct findings *findings, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(findings, FINDING_OK, "", xvasprintf(fmt, args));
    va_end(args);
}

void found_ok_on(struct findings *findings, const char *subject, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(findings, FINDING_OK, subject, xvasprintf(fmt, args));
    va_end(args);
}

void found(struct findings *findings, const struct trouble *trouble, const char *subject,
           const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    struct finding *finding = add(findings, trouble->level, subject, xvasprintf(fmt, args));
    va_end(args);
    finding->means = trouble->means;
    finding->cure = trouble->cure;
}

const char *finding_level_name(enum finding_level level)
{
    static const char *const names[] = {
#define X(level, name) [FINDING_##level] = (name),
        FINDING_LEVELS(X)
#undef X
    };
    return names[level];
}

size_t findings_count(const struct findings *findings, enum finding_level level)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->len; i++)
        count += findings->at[i].level == level;
    return count;
}

const struct finding *findings_worst(const struct findings *findings)
{
    const struct finding *worst = findings->len > 0 ? findings->at : NULL;
    for (size_t i = 1; i < findings->len; i++)
        if (findings->at[i].level > worst->level)
            worst = &findings->at[i];
    return worst;
}

static void add_member(struct buf *out, const char *name, const char *text)
{
    buf_addf(out, ",\"%s\":", name);
    buf_add_json(out, str_of(text));
}

void finding_format_json(const struct finding *finding, struct buf *out)
{
    buf_addf(out, "{\"check\":\"%s\",\"level\":\"%s\"", finding->check,
             finding_level_name(finding->level));
    add_member(out, "subject", finding->subject);
    add_member(out, "found", finding->found);
    add_member(out, "means", finding->means);
    add_member(out, "cure", finding->cure);
    buf_add_char(out, '}');
}
