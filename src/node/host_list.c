/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host_list.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/spec.h"

enum {
    FILE_MAX_BYTES = 1 << 20,
    HOSTS_MAX = 4096
};

void host_release(struct host *host)
{
    free(host->name);
    free(host->target);
    free(host->label);
    free(host->gpus);
    *host = (struct host){0};
}

void host_list_release(struct host_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        host_release(&list->at[i]);
    free(list->at);
    slurm_job_release(&list->job);
    *list = (struct host_list){0};
}

/* ---- one host ---- */

/* Splits "host:22" and "[fe80::1]:22"; several colons without brackets are an address. */
static int port_take(struct str *host, uint16_t *port, struct err *err)
{
    const char *colon = memrchr(host->at, ':', host->len);
    const char *bracket = memrchr(host->at, ']', host->len);
    uint64_t number = 0;
    if (!colon || (bracket && bracket > colon) ||
        (!bracket && memchr(host->at, ':', (size_t)(colon - host->at))))
        return 0;
    struct str text = {colon + 1, host->len - (size_t)(colon + 1 - host->at)};
    if (u64_parse(text, 1, UINT16_MAX, &number, NULL) != 0)
        return fail(err, ERR_USAGE, "--hosts: '%.*s' has no port behind its colon (1-65535)",
                    (int)host->len, host->at);
    *port = (uint16_t)number;
    host->len = (size_t)(colon - host->at);
    return 0;
}

/* A name goes to ssh as a word: it must not look like an option. */
static bool is_name(struct str name)
{
    bool is = name.len > 0 && name.at[0] != '-';
    for (size_t i = 0; i < name.len; i++)
        is = is && (isalnum((unsigned char)name.at[i]) || strchr("-._@:[]%", name.at[i]));
    return is;
}

/* The target for the launcher: "me@fe80::1" for "me@[fe80::1]", since ssh takes addresses without brackets. */
static char *target_new(struct str name)
{
    char *target = xstrndup(name.at, name.len);
    char *open = strchr(target, '['), *end = target + name.len;
    bool is_first = open && (open == target || open[-1] == '@');
    if (!is_first || end[-1] != ']' || !strchr(open, ':') ||
        (open[1] != ':' && !isxdigit((unsigned char)open[1])))
        return target;
    end[-1] = '\0';
    memmove(open, open + 1, strlen(open));
    return target;
}

/* The host without its user, with only characters that suit a file name. */
static char *label_new(struct str target)
{
    const char *at_sign = memchr(target.at, '@', target.len);
    const char *begin = at_sign ? at_sign + 1 : target.at;
    char *label = xstrndup(begin, target.len - (size_t)(begin - target.at));
    size_t len = 0;
    for (const char *c = label; *c; c++)
        if (*c != '[' && *c != ']')
            label[len++] = strchr(":%@_", *c) ? '-' : *c;
    label[MIN(len, (size_t)40)] = '\0';
    return label;
}

static struct host *host_named(const struct host_list *list, const char *name)
{
    for (size_t i = 0; i < list->len; i++)
        if (strcmp(list->at[i].name, name) == 0)
            return &list->at[i];
    return NULL;
}

static bool has_label(const void *context, const char *label)
{
    const struct host_list *list = context;
    for (size_t i = 0; i < list->len; i++)
        if (strcmp(list->at[i].label, label) == 0)
            return true;
    return false;
}

static bool is_free(struct host *host, const char *plain, unsigned number,
                    bool (*is_taken)(const void *context, const char *label), const void *context)
{
    free(host->label);
    host->label = xasprintf("%s-%u", plain, number);
    return !is_taken(context, host->label);
}

/* Thousands of hosts may have names that differ in what a label does not show: the free number is found by doubling and
 * halving. */
void host_label_settle(struct host *host, bool (*is_taken)(const void *context, const char *label),
                       const void *context)
{
    cleanup_free char *plain = xstrdup(host->label);
    unsigned taken = 1, number = 2;
    if (!is_taken(context, plain))
        return;
    for (; !is_free(host, plain, number, is_taken, context); number *= 2)
        taken = number;
    while (number - taken > 1) {
        unsigned middle = taken + (number - taken) / 2;
        if (is_free(host, plain, middle, is_taken, context))
            number = middle;
        else
            taken = middle;
    }
    (void)is_free(host, plain, number, is_taken, context);
}

