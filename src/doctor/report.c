/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/report.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"

enum {
    LINES_MAX = 20000, /* enough for a finding about each of 1,024 devices */
    WORDS_MAX_BYTES = 4096
};

static bool level_find(const char *name, enum finding_level *out)
{
    static const char *const names[] = {
#define X(level, name) [FINDING_##level] = (name),
        FINDING_LEVELS(X)
#undef X
    };
    for (size_t i = 0; i < countof(names); i++) {
        *out = (enum finding_level)i;
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

/* The text of a member; the report owns it. */
static const char *text_take(struct report *report, struct str line, const char *name)
{
    char *text = json_text_new(line, name, WORDS_MAX_BYTES);
    if (text)
        env_list_add(&report->texts, text);
    return text;
}

static bool finding_take(struct report *report, struct str line)
{
    const char *check = text_take(report, line, "check"), *level = text_take(report, line, "level");
    const char *means = text_take(report, line, "means"), *cure = text_take(report, line, "cure");
    const char *subject = text_take(report, line, "subject");
    cleanup_free char *words = json_text_new(line, "found", WORDS_MAX_BYTES);
    struct findings *findings = &report->findings;
    enum finding_level known;
    if (!check || !level || !means || !cure || !subject || !words || !level_find(level, &known))
        return false;
    findings->at = xrealloc(findings->at, (findings->len + 1) * sizeof(*findings->at));
    struct finding *finding = &findings->at[findings->len++];
    *finding = (struct finding){
        .level = known, .check = check, .found = steal_ptr(&words), .means = means, .cure = cure};
    snprintf(finding->subject, sizeof(finding->subject), "%s", subject);
    return true;
}

/* A trait that only another version knows is left out. */
static bool trait_take(struct report *report, struct str line)
{
    cleanup_free char *name = json_text_new(line, "trait", WORDS_MAX_BYTES);
    cleanup_free char *value = json_text_new(line, "value", TRAIT_MAX_BYTES);
    enum trait trait;
    bool is_trait = name && value;
    if (is_trait && trait_find(name, &trait)) {
        free(report->traits.at[trait]);
        report->traits.at[trait] = steal_ptr(&value);
    }
    return is_trait;
}

int report_parse(struct str text, struct report *out, struct err *err)
{
    struct str line;
    for (size_t n = 1; text.len > 0 && str_next(&text, '\n', &line); n++)
        if (n > LINES_MAX || (!finding_take(out, line) && !trait_take(out, line)))
            return fail(err, ERR_DATA, "line %zu of its answer is no finding", n);
    out->is_whole = true;
    return 0;
}

void report_release(struct report *report)
{
    findings_release(&report->findings);
    traits_release(&report->traits);
    env_list_release(&report->texts);
}
