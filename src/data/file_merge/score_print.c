/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes figures from counts, and writes them as text.
 */
#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "data/csv.h"
#include "data/file_merge/score_impl.h"
#include "data/result_merge.h"

enum {
    ALL_GROUPS = SCORE_NAMES_MAX,
    NAME_MIN_WIDTH = 20,
    NAME_MAX_WIDTH = 40,
    GAP = 2, /* between columns */
};

/* The counts of one label against all others. */
struct figures {
    uint64_t tp, fp, fn, tn;
};

/* The figures of one group, or of all records. */
struct outline {
    uint64_t n_records, n_right;
    struct figures *labels; /* indexed by label number */
    double precision, recall, f1;
};

static bool is_label(const struct score *score, uint32_t label)
{
    return score->is_true[label] > 0;
}

/* above / below; undefined if below is 0. */
struct rate {
    bool is_there;
    double value;
};

static struct rate rate_of(uint64_t above, uint64_t below)
{
    return (struct rate){below > 0, below > 0 ? (double)above / (double)below : 0};
}

static struct rate precision_of(const struct figures *f)
{
    return rate_of(f->tp, f->tp + f->fp);
}

static struct rate recall_of(const struct figures *f)
{
    return rate_of(f->tp, f->tp + f->fn);
}

static struct rate f1_of(const struct figures *f)
{
    return rate_of(2 * f->tp, 2 * f->tp + f->fp + f->fn);
}

static struct rate fpr_of(const struct figures *f)
{
    return rate_of(f->fp, f->fp + f->tn);
}

static struct rate fnr_of(const struct figures *f)
{
    return rate_of(f->fn, f->fn + f->tp);
}

/*
 * The means over the labels that the group has; a label that was never predicted counts with
 * precision 0.
 */
static void means_find(const struct score *score, struct outline *outline)
{
    double n_labels = 0;
    for (uint32_t i = 0; i < score->labels.len; i++) {
        const struct figures *f = &outline->labels[i];
        if (!is_label(score, i) || f->tp + f->fn == 0)
            continue;
        n_labels++;
        outline->precision += precision_of(f).value;
        outline->recall += recall_of(f).value;
        outline->f1 += f1_of(f).value;
    }
    outline->precision /= MAX(n_labels, 1);
    outline->recall /= MAX(n_labels, 1);
    outline->f1 /= MAX(n_labels, 1);
}

/* The counts, sorted by group. */
struct sheet {
    const struct score *score;
    struct score_cell *cells; /* those of group g are from begins[g] to begins[g + 1] */
    size_t *begins;
};

static struct sheet sheet_new(const struct score *score)
{
    size_t n_groups = MAX(score->groups.len, (size_t)1);
    struct sheet sheet = {.score = score,
                          .cells = xcalloc(score->n_cells, sizeof(*sheet.cells)),
                          .begins = xcalloc(n_groups + 1, sizeof(*sheet.begins))};
    for (size_t i = 0; i < score->n_slots; i++)
        if (score->cells[i].count > 0)
            sheet.begins[score->cells[i].group + 1]++;
    for (size_t group = 0; group < n_groups; group++)
        sheet.begins[group + 1] += sheet.begins[group];
    /* Each cell is put at the end of its group's free range, whose end moves down to its begin. */
    for (size_t i = 0; i < score->n_slots; i++)
        if (score->cells[i].count > 0)
            sheet.cells[--sheet.begins[score->cells[i].group + 1]] = score->cells[i];
    memmove(sheet.begins, sheet.begins + 1, n_groups * sizeof(*sheet.begins));
    sheet.begins[n_groups] = score->n_cells;
    return sheet;
}

static void sheet_release(struct sheet *sheet)
{
    free(sheet->cells);
    free(sheet->begins);
}

