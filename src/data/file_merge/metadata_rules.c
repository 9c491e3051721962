/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules for members that follow from their names.
 */
#include <math.h>

#include "base/json.h"
#include "data/file_merge/metadata_impl.h"
#include "rule/names.h"

/* Members with these names are not added up as counts are. */
static const struct {
    const char *name;
    enum metadata_rule rule;
} rules[] = {
    {"num_gpus", RULE_WHOLE},
    {"gpu_metadata", RULE_WHOLE},
    {"data_file", RULE_DROP},
    {"batch_name", RULE_BATCH_NAME},
    {"timestamp", RULE_LATEST},
    {"accuracy", RULE_RATIO},
    {"precision", RULE_RATIO},
    {"recall", RULE_RATIO},
    {"f1", RULE_RATIO},
    {"f1_score", RULE_RATIO},
    {"fpr", RULE_RATIO},
    {"fnr", RULE_RATIO},
    {"false_positive_rate", RULE_RATIO},
    {"false_negative_rate", RULE_RATIO},
};

enum {
    TERMS_MAX = 4,
    PERCENT = 100
};

/* A ratio is the sum of some counts over the sum of others; fewer than TERMS_MAX end with NULL. The
 * first row whose counts every file has is used. With no counts above, the numerator is computed
 * from the files' own ratios. */
static const struct ratio {
    const char *name;
    const char *above[TERMS_MAX], *below[TERMS_MAX];
} ratios[] = {
    {"accuracy", {"correct"}, {"num_questions"}},
    {"accuracy", {"correct"}, {"num_samples"}},
    {"accuracy", {"correct"}, {"total"}},
    {"accuracy", {"correct"}, {"seen"}},
    {"accuracy", {"correct"}, {"count"}},
    {"accuracy", {"num_correct"}, {"num_questions"}},
    {"accuracy", {"num_correct"}, {"num_samples"}},
    {"accuracy", {"num_correct"}, {"total"}},
    {"accuracy", {"n_correct"}, {"n_samples"}},
    {"accuracy", {"n_correct"}, {"n_items"}},
    {"accuracy", {"n_correct"}, {"n_total"}},
    {"accuracy",
     {"true_positive", "true_negative"},
     {"true_positive", "true_negative", "false_positive", "false_negative"}},
    {"accuracy", {"tp", "tn"}, {"tp", "tn", "fp", "fn"}},
    {"accuracy", {NULL}, {"num_questions"}},
    {"accuracy", {NULL}, {"num_samples"}},
    {"accuracy", {NULL}, {"num_items"}},
    {"accuracy", {NULL}, {"num_records"}},
    {"accuracy", {NULL}, {"total"}},
    {"accuracy", {NULL}, {"count"}},
    {"precision", {"true_positive"}, {"true_positive", "false_positive"}},
    {"precision", {"tp"}, {"tp", "fp"}},
    {"recall", {"true_positive"}, {"true_positive", "false_negative"}},
    {"recall", {"tp"}, {"tp", "fn"}},
    {"f1_score",
     {"true_positive", "true_positive"},
     {"true_positive", "true_positive", "false_positive", "false_negative"}},
    {"f1_score", {"tp", "tp"}, {"tp", "tp", "fp", "fn"}},
    {"f1",
     {"true_positive", "true_positive"},
     {"true_positive", "true_positive", "false_positive", "false_negative"}},
    {"f1", {"tp", "tp"}, {"tp", "tp", "fp", "fn"}},
    {"false_positive_rate", {"false_positive"}, {"false_positive", "true_negative"}},
    {"false_positive_rate", {"fp"}, {"fp", "tn"}},
    {"false_negative_rate", {"false_negative"}, {"false_negative", "true_positive"}},
    {"false_negative_rate", {"fn"}, {"fn", "tp"}},
    {"fpr", {"false_positive"}, {"false_positive", "true_negative"}},
    {"fpr", {"fp"}, {"fp", "tn"}},
    {"fnr", {"false_negative"}, {"false_negative", "true_positive"}},
    {"fnr", {"fn"}, {"fn", "tp"}},
};

enum metadata_rule metadata_rule_of(struct str key)
{
    char name[64];
    if (key.len >= sizeof(name))
        return RULE_KEEP;
    memcpy(name, key.at, key.len);
    name[key.len] = '\0';
    for (size_t i = 0; i < countof(rules); i++)
        if (strcmp(rules[i].name, name) == 0)
            return rules[i].rule;
    return is_count_name(name) ? RULE_SUM : RULE_KEEP;
}