static int host_add(struct host_list *list, struct str text, struct str gpus, struct err *err)
{
    struct str target = text;
    uint16_t port = 0;
    int rc = port_take(&target, &port, err);
    if (rc)
        return rc;
    if (!is_name(target))
        return fail(err, ERR_USAGE, "--hosts: '%.*s' is no name of a host", (int)text.len, text.at);
    struct host host = {.name = xstrndup(text.at, text.len),
                        .target = target_new(target),
                        .label = label_new(target),
                        .gpus = gpus.at ? xstrndup(gpus.at, gpus.len) : NULL,
                        .port = port,
                        .is_local = str_equal(text, STR("local"))};
    bool is_double = host_named(list, host.name) != NULL;
    host_label_settle(&host, has_label, list);
    list->at = xrealloc(list->at, (list->len + 1) * sizeof(*list->at));
    list->at[list->len++] = host;
    if (is_double)
        return fail(err, ERR_USAGE, "--hosts: '%s' is named twice", host.name);
    return list->len <= HOSTS_MAX ? 0
                                  : fail(err, ERR_USAGE, "--hosts: at most %d hosts", HOSTS_MAX);
}

/* ---- files ---- */

/* The next word between spaces and tabs. */
static bool word_next(struct str *line, struct str *word)
{
    *line = str_trim(*line);
    *word = (struct str){line->at, 0};
    while (word->len < line->len && !isspace((unsigned char)line->at[word->len]))
        word->len++;
    line->at += word->len;
    line->len -= word->len;
    return word->len > 0;
}

/* Sets *gpus to the SPEC that a word stands for; other words are ignored. */
static int spec_take(struct str word, char **gpus, struct err *err)
{
    uint64_t n_slots = 0;
    bool has_slots = str_starts_with(word, STR("slots="));
    if (!has_slots && !str_starts_with(word, STR("gpus=")))
        return 0;
    size_t key_len = has_slots ? 6 : 5;
    struct str value = {word.at + key_len, word.len - key_len};
    if (has_slots && u64_parse(value, 1, DEVICES_MAX, &n_slots, NULL) != 0)
        return fail(err, ERR_USAGE, "--hosts: '%.*s' is no number of slots", (int)word.len,
                    word.at);
    free(*gpus);
    *gpus = has_slots ? xasprintf("any:%lu", n_slots) : xstrndup(value.at, value.len);
    return 0;
}

/* A file names hosts: the words of the list that stand for jobs would be taken for a host of that name. */
static int name_check(struct str name, struct err *err)
{
    bool is_of_list = str_equal(name, STR("slurm")) || str_starts_with(name, STR("slurm:"));
    return is_of_list ? fail(err, ERR_USAGE,
                             "--hosts: '%.*s' belongs into the list (--hosts %.*s,@FILE); a host "
                             "of that name is written USER@%.*s",
                             (int)name.len, name.at, (int)name.len, name.at, (int)name.len, name.at)
                      : 0;
}

/* "node1 slots=4", "node1 gpus=0-3", "node1=0-3", "node1"; other words of such files are ignored. */
static int line_take(struct host_list *list, struct str line, struct err *err)
{
    cleanup_free char *gpus = NULL;
    struct str word, name = {NULL, 0};
    const char *comment = memchr(line.at, '#', line.len);
    line.len = comment ? (size_t)(comment - line.at) : line.len;
    if (!word_next(&line, &name))
        return 0;
    const char *equals = memchr(name.at, '=', name.len);
    if (equals) {
        gpus = xstrndup(equals + 1, name.len - (size_t)(equals + 1 - name.at));
        name.len = (size_t)(equals - name.at);
    }
    if (name_check(name, err) != 0)
        return ERR_USAGE;
    while (word_next(&line, &word))
        if (spec_take(word, &gpus, err) != 0)
            return ERR_USAGE;
    return host_add(list, name, str_of(gpus), err);
}

static int file_take(struct host_list *list, struct str path, struct err *err)
{
    cleanup_free char *name = xstrndup(path.at, path.len);
    cleanup_buf struct buf text = BUF_INIT;
    struct str line;
    if (file_read(name, FILE_MAX_BYTES, &text, err) != 0)
        return wrap(err, ERR_USAGE, "--hosts");
    int rc = 0;
    struct str rest = buf_str(&text);
    for (unsigned n = 1; rc == 0 && str_next(&rest, '\n', &line); n++)
        if ((rc = line_take(list, line, err)) != 0)
            wrap(err, rc, "%s, line %u", name, n);
    return rc;
}

/* ---- the list ---- */

/* Are both devices of one of the forms that no number has? Hosts have such names as well, so one alone does not tell. */
static bool are_ids_alike(struct str piece, struct str before)
{
    static const struct str forms[] = {{"GPU-", 4}, {"MIG-", 4}, {"PCI-", 4}};
    bool are = false;
    for (size_t i = 0; i < countof(forms); i++)
        are = are || (str_starts_with(piece, forms[i]) && str_starts_with(before, forms[i]));
    return are;
}