static struct outline outline_new(const struct sheet *sheet, uint32_t group)
{
    const struct score *score = sheet->score;
    struct outline outline = {.labels = xcalloc(score->labels.len, sizeof(*outline.labels))};
    size_t begin = group == ALL_GROUPS ? 0 : sheet->begins[group];
    size_t end = group == ALL_GROUPS ? score->n_cells : sheet->begins[group + 1];
    for (const struct score_cell *cell = sheet->cells + begin; cell < sheet->cells + end; cell++) {
        outline.n_records += cell->count;
        if (cell->is == cell->said) {
            outline.n_right += cell->count;
            outline.labels[cell->is].tp += cell->count;
        } else {
            outline.labels[cell->is].fn += cell->count;
            outline.labels[cell->said].fp += cell->count;
        }
    }
    for (size_t i = 0; i < score->labels.len; i++) {
        struct figures *f = &outline.labels[i];
        f->tn = outline.n_records - f->tp - f->fp - f->fn;
    }
    means_find(score, &outline);
    return outline;
}

static bool is_shown(const struct score *score, uint32_t label)
{
    return is_label(score, label) &&
           (!score->opts.positive ||
            str_equal(name_index_get(&score->labels, label), str_of(score->opts.positive)));
}

/* ---- for people ---- */

/* Bytes of the control character at the beginning of text, 0 if there is none. */
static size_t control_len(struct str text)
{
    unsigned char first = (unsigned char)text.at[0];
    bool is_c1 = first == 0xc2 && text.len > 1 && ((unsigned char)text.at[1] & 0xe0) == 0x80;
    return first < 0x20 || first == 0x7f ? 1 : is_c1 ? 2 : 0;
}

/*
 * Adds a word of the data, with a blank for each control character. A long word is cut in its
 * middle, because labels may differ only at their ends.
 */
static void word_add(struct buf *out, struct str word)
{
    cleanup_buf struct buf shown = BUF_INIT;
    for (size_t i = 0; i < word.len;) {
        size_t n_control = control_len((struct str){word.at + i, word.len - i});
        buf_add_char(&shown, n_control > 0 ? ' ' : word.at[i]);
        i += MAX(n_control, (size_t)1);
    }
    console_middle_add(out, buf_str(&shown), NAME_MAX_WIDTH);
}

/* Adds a cell of the table. */
static void name_add(struct buf *out, struct str name, size_t width)
{
    cleanup_buf struct buf shown = BUF_INIT;
    word_add(&shown, name.len > 0 ? name : STR("(empty)"));
    console_padded_add(out, buf_str(&shown), width);
}

static void rate_add(struct buf *out, struct rate rate)
{
    if (rate.is_there)
        buf_addf(out, "  %9.4f", rate.value);
    else
        buf_addf(out, "  %9s", "-");
}

static void label_row(struct buf *out, const struct figures *f)
{
    char count[32];
    count_format(count, f->tp + f->fn);
    buf_addf(out, "  %11s", count);
    rate_add(out, precision_of(f));
    rate_add(out, recall_of(f));
    rate_add(out, f1_of(f));
    rate_add(out, fpr_of(f));
    rate_add(out, fnr_of(f));
    buf_add_char(out, '\n');
}

/*
 * Prints the means of a group, or of all records; they are undefined for a group without records.
 */
static void mean_row(struct buf *out, const struct outline *outline)
{
    struct rate accuracy = rate_of(outline->n_right, outline->n_records);
    char count[32];
    count_format(count, outline->n_records);
    buf_addf(out, "  %11s", count);
    rate_add(out, (struct rate){accuracy.is_there, outline->precision});
    rate_add(out, (struct rate){accuracy.is_there, outline->recall});
    rate_add(out, (struct rate){accuracy.is_there, outline->f1});
    if (accuracy.is_there)
        buf_addf(out, "  accuracy %.4f\n", accuracy.value);
    else
        buf_add_text(out, "  accuracy -\n");
}

/* Widths of the columns with names: that of the longest name, within limits. */
struct widths {
    size_t group, label;
};

static size_t wider(size_t width, struct str name)
{
    return MAX(width, MIN(console_text_width(name), (size_t)NAME_MAX_WIDTH));
}

