/* SPDX-License-Identifier: Apache-2.0
 *
 * What another host prints for `muster gpus --json` and `muster doctor --json --traits`: the lines after the first
 * byte, taken as either. What is understood is printed without a control character, as a table and as objects that
 * read back as the same.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "cli/doctor_print.h"
#include "cli/gpus_rows.h"
#include "doctor/compare.h"
#include "doctor/report.h"
#include "fuzz.h"

static void check_printable(const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->at[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            BUG("byte %u at %zu of %s", c, i, text->at);
    }
    ASSERT(utf8_is_valid(buf_str(text)));
}

static void check_gpus(struct str text)
{
    struct gpus_rows rows = {0}, again = {0};
    cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT, table = BUF_INIT;
    if (gpus_rows_parse(&rows, "host", text, NULL) == 0) {
        ASSERT(rows.len <= DEVICES_MAX);
        gpus_rows_json(&rows, &first);
        gpus_rows_table(&rows, &table);
        check_printable(&first);
        check_printable(&table);
        if (gpus_rows_parse(&again, "host", buf_str(&first), NULL) != 0 || again.len != rows.len)
            BUG("%s", buf_text(&first));
        gpus_rows_json(&again, &second);
        if (!str_equal(buf_str(&first), buf_str(&second)))
            BUG("%s\nreads back as\n%s", buf_text(&first), buf_text(&second));
    } else {
        ASSERT(rows.len == 0);
    }
    gpus_rows_release(&rows);
    gpus_rows_release(&again);
}

/* This host beside one that is well known. */
static void check_compared(const struct report *report, struct buf *out)
{
    struct compared_host hosts[2] = {{.name = "host", .traits = report->traits}, {.name = "other"}};
    struct findings findings = {0};
    for (int trait = 0; trait < TRAITS_COUNT; trait++)
        hosts[1].traits.at[trait] = xstrdup("17");
    hosts_compare(hosts, countof(hosts), &findings);
    for (size_t i = 0; i < findings.len; i++)
        finding_add(out, &findings.at[i], false);
    findings_summary_add(out, &findings, false);
    findings_release(&findings);
    traits_release(&hosts[1].traits);
}

static void check_doctor(struct str text)
{
    struct report report = {0};
    cleanup_buf struct buf out = BUF_INIT;
    bool is_whole = report_parse(text, &report, NULL) == 0;
    ASSERT(is_whole == report.is_whole);
    for (size_t i = 0; i < report.findings.len; i++) {
        finding_add(&out, &report.findings.at[i], false);
        finding_object_add(&out, &report.findings.at[i], "host");
    }
    findings_summary_add(&out, &report.findings, false);
    traits_add(&out, &report.traits);
    traits_objects_add(&out, &report.traits, "host");
    check_compared(&report, &out);
    check_printable(&out);
    report_release(&report);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str text = {(const char *)data + 1, size - 1};
    if (data[0] % 2 == 0)
        check_gpus(text);
    else
        check_doctor(text);
    return 0;
}
