/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of experiments that are no text, or small and would become large.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "unit/graph/refused.h"

static void bytes_that_are_no_text_are_refused(void **state)
{
    (void)state;
    check_refused(STR(""), NULL, "f: nothing stands in it");
    check_refused(STR("# no more"), NULL, "f: nothing stands in it");
    check_refused(STR("a: b\nc: \0"), NULL,
                  "f:2: there is a control character (0x00), so this is no YAML text");
    check_refused(STR("a: b\n\x7f"
                      "ELF"),
                  NULL, "f:2: there is a control character (0x7f), so this is no YAML text");
    check_refused(STR("a: b\nc: d\ne: \xe9\nf: g"), NULL,
                  "f:3: this is not UTF-8; convert the file, as with iconv");
}

/* References go through all variables but the last. */
static void long_chains_of_references_are_refused(void **state)
{
    (void)state;
    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "jobs: {a: {run: x}}\nvars:\n");
    for (int i = 0; i < 100; i++)
        buf_addf(&text, "  v%d: '{v%d}'\n", i, i + 1);
    buf_add_text(&text, "  v100: 1\n");
    check_refused(buf_str(&text), NULL, "f:67:8: variables refer to each other more than 64 deep");
}

static void overrides_of_what_is_deep_are_refused(void **state)
{
    (void)state;
    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "jobs.j.gpus");
    for (int i = 0; i < 60000; i++)
        buf_add_text(&text, ".a");
    buf_add_text(&text, "=1");
    const char *const words[] = {buf_text(&text), NULL};
    const struct graph_file_opts opts = {words, 1};
    cleanup_free char *sentence =
        xasprintf("'%.100s' is no override: it names what is 60002 deep", words[0]);
    check_refused(STR("jobs: {j: {run: x}}\n"), &opts, sentence);
}

static void texts_with_many_values_are_refused(void **state)
{
    (void)state;
    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "vars: {v: [0123456789abcdef, 1]}\njobs: {a: {for: v, run: '");
    for (int i = 0; i < 10000; i++)
        buf_add_text(&text, "{v}");
    buf_add_text(&text, "'}}\n");
    check_refused(buf_str(&text), NULL,
                  "f:2:25: the text is longer than 128 KiB; put it into a file");
}

/* Short in the file: a variable of 100 KiB, named two hundred times. */
static void stages_with_too_much_text_are_refused(void **state)
{
    (void)state;
    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "vars: {v: ");
    for (int i = 0; i < 10 * 1024; i++)
        buf_add_text(&text, "0123456789");
    buf_add_text(&text, "}\njobs: {a: {run: [x");
    for (int i = 0; i < 200; i++)
        buf_add_text(&text, ",'{v}'");
    buf_add_text(&text, "]}}\n");
    check_refused(buf_str(&text), NULL,
                  "f:2:998: the texts of one stage have more than 16 MiB; put them into a file");
    buf_reset(&text);
    buf_add_text(&text, "jobs: {a: {run: '");
    for (int i = 0; i < 600000; i++)
        buf_add_text(&text, "x ");
    buf_add_text(&text, "'}}");
    check_refused(buf_str(&text), NULL,
                  "f:1:17: the command is longer than 1024 KiB; put it into a file");
}

/* Each is twice as long as the one before. */
static void texts_that_grow_without_end_are_refused(void **state)
{
    (void)state;
    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "jobs: {a: {run: x}}\nvars:\n  v0: 0123456789abcdef\n");
    for (int i = 0; i < 40; i++)
        buf_addf(&text, "  v%d: '{v%d}{v%d}'\n", i + 1, i, i);
    check_refused(buf_str(&text), NULL,
                  "f:17:8: the text is longer than 128 KiB; put it into a file");
}

static void needs_that_are_too_many_are_refused(void **state)
{
    (void)state;
    check_refused(STR("vars: {i: 1..500}\n"
                      "jobs: {a: {for: i, run: x}, b: {for: i, run: x, after: {a: {i: \"*\"}}}}"),
                  NULL,
                  "f:2:57: the jobs have more than 16000 needs; let one job stand for many, by a "
                  "stage between them");
}

static void what_is_no_file_is_refused_at_once(void **state)
{
    (void)state;
    char folder[] = "/tmp/muster-graph-XXXXXX";
    assert_non_null(mkdtemp(folder));
    static const struct {
        const char *name, *sentence;
    } rows[] = {
        {"", "/: expected a file, found a folder; write the graph into a file"},
        {"pipe", "/pipe: expected a file, found a pipe or device; write the graph into a file"},
        {"missing", "/missing: No such file or directory"},
        {"large", "/large is larger than 67108864 bytes"},
    };
    cleanup_free char *pipe = path_join(folder, "pipe"), *large = path_join(folder, "large");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    cleanup_fd int fd = open(large, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, GRAPH_FILE_BYTES_MAX + 1), 0);
    for (size_t i = 0; i < countof(rows); i++) {
        struct plan plan;
        struct err err = {0};
        cleanup_buf struct buf path = BUF_INIT;
        buf_addf(&path, "%s/%s", folder, rows[i].name);
        assert_int_equal(graph_file_read(buf_text(&path), NULL, &plan, &err), ERR_USAGE);
        plan_release(&plan);
        if (!strstr(err.text, rows[i].sentence))
            fail_msg("%s", err.text);
    }
    assert_int_equal(remove_tree(folder, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_no_text_are_refused),
        cmocka_unit_test(long_chains_of_references_are_refused),
        cmocka_unit_test(overrides_of_what_is_deep_are_refused),
        cmocka_unit_test(texts_with_many_values_are_refused),
        cmocka_unit_test(stages_with_too_much_text_are_refused),
        cmocka_unit_test(texts_that_grow_without_end_are_refused),
        cmocka_unit_test(needs_that_are_too_many_are_refused),
        cmocka_unit_test(what_is_no_file_is_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