bool metadata_to_i64(struct str value, int64_t *out)
{
    bool is_negative = value.len > 1 && value.at[0] == '-';
    uint64_t digits;
    if (!value.at ||
        !json_to_u64((struct str){value.at + is_negative, value.len - is_negative}, &digits) ||
        digits > INT64_MAX)
        return false;
    *out = is_negative ? -(int64_t)digits : (int64_t)digits;
    return true;
}

int metadata_sum(const struct level *level, struct str key, const struct str *values,
                 struct buf *out, struct err *err)
{
    int64_t sum = 0, one;
    for (size_t i = 0; i < level->n_parts; i++)
        if (values[i].at && !metadata_to_i64(values[i], &one))
            return 0;
    for (size_t i = 0; i < level->n_parts; i++) {
        if (!values[i].at) {
            level_note(level, "%s has no '%.*s'; the sum is without it", level->parts[i].name,
                       (int)MIN(key.len, (size_t)60), key.at);
            continue;
        }
        (void)metadata_to_i64(values[i], &one);
        if (__builtin_add_overflow(sum, one, &sum))
            return fail(err, ERR_DATA, "%s: the sum of '%.*s' is beyond 64 bits",
                        level->parts[i].name, (int)MIN(key.len, (size_t)60), key.at);
    }
    buf_addf(out, "%ld", sum);
    return 1;
}

/* Adds up some counts of one part; false if the part lacks one of them. */
static bool terms_sum(const struct members *members, const char *const terms[TERMS_MAX],
                      double *out)
{
    *out = 0;
    for (size_t i = 0; i < TERMS_MAX && terms[i]; i++) {
        int64_t count;
        if (!metadata_to_i64(member_get(members, str_of(terms[i])), &count) || count < 0)
            return false;
        *out += (double)count;
    }
    return true;
}

/* The rounding error of a written number: half a unit of its last digit. */
static double half_a_digit(struct str written)
{
    const char *dot = memchr(written.at, '.', written.len);
    bool has_exponent =
        memchr(written.at, 'e', written.len) || memchr(written.at, 'E', written.len);
    size_t n_digits = dot && !has_exponent ? (size_t)(written.at + written.len - dot) - 1 : 15;
    return MAX(0.5 * pow(10, -(double)n_digits), 1e-12);
}

/* ---- the files' own scale ---- */

enum scale {
    SCALE_ANY = 0, /* 0 is the same on both scales */
    SCALE_SHARE = 1 << 0,
    SCALE_PERCENT = 1 << 1,
    SCALE_NONE = 1 << 2, /* above 100 or below 0: neither a share nor a percentage */
};

/* `ratio` is computed from the counts beside the written value, NAN where there are none. */
static enum scale scale_of(struct str written, double ratio)
{
    double own;
    if (!written.at || !json_to_double(written, &own) || own == 0 || ratio == 0)
        return SCALE_ANY;
    if (isfinite(ratio))
        return fabs(own - PERCENT * ratio) < fabs(own - ratio) ? SCALE_PERCENT : SCALE_SHARE;
    return own < 0 || own > PERCENT ? SCALE_NONE : own > 1 ? SCALE_PERCENT : SCALE_SHARE;
}

static double scale_factor(unsigned scales)
{
    return scales == SCALE_PERCENT ? PERCENT : 1;
}

/* The count that is this share of `below`. *is_whole: the share's digits allow a whole number. */
static double share_count(struct str written, double factor, double below, bool *is_whole)
{
    double share = 0;
    (void)json_to_double(written, &share);
    double count = nearbyint(share / factor * below);
    bool is_near = below > 0 && fabs(share - factor * count / below) <= half_a_digit(written);
    *is_whole = *is_whole && (is_near || below == 0);
    return is_near ? count : share / factor * below;
}

/* Sums over the files for one ratio. */
struct tally {
    double above, below;
    bool is_whole;
    unsigned scales; /* enum scale */
};