/* Does the piece continue the SPEC before it, as "2" in "node1=0,2,node2", and "GPU-b" in "node1=GPU-a,GPU-b"? */
static bool is_of_spec(struct str piece, const char *spec)
{
    const char *comma = strrchr(spec, ',');
    bool is = piece.len > 0;
    for (size_t i = 0; i < piece.len; i++)
        is = is && (isdigit((unsigned char)piece.at[i]) || piece.at[i] == '-');
    return is || are_ids_alike(piece, str_of(comma ? comma + 1 : spec));
}

static int spec_extend(struct host_list *list, struct str piece)
{
    for (size_t i = list->len - list->n_of_piece; i < list->len; i++) {
        struct host *host = &list->at[i];
        char *longer = xasprintf("%s,%.*s", host->gpus, (int)piece.len, piece.at);
        free(host->gpus);
        host->gpus = longer;
    }
    return 0;
}

static int slurm_take(struct host_list *list, struct str gpus, struct err *err)
{
    if (list->job.id)
        return fail(err, ERR_USAGE, "--hosts: 'slurm' is named twice");
    int rc = slurm_job_read(&list->job, err);
    for (size_t i = 0; rc == 0 && i < list->job.nodes.len; i++) {
        rc = host_add(list, str_of(list->job.nodes.at[i]), gpus, err);
        if (rc == 0)
            list->at[list->len - 1].is_slurm = true;
    }
    return rc;
}

/* Adds "slurm-1" … "slurm-4". Their nodes are known when Slurm grants them. */
static int jobs_take(struct host_list *list, struct str count, struct str gpus, struct err *err)
{
    uint64_t n_jobs = 0;
    int rc = u64_parse(count, 1, HOSTS_MAX, &n_jobs, NULL);
    if (rc)
        return fail(err, ERR_USAGE, "--hosts: 'slurm:%.*s' has no number of nodes behind its colon",
                    (int)count.len, count.at);
    for (uint64_t i = 1; rc == 0 && i <= n_jobs; i++) {
        cleanup_free char *name = xasprintf("slurm-%lu", i);
        rc = host_add(list, str_of(name), gpus, err);
        list->at[list->len - 1].is_job = true;
    }
    return rc;
}

void host_list_number_jobs(struct host_list *list, size_t n_before)
{
    for (size_t i = 0; i < list->len; i++) {
        struct host *host = &list->at[i];
        if (!host->is_job)
            continue;
        free(host->name);
        free(host->target);
        free(host->label);
        host->name = xasprintf("slurm-%zu", ++n_before);
        host->target = xstrdup(host->name);
        host->label = xstrdup(host->name);
    }
}

static int hosts_take(struct host_list *list, struct str piece, struct err *err)
{
    const char *equals = memchr(piece.at, '=', piece.len);
    struct str gpus = {NULL, 0};
    if (equals) {
        gpus = (struct str){equals + 1, piece.len - (size_t)(equals + 1 - piece.at)};
        piece.len = (size_t)(equals - piece.at);
    }
    if (str_starts_with(piece, STR("slurm:")))
        return jobs_take(list, (struct str){piece.at + 6, piece.len - 6}, gpus, err);
    return str_equal(piece, STR("slurm")) ? slurm_take(list, gpus, err)
                                          : host_add(list, piece, gpus, err);
}

static int piece_take(struct host_list *list, struct str piece, struct err *err)
{
    const char *spec = list->n_of_piece > 0 ? list->at[list->len - 1].gpus : NULL;
    size_t n_before = list->len;
    if (piece.len == 0)
        return fail(err, ERR_USAGE, "--hosts: an entry is empty");
    if (spec && is_of_spec(piece, spec))
        return spec_extend(list, piece);
    list->n_of_piece = 0;
    if (piece.at[0] == '@')
        return file_take(list, (struct str){piece.at + 1, piece.len - 1}, err);
    int rc = hosts_take(list, piece, err);
    list->n_of_piece = list->len - n_before;
    return rc;
}

int host_list_parse(const char *text, struct host_list *out, struct err *err)
{
    struct str rest = str_of(text), piece;
    int rc = 0;
    *out = (struct host_list){0};
    while (rc == 0 && str_next(&rest, ',', &piece))
        rc = piece_take(out, str_trim(piece), err);
    for (size_t i = 0; rc == 0 && i < out->len; i++) {
        struct device_spec spec;
        if (out->at[i].gpus && (rc = spec_parse(out->at[i].gpus, &spec, err)) != 0)
            wrap(err, rc, "--hosts: %s", out->at[i].name);
    }
    if (rc == 0 && out->len == 0)
        rc = fail(err, ERR_USAGE, "--hosts names no host");
    if (rc)
        host_list_release(out);
    return rc;
}
