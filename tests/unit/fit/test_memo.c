/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "fit/memo.h"

static char folder[] = "/tmp/muster-memo-XXXXXX";

static int folder_make(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    return setenv("MUSTER_CACHE_DIR", folder, 1);
}

static int folder_drop(void **state)
{
    (void)state;
    return remove_tree(folder, NULL);
}

/* Borrows its texts. */
static struct fit_memo memo_of(const char *command, const char *wish, uint64_t batch)
{
    return (struct fit_memo){.of = {.command = (char *)(uintptr_t)command,
                                    .program = (char *)(uintptr_t) "/bin/x 1 2.3",
                                    .device = (char *)(uintptr_t) "H200 \"odd\"\n",
                                    .device_bytes = 141ul << 30},
                             .wish = (char *)(uintptr_t)wish,
                             .when = (char *)(uintptr_t) "2026-01-31T09:08:07.123+01:00",
                             .batch = batch,
                             .peak_bytes = 7,
                             .limit_bytes = 8,
                             .rate = 0.1,
                             .fixed_bytes = -5.5,
                             .item_bytes = 1e9};
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    struct fit_memo own[] = {memo_of("a {batch}", "start=1", 3), memo_of("b", "", UINT32_MAX)};
    struct fit_memos memos = {own, 2}, again;
    cleanup_buf struct buf text = BUF_INIT, second = BUF_INIT;
    fit_memos_format(&memos, &text);
    assert_true(fit_memos_parse(buf_str(&text), &again));
    assert_int_equal(again.len, 2);
    assert_string_equal(again.at[0].of.device, own[0].of.device);
    assert_int_equal(again.at[1].batch, UINT32_MAX);
    assert_true(again.at[0].fixed_bytes < -5.4 && again.at[0].rate > 0.09);
    fit_memos_format(&again, &second);
    assert_string_equal(text.at, second.at);
    fit_memos_release(&again);
    for (size_t cut = 0; cut + 1 < text.len; cut++) { /* a file that was cut off */
        assert_false(fit_memos_parse((struct str){text.at, cut}, &again));
        assert_null(again.at);
    }
}

static void the_newest_is_recalled_and_the_oldest_dropped(void **state)
{
    (void)state;
    struct fit_memo found;
    for (uint64_t i = 1; i <= FIT_MEMOS_MAX + 10; i++) {
        char command[32];
        snprintf(command, sizeof(command), "c%lu", i);
        struct fit_memo memo = memo_of(command, "w", i);
        assert_int_equal(fit_remember(&memo, NULL), 0);
    }
    struct fit_memo old = memo_of("c10", "w", 0), kept = memo_of("c11", "w", 0);
    assert_false(fit_recall(&old.of, NULL, &found));
    assert_true(fit_recall(&kept.of, "w", &found));
    assert_int_equal(found.batch, 11);
    fit_memo_release(&found);
    assert_false(fit_recall(&kept.of, "other", &found));
    struct fit_memo other = memo_of("c11", "other", 99), same = memo_of("c11", "w", 12);
    assert_int_equal(fit_remember(&other, NULL), 0);
    assert_int_equal(fit_remember(&same, NULL), 0);
    assert_true(fit_recall(&kept.of, NULL, &found));
    assert_int_equal(found.batch, 12); /* it took the place of 11, and is newer than 99 */
    fit_memo_release(&found);
    struct fit_memos all;
    fit_memos_read(&all);
    assert_int_equal(all.len, FIT_MEMOS_MAX);
    fit_memos_release(&all);
    size_t n;
    assert_int_equal(fit_forget(&kept.of, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(fit_forget(NULL, &n, NULL), 0);
    assert_int_equal(n, FIT_MEMOS_MAX - 2);
}

static void the_file_stays_so_small_that_it_is_read_again(void **state)
{
    (void)state;
    cleanup_free char *path = path_join(folder, "fit.json");
    cleanup_free char *word = xmalloc(FIT_TEXT_BYTES_MAX + 2);
    struct stat st;
    struct fit_memos all;
    memset(word, '"', FIT_TEXT_BYTES_MAX + 1); /* two bytes each in JSON */
    word[FIT_TEXT_BYTES_MAX + 1] = '\0';
    struct fit_memo memo = memo_of(word, "w", 1);
    assert_int_equal(fit_remember(&memo, NULL), ERR_USAGE);
    word[FIT_TEXT_BYTES_MAX] = '\0';
    struct fit_memo many[62]; /* 63 have room */
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < countof(many); i++)
        many[i] = memo_of(word, "other", i + 1);
    fit_memos_format(&(struct fit_memos){many, countof(many)}, &text);
    assert_int_equal(file_replace(path, buf_str(&text), NULL), 0);
    for (int i = 0; i < 4; i++) {
        word[i] = 'x';
        assert_int_equal(fit_remember(&memo, NULL), 0);
    }
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size <= FIT_MEMO_BYTES_MAX);
    fit_memos_read(&all);
    assert_true(all.len > 60 && all.len < countof(many) + 4);
    assert_string_equal(all.at[all.len - 1].of.command, word);
    fit_memos_release(&all);
}

static void a_signature_is_of_the_words_and_the_files_of_the_program(void **state)
{
    (void)state;
    struct fit_signature a, b;
    struct environment_wish none = {0}, setup = {.setup = ". env.sh"};
    cleanup_free char *script = path_join(folder, "script.py");
    const char *const command[] = {"sh", "-u", script, "{batch}", "a b", NULL};
    assert_int_equal(file_replace(script, STR("1"), NULL), 0);
    fit_signature_make(&a, command, &none, "H200", 5);
    assert_non_null(strstr(a.command, " '{batch}' 'a b'"));
    assert_non_null(strstr(a.program, "script.py 1 "));
    assert_int_equal(file_replace(script, STR("22"), NULL), 0);
    fit_signature_make(&b, command, &setup, "H200", 5);
    assert_string_not_equal(a.program, b.program);
    assert_true(strncmp(b.command, ". env.sh; sh ", 13) == 0);
    fit_signature_release(&a);
    fit_signature_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(the_newest_is_recalled_and_the_oldest_dropped),
        cmocka_unit_test(the_file_stays_so_small_that_it_is_read_again),
        cmocka_unit_test(a_signature_is_of_the_words_and_the_files_of_the_program),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
