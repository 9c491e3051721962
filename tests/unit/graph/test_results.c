/* SPDX-License-Identifier: Apache-2.0 */
#include "../test.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "list_helpers.h"

/* The list of these words; wish_close() it after the list. */
static void list_open(struct graph_list *list, struct wish_of_case *wish,
                      const struct list_case *row)
{
    struct err err;
    wish_open(wish, row);
    if (graph_list_open(list, &wish->wish, &err) != 0)
        fail_msg("%s: %s", row->words, err.text);
}

static void folders_are_those_of_sources_and_arguments(void **state)
{
    static const struct {
        struct list_case list;
        const char *dirs[8];
    } rows[] = {
        {{"e ::: a b/c ::: 1 2"}, {"/1/a/2/1", "/1/a/2/2", "/1/b\\_c/2/1", "/1/b\\_c/2/2"}},
        {{"e ::: 'x y' a+b 'a\\b' 'a\tb'"}, {"/1/x y", "/1/a+b", "/1/a\\\\b", "/1/a\\tb"}},
        {{"e ::: '' . .. ... '\\e' .a"},
         {"/1/\\e", "/1/\\.", "/1/\\..", "/1/...", "/1/\\\\e", "/1/.a"}},
        {{"e ::: ../../x /etc/passwd"}, {"/1/..\\_..\\_x", "/1/\\_etc\\_passwd"}},
        {{"e {b} {a} ::: b=1,2 a=x"}, {"/a/x/b/1", "/a/x/b/2"}},
        {{"e {b} ::: 7 ::: b=1 ::: 8"}, {"/b/1/1/7/3/8"}},
        {{"e ::: B 1 ::: A x", .has_header = true}, {"/A/x/B/1"}},
        {{"e ::: 10 a ::: 9z b ::: 9b c", .has_header = true}, {"/9b/c/9z/b/10/a"}},
        {{"e ::: .. a", .has_header = true}, {"/\\../a"}},
        {{"", "echo a/b\n"}, {"/1/echo a\\_b"}},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct graph_list list;
        struct wish_of_case wish;
        list_open(&list, &wish, &rows[i].list);
        for (size_t job = 0; job < list.n_jobs; job++) {
            cleanup_free char *found = results_dir_new(&list, "/r", job);
            cleanup_free char *expected = xasprintf("/r%s", rows[i].dirs[job]);
            assert_string_equal(found, expected);
        }
        assert_null(rows[i].dirs[list.n_jobs]);
        assert_int_equal(results_check(&list, NULL), 0);
        graph_list_release(&list);
        wish_close(&wish);
    }
}

static void long_arguments_are_cut_and_stay_different(void **state)
{
    cleanup_free char *words = xasprintf("e ::: %0255d %0300d %0301d", 0, 1, 1);
    struct graph_list list;
    struct wish_of_case wish;
    (void)state;
    list_open(&list, &wish, &(struct list_case){.words = words});
    for (size_t job = 0; job < 3; job++) {
        cleanup_free char *dir = results_dir_new(&list, "r", job);
        assert_int_equal(strlen(path_basename(dir)), 255);
        assert_int_equal(strstr(dir, "\\~") != NULL, job > 0);
    }
    assert_int_equal(results_check(&list, NULL), 0);
    graph_list_release(&list);
    wish_close(&wish);
}

static void jobs_with_the_same_arguments_have_no_folder_each(void **state)
{
    struct graph_list list;
    struct wish_of_case wish;
    struct err err;
    (void)state;
    list_open(&list, &wish, &(struct list_case){.words = "e ::: a b ::: 1 1"});
    assert_int_equal(results_check(&list, &err), ERR_USAGE);
    assert_string_equal(err.text, "jobs 1 and 2 have the same arguments, so their results would be "
                                  "in one folder; leave one of them out");
    graph_list_release(&list);
    wish_close(&wish);
}

static void a_folder_is_made_with_the_number_of_its_job(void **state)
{
    char root[] = "/tmp/test_results.XXXXXX";
    cleanup_buf struct buf seq = BUF_INIT;
    (void)state;
    assert_non_null(mkdtemp(root));
    cleanup_free char *dir = path_join(root, "1/a/2/b"), *path = path_join(dir, "seq");
    assert_int_equal(results_dir_make(dir, 41, NULL), 0);
    assert_int_equal(results_dir_make(dir, 41, NULL), 0); /* as a second attempt does */
    assert_int_equal(file_read(path, 100, &seq, NULL), 0);
    assert_string_equal(buf_text(&seq), "42");
    assert_int_equal(remove_tree(root, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_those_of_sources_and_arguments),
        cmocka_unit_test(long_arguments_are_cut_and_stay_different),
        cmocka_unit_test(jobs_with_the_same_arguments_have_no_folder_each),
        cmocka_unit_test(a_folder_is_made_with_the_number_of_its_job),
    };
    return cmocka_run_group_tests_name("graph results", tests, NULL, NULL);
}