static bool part_tally(const struct level *level, const struct ratio *ratio,
                       const struct str *values, size_t part, struct tally *tally)
{
    double above = 0, below, own;
    bool has_counts = ratio->above[0] != NULL;
    if (!terms_sum(&level->objects[part], ratio->below, &below))
        return false;
    if (has_counts ? !terms_sum(&level->objects[part], ratio->above, &above)
                   : !values[part].at || !json_to_double(values[part], &own))
        return false;
    if (has_counts && below > 0)
        tally->scales |= scale_of(values[part], above / below);
    else if (!has_counts)
        above = share_count(values[part], scale_factor(tally->scales), below, &tally->is_whole);
    tally->above += above;
    tally->below += below;
    return true;
}

static bool ratio_fits(const struct level *level, const struct ratio *ratio,
                       const struct str *values, unsigned written, struct tally *tally)
{
    *tally = (struct tally){.is_whole = true, .scales = ratio->above[0] ? SCALE_ANY : written};
    for (size_t i = 0; i < level->n_parts; i++)
        if (!part_tally(level, ratio, values, i, tally))
            return false;
    return true;
}

static const char *file_of_scale(const struct level *level, const struct str *values,
                                 enum scale scale)
{
    size_t i = 0;
    while (scale_of(values[i], NAN) != scale)
        i++;
    return level->parts[i].name;
}

/* Have all files the same scale? There is no mean of 1 and 50.0, because 1 may be one percent or a
 * share of all; only counts would tell. */
static bool is_one_scale(const struct level *level, const struct str *values, unsigned written,
                         const char *name)
{
    if (written & SCALE_NONE)
        level_note(level,
                   "'%s' in %s is neither a share nor a percentage; what each file has is listed",
                   name, file_of_scale(level, values, SCALE_NONE));
    else if (written == (SCALE_SHARE | SCALE_PERCENT))
        level_note(
            level,
            "'%s' looks like a share in %s and like a percentage in %s, so there is no mean; "
            "what each file has is listed",
            name, file_of_scale(level, values, SCALE_SHARE),
            file_of_scale(level, values, SCALE_PERCENT));
    else
        return true;
    return false;
}

int metadata_ratio(const struct level *level, struct str key, const struct str *values,
                   struct buf *out, struct err *err)
{
    (void)err;
    struct tally tally;
    unsigned written = SCALE_ANY;
    for (size_t i = 0; i < level->n_parts; i++)
        written |= scale_of(values[i], NAN);
    for (size_t i = 0; i < countof(ratios); i++) {
        const struct ratio *ratio = &ratios[i];
        if (!str_equal(key, str_of(ratio->name)) ||
            !ratio_fits(level, ratio, values, written, &tally))
            continue;
        if (!ratio->above[0] && !is_one_scale(level, values, written, ratio->name))
            return 0;
        if (tally.scales == (SCALE_SHARE | SCALE_PERCENT))
            level_note(level,
                       "'%s' is a share in some files and a percentage in others; from the counts "
                       "it is worked out as a share",
                       ratio->name);
        if (!tally.is_whole)
            level_note(level,
                       "'%s' is no share of whole '%s' in some file; it is their mean, by '%s'",
                       ratio->name, ratio->below[0], ratio->below[0]);
        double factor = scale_factor(tally.scales);
        buf_add_json_double(out, tally.below > 0 ? factor * tally.above / tally.below : 0.0);
        return 1;
    }
    level_note(level, "'%.*s' has no counts to be worked out from; what each file has is listed",
               (int)MIN(key.len, (size_t)60), key.at);
    return 0;
}

int metadata_batch_name(const struct level *level, const struct str *values, struct buf *out)
{
    struct str stem = {NULL, 0};
    for (size_t i = 0; i < level->n_parts; i++) {
        if (!values[i].at || json_kind_of(values[i]) != JSON_STRING)
            return 0;
        struct str here = share_stem((struct str){values[i].at + 1, values[i].len - 2});
        if (stem.at && !str_equal(stem, here))
            return 0;
        stem = here;
    }
    buf_add_char(out, '"');
    merged_name_add(stem, out);
    buf_add_char(out, '"');
    return 1;
}

int metadata_latest(const struct level *level, const struct str *values, struct buf *out)
{
    struct str latest = {NULL, 0};
    for (size_t i = 0; i < level->n_parts; i++) {
        if (!values[i].at)
            continue;
        if (json_kind_of(values[i]) != JSON_STRING)
            return 0;
        if (!latest.at || metadata_text_order(values[i], latest) > 0)
            latest = values[i];
    }
    buf_add_str(out, latest);
    return 1;
}
