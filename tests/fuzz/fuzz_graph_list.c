/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines with sources of arguments (src/graph/list/list.h). The first byte has the options; lines up to an empty one
 * are the words, and what follows is the standard input, which is what each :::: names. What is refused has a sentence.
 * What is accepted is as many jobs as the sources say, with names of their own and words that the run can fill in. Folders
 * of their results are below the root, and each is another.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/env_list.h"
#include "base/fs.h"
#include "base/name_index.h"
#include "base/xalloc.h"
#include "fuzz.h"
#include "graph/graph_impl.h"
#include "graph/list/list.h"

enum {
    HAS_HEADER = 1,
    IS_SHELL = 2,
    HAS_COMMAS = 4,
    JOBS_MAX = 500,
    WORDS_MAX = 200
};

static bool is_file_mark(struct str word)
{
    return str_equal(word, STR("::::")) || str_equal(word, STR("::::+"));
}

static bool is_mark(struct str word)
{
    return is_file_mark(word) || str_equal(word, STR(":::")) || str_equal(word, STR(":::+"));
}

/* Words that would be names of files are left out. */
static void words_take(struct str *text, struct env_list *words)
{
    bool names_files = false;
    struct str word;
    while (words->len < WORDS_MAX && text->len > 0 && str_next(text, '\n', &word) && word.len > 0) {
        if (memchr(word.at, 0, word.len))
            continue;
        if (is_mark(word) || !names_files)
            env_list_add(words, xstrndup(word.at, word.len));
        names_files = is_mark(word) ? is_file_mark(word) : names_files;
        if (is_file_mark(word))
            env_list_add(words, xstrdup("-"));
    }
    env_end(words);
}

static int input_open(struct str text)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    ASSERT(fd >= 0 && write_all(fd, text.at, text.len, NULL) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void check_word(const char *word)
{
    static const struct fill fills[] = {
        {"batch", "1"},  {"seed", "2"},     {"attempt", "3"}, {"slot", "4"},    {"gpu", "5"},
        {"gpus", "5,6"}, {"gpu_uuid", "U"}, {"job", "job/1"}, {"run_dir", "/"}, {"muster", "m"}};
    cleanup_buf struct buf out = BUF_INIT;
    struct err err = {0};
    if (placeholders_fill(word, fills, countof(fills), &out, &err) != 0)
        BUG("%s", err.text);
}

static void check_plan(const struct graph_list *list, struct plan *plan)
{
    struct err err = {0};
    if (plan_index(plan, &err) != 0)
        BUG("%s", err.text);
    ASSERT(plan->n_jobs == list->n_jobs && plan->n_stages == 1);
    for (uint32_t i = 0; i < plan->n_jobs; i++) {
        const struct plan_job *job = &plan->jobs[i];
        ASSERT(str_starts_with(str_of(job->name), STR("job/")) && plan_find(plan, job->name) == i);
        ASSERT(strlen(job->name) <= PLAN_NAME_BYTES_MAX + sizeof("job/") && job->argv[0]);
        for (const char *const *word = job->argv; *word; word++)
            check_word(*word);
    }
}

/* Each part of the path is one folder, which leads nowhere else. */
static void check_folder(const char *path)
{
    struct str rest = str_of(path), part;
    ASSERT(str_starts_with(rest, STR("root")));
    while (rest.len > 0 && str_next(&rest, '/', &part))
        ASSERT(part.len > 0 && part.len <= NAME_MAX && !str_equal(part, STR(".")) &&
               !str_equal(part, STR("..")));
}

static void check_results(const struct graph_list *list)
{
    struct name_index seen = NAME_INDEX_INIT;
    struct err err = {0};
    bool are_apart = results_check(list, &err) == 0;
    for (size_t i = 0; i < list->n_jobs; i++) {
        cleanup_free char *path = results_dir_new(list, "root", i);
        check_folder(path);
        ASSERT(!are_apart || name_index_number(&seen, str_of(path)) == i);
    }
    ASSERT(are_apart || err.code == ERR_USAGE);
    name_index_release(&seen);
}

static void check_list(const struct graph_list_wish *wish)
{
    struct graph_list list;
    struct plan plan;
    struct err err = {0};
    int rc = graph_list_open(&list, wish, &err);
    if (rc) {
        ASSERT((rc == ERR_USAGE || rc == ERR_DATA) && err.text[0]);
        return;
    }
    if (list.n_jobs > JOBS_MAX) { /* as many as a few arguments multiply to */
        fuzz_cost_forgive();
        graph_list_release(&list);
        return;
    }
    rc = graph_list_plan(&list, wish, &plan, &err);
    if (rc == 0) {
        check_plan(&list, &plan);
        check_results(&list);
        plan_release(&plan);
    } else
        ASSERT(rc == ERR_USAGE && err.text[0]);
    graph_list_release(&list);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    unsigned options = fuzz_choice(&text);
    struct env_list words = {0};
    words_take(&text, &words);
    cleanup_fd int fd = input_open(text);
    check_list(&(struct graph_list_wish){.words = (const char *const *)words.at,
                                         .n_words = words.len,
                                         .input_fd = fd,
                                         .takes_input = true,
                                         .is_shell = options & IS_SHELL,
                                         .has_header = options & HAS_HEADER,
                                         .separator = options & HAS_COMMAS ? "," : NULL});
    env_list_release(&words);
    return 0;
}
