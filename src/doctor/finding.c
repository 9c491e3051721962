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

static void add_trouble(struct findings *findings, const struct trouble *trouble,
                        enum device_kind kind, const char *subject, char *text)
{
    bool is_amd = kind == DEVICE_ROCM;
    struct finding *finding = add(findings, trouble->level, subject, text);
    finding->means = is_amd && trouble->means_amd ? trouble->means_amd : trouble->means;
    finding->cure = is_amd && trouble->cure_amd ? trouble->cure_amd : trouble->cure;
}

void found(struct findings *findings, const struct trouble *trouble, const char *subject,
           const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_trouble(findings, trouble, DEVICE_CPU, subject, xvasprintf(fmt, args));
    va_end(args);
}

void found_for(struct findings *findings, const struct trouble *trouble, enum device_kind kind,
               const char *subject, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_trouble(findings, trouble, kind, subject, xvasprintf(fmt, args));
    va_end(args);
}

void found_at(struct findings *findings, const struct trouble *trouble, const struct device *device,
              const char *fmt, ...)
{
    va_list args;
    char label[24];
    device_label(device, label);
    va_start(args, fmt);
    add_trouble(findings, trouble, device->kind, label, xvasprintf(fmt, args));
    va_end(args);
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