static struct widths widths_of(const struct score *score)
{
    struct widths widths = {NAME_MIN_WIDTH - GAP, NAME_MIN_WIDTH};
    if (score->opts.by_field)
        widths.group = wider(widths.group, str_of(score->opts.by_field));
    for (uint32_t i = 0; i < score->groups.len; i++)
        widths.group = wider(widths.group, name_index_get(&score->groups, i));
    for (uint32_t i = 0; i < score->labels.len; i++)
        if (is_shown(score, i))
            widths.label = wider(widths.label, name_index_get(&score->labels, i));
    widths.group += GAP;
    return widths;
}

static void outline_rows(const struct sheet *sheet, uint32_t group, const struct widths *widths,
                         struct buf *out)
{
    const struct score *score = sheet->score;
    struct outline outline = outline_new(sheet, group);
    struct str name = group == ALL_GROUPS ? STR("all") : name_index_get(&score->groups, group);
    for (uint32_t i = 0; i < score->labels.len; i++) {
        if (!is_shown(score, i))
            continue;
        if (score->opts.by_field)
            name_add(out, name, widths->group);
        name_add(out, name_index_get(&score->labels, i), widths->label);
        label_row(out, &outline.labels[i]);
    }
    if (score->opts.by_field)
        name_add(out, name, widths->group);
    name_add(out, score->opts.positive ? STR("mean of all labels") : STR("mean of the labels"),
             widths->label);
    mean_row(out, &outline);
    free(outline.labels);
}

static int by_name(const void *a, const void *b, void *context)
{
    const struct name_index *names = context;
    return str_compare(name_index_get(names, *(const uint32_t *)a),
                       name_index_get(names, *(const uint32_t *)b));
}

/* The numbers of the names, sorted by name; the caller frees them. */
static uint32_t *names_sorted(const struct name_index *names)
{
    uint32_t *order = xcalloc(MAX(names->len, (size_t)1), sizeof(*order));
    for (uint32_t i = 0; i < names->len; i++)
        order[i] = i;
    qsort_r(order, names->len, sizeof(*order), by_name, (void *)(uintptr_t)names);
    return order;
}

static void errors_add(const struct sheet *sheet, struct buf *out)
{
    const struct score *score = sheet->score;
    struct outline all = outline_new(sheet, ALL_GROUPS);
    uint64_t n_errors = 0;
    size_t n_kinds = 0;
    cleanup_buf struct buf kinds = BUF_INIT;
    for (uint32_t i = 0; i < score->labels.len; i++) {
        if (is_label(score, i) || all.labels[i].fp == 0)
            continue;
        struct str name = name_index_get(&score->labels, i);
        n_errors += all.labels[i].fp;
        if (++n_kinds > 5)
            continue;
        buf_add_text(&kinds, n_kinds > 1 ? ", '" : "'");
        word_add(&kinds, name);
        buf_addf(&kinds, "' (%lu)", all.labels[i].fp);
    }
    if (n_errors > 0)
        buf_addf(
            out,
            "predictions that are no true label of any record count as wrong, %lu in all: %s%s\n",
            n_errors, buf_text(&kinds), n_kinds > 5 ? " ..." : "");
    if (score->n_unlabelled > 0)
        buf_addf(out, "%lu record%s without a true label %s left out\n", score->n_unlabelled,
                 plural(score->n_unlabelled), score->n_unlabelled == 1 ? "is" : "are");
    for (size_t i = 0; score->n_ignored > 0 && i < score->opts.ignored.len; i++)
        buf_addf(out, "%s'%s'",
                 i > 0 ? ", " : "records left out by --ignore: ", score->opts.ignored.at[i]);
    if (score->n_ignored > 0)
        buf_addf(out, ": %lu\n", score->n_ignored);
    free(all.labels);
}

void score_print(const struct score *score, struct buf *out)
{
    struct sheet sheet = sheet_new(score);
    struct widths widths = widths_of(score);
    if (score->opts.by_field)
        name_add(out, str_of(score->opts.by_field), widths.group);
    name_add(out, STR("LABEL"), widths.label);
    buf_addf(out, "  %11s  %9s  %9s  %9s  %9s  %9s\n", "RECORDS", "PRECISION", "RECALL", "F1",
             "FPR", "FNR");
    outline_rows(&sheet, ALL_GROUPS, &widths, out);
    cleanup_free uint32_t *groups = names_sorted(&score->groups);
    for (size_t i = 0; i < score->groups.len; i++)
        outline_rows(&sheet, groups[i], &widths, out);
    errors_add(&sheet, out);
    sheet_release(&sheet);
}

