/* SPDX-License-Identifier: Apache-2.0 */
#include "node/bootstrap.h"

#include <ctype.h>

#include "base/cleanup.h"
#include "base/shell.h"
#include "node/wire.h"

/* ---- the script ---- */

static const char script[] =
#include "node/bootstrap_script.h"
    ;

static void variable_add(struct buf *out, const char *name, const char *value)
{
    buf_addf(out, "%s=", name);
    buf_add_shell_word(out, value);
    buf_add_char(out, '\n');
}

/* The script is one group of commands, so that it begins only when all of it has arrived. */
void bootstrap_script_add(const struct bootstrap_opts *opts, struct buf *out)
{
    cleanup_buf struct buf names = BUF_INIT;
    for (size_t i = 0; i < opts->bundles->len; i++)
        buf_addf(&names, "%s%s:%s", i > 0 ? " " : "", opts->bundles->at[i].machine,
                 opts->bundles->at[i].name);
    buf_add_text(out, "{\n");
    variable_add(out, "ms_own", opts->self_path && opts->boot_id[0] ? opts->self_path : "");
    variable_add(out, "ms_boot", opts->boot_id);
    variable_add(out, "ms_bundles", buf_text(&names));
    buf_addf(out, "ms_pid=%lu\nms_new=new-%016lx\n", opts->pid, opts->nonce);
    buf_add_text(out, script);
    buf_add_text(out, "}\n");
}

/* ---- what it says ---- */

static const struct str mark = {BOOTSTRAP_MARK, sizeof(BOOTSTRAP_MARK) - 1};

void bootstrap_feed(struct bootstrap *bootstrap, struct str bytes)
{
    buf_add_str(&bootstrap->in, bytes);
}

void bootstrap_release(struct bootstrap *bootstrap)
{
    buf_release(&bootstrap->in);
    buf_release(&bootstrap->noise);
    *bootstrap = (struct bootstrap){0};
}

static void noise_take(struct bootstrap *bootstrap, size_t len)
{
    size_t n_kept = MIN(bootstrap->noise.len, (size_t)WIRE_NOISE_KEPT_BYTES);
    buf_add(&bootstrap->noise, buf_text(&bootstrap->in),
            MIN(len, (size_t)WIRE_NOISE_KEPT_BYTES - n_kept));
    bootstrap->n_noise_bytes += len;
    buf_consume(&bootstrap->in, len);
}

/* Cuts the words of the next line off; false: it is not there yet. */
static bool line_cut(struct bootstrap *bootstrap, struct str *words)
{
    struct str in = buf_str(&bootstrap->in);
    const char *found = in.len > 0 ? memmem(in.at, in.len, mark.at, mark.len) : NULL;
    size_t n_kept = MIN(in.len, mark.len - 1); /* they may be the mark's first bytes */
    noise_take(bootstrap, found ? (size_t)(found - in.at) : in.len - n_kept);
    if (!found)
        return false;
    in = buf_str(&bootstrap->in);
    const char *end = memchr(in.at + mark.len, '\n', in.len - mark.len);
    if (end)
        *words = (struct str){in.at + mark.len, (size_t)(end - in.at) - mark.len};
    return end != NULL;
}

static bool word_next(struct str *rest, struct str *word)
{
    return str_next(rest, ' ', word) && word->len > 0;
}

static bool need_read(struct str rest, struct bootstrap_line *line)
{
    struct str word;
    if (!word_next(&rest, &word) || word.len >= sizeof(line->machine))
        return false;
    for (size_t i = 0; i < word.len; i++)
        if (!isalnum((unsigned char)word.at[i]) && !strchr("._-", word.at[i]))
            return false;
    memcpy(line->machine, word.at, word.len);
    line->has_gzip = word_next(&rest, &word) && str_equal(word, STR("gzip"));
    return true;
}

static bool go_read(struct str rest, struct bootstrap_line *line)
{
    struct str how = {0};
    bool is_known =
        str_next(&rest, ' ', &how) &&
        (str_equal(how, STR("own")) || str_equal(how, STR("kept")) || str_equal(how, STR("new")));
    line->was_installed = str_equal(how, STR("new"));
    snprintf(line->folder, sizeof(line->folder), "%.*s",
             (int)MIN(rest.len, sizeof(line->folder) - 1), rest.at ? rest.at : "");
    return is_known;
}

/* The failures, by the word after `fail`; the words after that stand between `before` and `after`. */
static const struct failure {
    struct str what;
    enum err_code code;
    const char *before, *after;
} failures[] = {
    {{"damaged", 7},
     ERR_DATA,
     "the program arrived there damaged: bytes were changed or lost on the way",
     ""},
    {{"unfit", 5},
     ERR_UNAVAILABLE,
     "the program that was sent does not start there: ",
     BOOTSTRAP_CURE},
    {{"folders", 7},
     ERR_UNAVAILABLE,
     "no folder there can keep the program: ",
     "; --agent-path names one that is installed there"},
};

static bool fail_read(struct str rest, struct err *err)
{
    struct str what = {0};
    (void)str_next(&rest, ' ', &what);
    for (size_t i = 0; i < countof(failures); i++)
        if (str_equal(what, failures[i].what)) {
            fail(err, failures[i].code, "%s%.*s%s", failures[i].before, (int)MIN(rest.len, 300UL),
                 rest.at ? rest.at : "", failures[i].after);
            return true;
        }
    return false;
}

static enum bootstrap_result failed(struct bootstrap *bootstrap)
{
    bootstrap->is_over = true;
    return BOOTSTRAP_FAILED;
}

static enum bootstrap_result line_read(struct bootstrap *bootstrap, struct str words,
                                       struct bootstrap_line *line, struct err *err)
{
    struct str rest = words, word = {0};
    (void)str_next(&rest, ' ', &word);
    *line = (struct bootstrap_line){0};
    if (words.len > 0 && words.at[words.len - 1] == '\r') { /* -t of ssh, docker or kubectl */
        fail(err, ERR_UNAVAILABLE,
             "there is a terminal on the way, which changes bytes; leave -t out of the command "
             "that reaches it");
        return failed(bootstrap);
    }
    if (str_equal(word, STR("need")) && need_read(rest, line) &&
        bootstrap->n_needs++ < BOOTSTRAP_NEEDS_MAX)
        return BOOTSTRAP_NEED;
    if (str_equal(word, STR("go")) && go_read(rest, line)) {
        bootstrap->is_over = true;
        return BOOTSTRAP_GO;
    }
    if (!str_equal(word, STR("fail")) || !fail_read(rest, err))
        fail(err, ERR_DATA, "the script that starts muster there said '%.*s'",
             (int)MIN(words.len, 80UL), words.at);
    return failed(bootstrap);
}

enum bootstrap_result bootstrap_next(struct bootstrap *bootstrap, struct bootstrap_line *line,
                                     struct err *err)
{
    struct str words;
    ASSERT(!bootstrap->is_over);
    if (line_cut(bootstrap, &words)) {
        enum bootstrap_result result = line_read(bootstrap, words, line, err);
        buf_consume(&bootstrap->in, mark.len + words.len + 1);
        return result;
    }
    if (bootstrap->n_noise_bytes > WIRE_NOISE_MAX_BYTES)
        fail(err, ERR_DATA, "more than %d bytes came that are not muster's", WIRE_NOISE_MAX_BYTES);
    else if (bootstrap->in.len > BOOTSTRAP_LINE_MAX_BYTES)
        fail(err, ERR_DATA, "the script that starts muster there says a line without an end");
    else
        return BOOTSTRAP_MORE;
    return failed(bootstrap);
}
