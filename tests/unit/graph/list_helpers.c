/* SPDX-License-Identifier: Apache-2.0 */
#include "../test.h"

#include "list_helpers.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"

int bytes_open(struct str bytes)
{
    int fd = memfd_create("lines", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, bytes.at, bytes.len, NULL), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

void wish_open(struct wish_of_case *out, const struct list_case *row)
{
    *out = (struct wish_of_case){0};
    assert_int_equal(shell_words(row->words, &out->words, NULL), 0);
    out->wish = (struct graph_list_wish){
        .words = (const char *const *)out->words.at,
        .n_words = out->words.len,
        .takes_input = row->input != NULL,
        .input_fd = bytes_open(str_of(row->input ? row->input : "")),
        .has_header = row->has_header,
        .separator = row->separator,
    };
}

void wish_close(struct wish_of_case *wish)
{
    close(wish->wish.input_fd);
    env_list_release(&wish->words);
}

/* What the run makes of a template that has names of the run's: these stay. */
static void word_print(struct buf *out, const char *word)
{
    buf_add_char(out, '[');
    for (; *word; word++) {
        buf_add_char(out, *word);
        if ((*word == '{' || *word == '}') && word[1] == *word)
            word++;
    }
    buf_add_char(out, ']');
}

static void job_print(struct buf *out, const struct plan_job *job, bool is_shell)
{
    struct env_list words = {0};
    if (is_shell) {
        assert_string_equal(job->argv[0], "sh");
        assert_string_equal(job->argv[1], "-c");
        assert_null(job->argv[3]);
        assert_int_equal(shell_words(job->argv[2], &words, NULL), 0);
        for (size_t i = 0; i < words.len; i++)
            word_print(out, words.at[i]);
    } else {
        for (size_t i = 0; job->argv[i]; i++)
            word_print(out, job->argv[i]);
    }
    env_list_release(&words);
}

void plan_print(struct buf *out, const struct plan *plan, bool is_shell)
{
    for (uint32_t i = 0; i < plan->n_jobs; i++) {
        job_print(out, &plan->jobs[i], is_shell);
        buf_add_char(out, '/');
    }
}