/* ---- for spreadsheets ---- */

static void rate_cell(struct buf *out, char separator, struct rate rate)
{
    buf_add_char(out, separator);
    if (rate.is_there)
        buf_add_json_double(out, rate.value);
}

static void group_cells(const struct score *score, uint32_t group, struct str label, char separator,
                        struct buf *out)
{
    if (group != ALL_GROUPS)
        csv_add_field(out, name_index_get(&score->groups, group), separator);
    buf_add_char(out, separator);
    csv_add_field(out, label, separator);
}

static void label_cells(const struct figures *f, char separator, struct buf *out)
{
    const uint64_t counts[] = {f->tp + f->fn, f->tp, f->tp, f->tn, f->fp, f->fn};
    const struct rate rates[] = {precision_of(f), recall_of(f), f1_of(f), fpr_of(f), fnr_of(f)};
    for (size_t i = 0; i < countof(counts); i++) {
        buf_addf(out, "%c%lu", separator, counts[i]);
        if (i == 1) /* accuracy is that of all labels together */
            buf_add_char(out, separator);
    }
    for (size_t i = 0; i < countof(rates); i++)
        rate_cell(out, separator, rates[i]);
    buf_add_char(out, '\n');
}

static void mean_cells(const struct outline *outline, char separator, struct buf *out)
{
    bool is_there = outline->n_records > 0;
    const struct rate rates[] = {
        {is_there, outline->precision}, {is_there, outline->recall}, {is_there, outline->f1}};
    buf_addf(out, "%c%lu%c%lu", separator, outline->n_records, separator, outline->n_right);
    rate_cell(out, separator, rate_of(outline->n_right, outline->n_records));
    for (int i = 0; i < 4; i++) /* true_positive to false_negative */
        buf_add_char(out, separator);
    for (size_t i = 0; i < countof(rates); i++)
        rate_cell(out, separator, rates[i]);
    buf_addf(out, "%c%c\n", separator, separator);
}

static void outline_cells(const struct sheet *sheet, uint32_t group, char separator,
                          struct buf *out)
{
    const struct score *score = sheet->score;
    struct outline outline = outline_new(sheet, group);
    group_cells(score, group, STR(""), separator, out);
    mean_cells(&outline, separator, out);
    for (uint32_t i = 0; i < score->labels.len; i++) {
        if (!is_shown(score, i))
            continue;
        group_cells(score, group, name_index_get(&score->labels, i), separator, out);
        label_cells(&outline.labels[i], separator, out);
    }
    free(outline.labels);
}

static void score_table(const struct score *score, char separator, struct buf *out)
{
    static const char *const columns[] = {
        "group",
        "label",
        "records",
        "correct",
        "accuracy",
        "true_positive",
        "true_negative",
        "false_positive",
        "false_negative",
        "precision",
        "recall",
        "f1_score",
        "false_positive_rate",
        "false_negative_rate",
    };
    struct sheet sheet = sheet_new(score);
    for (size_t i = 0; i < countof(columns); i++)
        buf_addf(out, "%s%c", columns[i], i + 1 < countof(columns) ? separator : '\n');
    outline_cells(&sheet, ALL_GROUPS, separator, out);
    cleanup_free uint32_t *groups = names_sorted(&score->groups);
    for (size_t i = 0; i < score->groups.len; i++)
        outline_cells(&sheet, groups[i], separator, out);
    sheet_release(&sheet);
}

/* ---- for programs ---- */

static void rate_json(struct buf *out, const char *name, struct rate rate)
{
    buf_addf(out, ",\"%s\":", name);
    if (rate.is_there)
        buf_add_json_double(out, rate.value);
    else
        buf_add_text(out, "null");
}

