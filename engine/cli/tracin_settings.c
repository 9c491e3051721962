/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracin_settings.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/kge_verbs.h"

static bool is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* True for options that change no result. */
static bool is_idle(const struct opt *opt)
{
    static const char *const idle[] = {"gpus",
                                       "run-dir",
                                       "force",
                                       "quiet",
                                       "threads",
                                       "dry-run",
                                       "skip-existing",
                                       "skip-filtering",
                                       "strict-hop-constraint",
                                       "cache",
                                       "strict-path-filtering"};
    size_t begin = offsetof(struct tracin_request, no_effect);
    if (opt->offset >= begin && opt->offset < begin + sizeof(struct no_effect_ask))
        return true;
    return is_among(opt->name, idle, countof(idle));
}

/* Returns the option of a word "--name=value" or "--name"; NULL: none. */
static const struct opt *option_of(const char *word)
{
    if (strncmp(word, "--", 2) != 0 || word[2] == '\0')
        return NULL;
    size_t len = strcspn(word + 2, "=");
    for (const struct opt *opt = cmd_kge_tracin.opts; opt->kind != OPT_END; opt++)
        if (opt->name && strlen(opt->name) == len && strncmp(opt->name, word + 2, len) == 0)
            return opt;
    return NULL;
}

/* Adds a word of an option. A path becomes absolute, so that it is the same from another folder. */
static void word_add(const char *word, const struct opt *opt, struct buf *out)
{
    bool is_path = opt && (opt->kind == OPT_PATH || opt->kind == OPT_TEXTS); /* checkpoints */
    cleanup_free char *path = is_path ? path_absolute(word + strcspn(word, "=") + 1) : NULL;
    if (path)
        buf_addf(out, "--%s=%s", opt->name, path);
    else
        buf_add_text(out, word);
    buf_add_char(out, '\0');
}

static int checkpoint_add(const char *path, struct buf *out, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    buf_addf(out, "checkpoint %jd %jd.%09ld", (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec,
             st.st_mtim.tv_nsec);
    buf_add_char(out, '\0');
    return 0;
}

int tracin_settings_add(const struct tracin_request *ask, const char *const *besides,
                        size_t n_besides, struct buf *out, struct err *err)
{
    struct env_list words = {0};
    int rc = 0;
    cmd_words(&cmd_kge_tracin, ask, &words);
    for (size_t i = 0; i < words.len; i++) {
        const struct opt *opt = option_of(words.at[i]);
        if (!opt || !(is_idle(opt) || is_among(opt->name, besides, n_besides)))
            word_add(words.at[i], opt, out);
    }
    env_list_release(&words);
    word_add("--", NULL, out);
    for (size_t i = 0; rc == 0 && i < ask->models.paths.len; i++)
        rc = checkpoint_add(ask->models.paths.at[i], out, err);
    return rc;
}
