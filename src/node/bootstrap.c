/* SPDX-License-Identifier: Apache-2.0 */
#include "node/bootstrap.h"

#include <ctype.h>

#include "base/shell.h"
#include "node/wire.h"

/* ---- the script ---- */

/*
 * Variables begin with ms_, because one that the environment has as well would be changed for the workers. The whole is
 * one group, so that it begins only when all of it has arrived. What it has made is removed before it says that it
 * failed, because the head then ends the transport.
 */
static const char script_begin[] = "{\n"
                                   "ms_say() { printf '\\n\\001muster-start %s\\n' \"$*\"; }\n"
                                   "ms_clean() { rm -rf \"$ms_folder/${ms_new:?}\" 2>/dev/null; }\n"
                                   "ms_fail() { ms_clean; ms_say fail \"$@\"; exit 69; }\n";

/* Is this the machine of the head, and the file at its path its own program? */
static const char script_own[] =
    "read -r ms_boot 2>/dev/null </proc/sys/kernel/random/boot_id\n"
    "if [ \"$ms_boot\" = %s ] && [ %s -ef /proc/%lu/exe ]; then ms_say go own; exec %s agent; fi\n";

/*
 * A folder is entered first and looked at then: its name may lead elsewhere a moment later, if the folder above belongs
 * to others as well. For this reason programs in it are started by a relative path.
 */
static const char script_kept[] =
    "ms_here=$PWD\n"
    "ms_kept() {\n"
    "cd \"$1\" 2>/dev/null || return\n"
    "if [ -O . ] && [ -O \"$ms_name/muster\" ] && [ -x \"$ms_name/muster\" ]; then\n"
    "ms_say go \"$2\" \"$1\"; exec \"./$ms_name/muster\" agent --folder \"$ms_here\"\n"
    "fi\n"
    "cd \"$ms_here\"\n"
    "}\n";

/*
 * Its status: 0, or a number of the reasons below. An empty file can be executed by a shell, but not where the file
 * system is mounted noexec. The reader of the bundle goes on where nothing can be written, so that the stream stays in
 * step; and each file is cut out of a file, because `head -c` of a pipe may take more than it gives.
 */
static const char script_install[] =
    "ms_install() (\n"
    "umask 077\n"
    "mkdir -p \"$1\" 2>/dev/null\n"
    "cd \"$1\" 2>/dev/null || exit 1\n"
    "[ -O . ] || exit 2\n"
    "case $1 in */muster-*) if [ -L \"$1\" ]; then exit 2; fi ;; esac\n"
    "chmod 700 . 2>/dev/null\n"
    "mkdir \"$ms_new\" 2>/dev/null || exit 1\n"
    "cd \"$ms_new\" || exit 1\n"
    "{ true >x; } 2>/dev/null || exit 4\n"
    "chmod 700 x && ./x 2>/dev/null || exit 3\n"
    "ms_gzip=\n"
    "if command -v gzip >/dev/null; then ms_gzip=gzip; fi\n"
    "ms_say need \"$ms_machine\" $ms_gzip\n"
    "read -r ms_bytes ms_sum ms_files || exit 9\n"
    "head -c \"$ms_bytes\" | { cat >x || { cat >/dev/null; exit 4; }; } 2>/dev/null || exit 4\n"
    "if [ -n \"$ms_gzip\" ]; then\n"
    "gzip -dc <x >y 2>/dev/null || { gzip -t <x 2>/dev/null && exit 4; ms_fail damaged; }\n"
    "mv y x || exit 4\n"
    "fi\n"
    "set -- $(cksum <x 2>/dev/null)\n"
    "case $1:$2 in : | \"$ms_sum\") ;; *) ms_fail damaged ;; esac\n"
    "ms_at=1\n"
    "for ms_file in $ms_files; do\n"
    "ms_bytes=${ms_file#*:} ms_file=${ms_file%:*}\n"
    "case $ms_file in */*) [ -d \"${ms_file%/*}\" ] || mkdir \"${ms_file%/*}\" || exit 4 ;; esac\n"
    "tail -c \"+$ms_at\" x 2>/dev/null | head -c \"$ms_bytes\" 2>/dev/null >\"$ms_file\" || exit 4\n"
    "ms_at=$((ms_at + ms_bytes))\n"
    "done\n"
    "rm -f x\n"
    "chmod -R 700 . || exit 4\n"
    "ms_words=$(./muster agent --keep \"$ms_name\" 2>&1 </dev/null)\n"
    "case $? in 0) ;; 65) ms_fail damaged ;; 75) exit 4 ;; *) ms_fail unfit \"$ms_words\" ;; esac\n"
    ")\n";