static void group_json(const struct score *score, uint32_t group, struct buf *out)
{
    buf_add_text(out, "{\"group\":");
    if (group == ALL_GROUPS)
        buf_add_text(out, "null");
    else
        buf_add_json(out, name_index_get(&score->groups, group));
}

static void labels_json(const struct score *score, uint32_t group, const struct outline *outline,
                        struct buf *out)
{
    for (uint32_t i = 0; i < score->labels.len; i++) {
        const struct figures *f = &outline->labels[i];
        if (!is_shown(score, i))
            continue;
        group_json(score, group, out);
        buf_add_text(out, ",\"label\":");
        buf_add_json(out, name_index_get(&score->labels, i));
        buf_addf(out,
                 ",\"true_positive\":%lu,\"false_positive\":%lu,\"false_negative\":%lu,"
                 "\"true_negative\":%lu",
                 f->tp, f->fp, f->fn, f->tn);
        rate_json(out, "precision", precision_of(f));
        rate_json(out, "recall", recall_of(f));
        rate_json(out, "f1_score", f1_of(f));
        rate_json(out, "false_positive_rate", fpr_of(f));
        rate_json(out, "false_negative_rate", fnr_of(f));
        buf_add_text(out, "}\n");
    }
}

static void outline_json(const struct sheet *sheet, uint32_t group, struct buf *out)
{
    const struct score *score = sheet->score;
    struct outline outline = outline_new(sheet, group);
    bool is_first = true;
    group_json(score, group, out);
    buf_addf(out, ",\"records\":%lu,\"correct\":%lu", outline.n_records, outline.n_right);
    rate_json(out, "accuracy", rate_of(outline.n_right, outline.n_records));
    rate_json(out, "macro_precision", (struct rate){outline.n_records > 0, outline.precision});
    rate_json(out, "macro_recall", (struct rate){outline.n_records > 0, outline.recall});
    rate_json(out, "macro_f1", (struct rate){outline.n_records > 0, outline.f1});
    buf_add_text(out, ",\"errors\":{");
    for (uint32_t i = 0; i < score->labels.len; i++) {
        if (is_label(score, i) || outline.labels[i].fp == 0)
            continue;
        buf_add_text(out, is_first ? "" : ",");
        buf_add_json(out, name_index_get(&score->labels, i));
        buf_addf(out, ":%lu", outline.labels[i].fp);
        is_first = false;
    }
    buf_add_char(out, '}');
    if (group == ALL_GROUPS)
        buf_addf(out, ",\"unlabelled\":%lu,\"ignored\":%lu", score->n_unlabelled, score->n_ignored);
    buf_add_text(out, "}\n");
    labels_json(score, group, &outline, out);
    free(outline.labels);
}

void score_print_json(const struct score *score, struct buf *out)
{
    struct sheet sheet = sheet_new(score);
    outline_json(&sheet, ALL_GROUPS, out);
    cleanup_free uint32_t *groups = names_sorted(&score->groups);
    for (size_t i = 0; i < score->groups.len; i++)
        outline_json(&sheet, groups[i], out);
    sheet_release(&sheet);
}

static void score_array(const struct score *score, struct buf *out)
{
    cleanup_buf struct buf lines = BUF_INIT;
    score_print_json(score, &lines);
    struct str rest = buf_str(&lines), line;
    for (bool is_first = true; rest.len > 0 && str_next(&rest, '\n', &line); is_first = false) {
        buf_add_text(out, is_first ? "[\n" : ",\n");
        buf_add_str(out, line);
    }
    buf_add_text(out, "\n]\n");
}

int score_write(const struct score *score, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    const char *path = score->opts.out_path;
    if (!path)
        return 0;
    enum out_format format = out_format_of_path(path);
    if (format == OUT_CSV || format == OUT_TSV)
        score_table(score, format == OUT_CSV ? ',' : '\t', &out);
    else if (format == OUT_JSON)
        score_array(score, &out);
    else
        score_print_json(score, &out);
    return outfile_put(path, buf_str(&out), err);
}