static const char script_end[] =
    "if [ -n \"$ms_name\" ]; then\n"
    "set --\n"
    "case ${XDG_CACHE_HOME-} in /*) set -- \"$XDG_CACHE_HOME/muster\" ;; esac\n"
    "case ${HOME-} in /*) set -- \"$@\" \"$HOME/.cache/muster\" ;; esac\n"
    "for ms_folder; do ms_kept \"$ms_folder\" kept; done\n"
    "ms_user=$(id -u)\n"
    "set -- \"$@\" \"/var/tmp/muster-$ms_user\" \"/tmp/muster-$ms_user\" \"/dev/shm/muster-$ms_user\"\n"
    "for ms_folder; do ms_kept \"$ms_folder\" kept; done\n"
    "trap \"ms_clean; exit 75\" HUP INT TERM\n"
    "ms_tried=\n"
    "for ms_folder; do\n"
    "ms_install \"$ms_folder\"\n"
    "ms_status=$?\n"
    "ms_clean\n"
    "case $ms_status in\n"
    "0) ms_kept \"$ms_folder\" new; ms_why=\"what was put there is gone\" ;;\n"
    "1) ms_why=\"no folder can be made\" ;;\n"
    "2) ms_why=\"it belongs to somebody else\" ;;\n"
    "3) ms_why=\"programs must not be executed\" ;;\n"
    "4) ms_why=\"there is no room\" ;;\n"
    "*) exit \"$ms_status\" ;;\n"
    "esac\n"
    "ms_tried=\"$ms_tried${ms_tried:+, }$ms_folder ($ms_why)\"\n"
    "done\n"
    "ms_fail folders \"$ms_tried\"\n"
    "fi\n"
    "ms_say need \"$ms_machine\"\n"
    "}\n";

static void own_add(const struct bootstrap_opts *opts, struct buf *out)
{
    struct buf path = BUF_INIT;
    if (!opts->self_path || !opts->boot_id[0])
        return;
    buf_add_shell_word(&path, opts->self_path);
    buf_addf(out, script_own, opts->boot_id, buf_text(&path), opts->pid, buf_text(&path));
    buf_release(&path);
}

static void names_add(const struct bootstrap_opts *opts, struct buf *out)
{
    buf_addf(out,
             "ms_new=new-%016lx\n"
             "ms_name=\n"
             "ms_machine=$(uname -m)\n"
             "case $ms_machine in\n",
             opts->nonce);
    for (size_t i = 0; i < opts->bundles->len; i++)
        buf_addf(out, "%s) ms_name=%s ;;\n", opts->bundles->at[i].machine,
                 opts->bundles->at[i].name);
    buf_add_text(out, "esac\n");
}

void bootstrap_script_add(const struct bootstrap_opts *opts, struct buf *out)
{
    buf_add_text(out, script_begin);
    own_add(opts, out);
    names_add(opts, out);
    buf_add_text(out, script_kept);
    buf_add_text(out, script_install);
    buf_add_text(out, script_end);
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
    size_t n_kept = MIN(in.len, mark.len - 1); /* the mark's first bytes, perhaps */
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

/* What cannot be, by the word behind `fail`; %.*s are the words behind that. */
static const struct failure {
    struct str what;
    const char *before, *after;
} failures[] = {
    {{"damaged", 7},
     "the program arrived there damaged: bytes were changed or lost on the way",
     ""},
    {{"unfit", 5}, "the program that was sent does not start there: ", BOOTSTRAP_CURE},
    {{"folders", 7},
     "no folder there can keep the program: ",
     "; --agent-path names one that is installed there"},
};

static bool fail_read(struct str rest, struct err *err)
{
    struct str what = {0};
    (void)str_next(&rest, ' ', &what);
    for (size_t i = 0; i < countof(failures); i++)
        if (str_equal(what, failures[i].what)) {
            fail(err, ERR_UNAVAILABLE, "%s%.*s%s", failures[i].before, (int)MIN(rest.len, 300UL),
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
