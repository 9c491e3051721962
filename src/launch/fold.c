/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/fold.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

enum {
    SHOWN_MAX = 512,      /* lines that are remembered */
    ECHO_MS = 5000,       /* a line that comes later is no echo */
    NOTE_MS = 400,        /* without a new echo, before the user is told */
    LINE_MAX_BYTES = 4096 /* of a line; the rest is not compared */
};

struct shown {
    uint64_t hash, number, at_ms;
    uint32_t rank;
};

struct teller {
    uint64_t repeated; /* the number of the line that its last echo repeated */
    uint32_t n_echoes; /* the user was not told yet */
    bool was_echo;     /* its last line was one */
};

struct fold {
    struct shown shown[SHOWN_MAX]; /* a ring, by number */
    uint64_t n_shown;
    uint64_t echo_ms;   /* the time of the last echo */
    uint32_t n_telling; /* ranks with echoes that the user was not told of */
    uint32_t n_ranks;
    struct buf scratch;
    struct teller tellers[];
};

struct fold *fold_new(uint32_t n_ranks)
{
    struct fold *fold = xcalloc(1, sizeof(*fold) + n_ranks * sizeof(fold->tellers[0]));
    fold->n_ranks = n_ranks;
    return fold;
}

void fold_free(struct fold *fold)
{
    if (!fold)
        return;
    buf_release(&fold->scratch);
    free(fold);
}

/* ---- what is the same ---- */

/* Does a number here belong to the rank, by the word before it? */
static bool is_of_rank(const char *begin, const char *at)
{
    static const char *const words[] = {"rank", "cuda", "gpu",     "device", "hip",
                                        "xpu",  "pid",  "process", "worker", "node"};
    while (at > begin && strchr(" :=#[(-", at[-1]) && at[-1] != '\0')
        at--;
    for (size_t i = 0; i < countof(words); i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(at - begin) >= len && strncasecmp(at - len, words[i], len) == 0)
            return true;
    }
    return false;
}

/* The length of an address, time or date at the beginning, such as "0x7f3a…", "20:33:01,123", "2026-11-24"; 0: none. */
static size_t varying_len(struct str rest)
{
    static const char time_of_day[] = "dd:dd:dd", date[] = "dddd-dd-dd";
    const char *const forms[] = {time_of_day, date};
    size_t len = 2;
    if (rest.len > 2 && rest.at[0] == '0' && (rest.at[1] == 'x' || rest.at[1] == 'X')) {
        while (len < rest.len && isxdigit((unsigned char)rest.at[len]))
            len++;
        return len;
    }
    for (size_t f = 0; f < countof(forms); f++) {
        for (len = 0; forms[f][len] && len < rest.len; len++)
            if (forms[f][len] == 'd' ? !isdigit((unsigned char)rest.at[len])
                                     : rest.at[len] != forms[f][len])
                break;
        if (forms[f][len])
            continue;
        while (len < rest.len &&
               (isdigit((unsigned char)rest.at[len]) || rest.at[len] == '.' || rest.at[len] == ','))
            len++;
        return len;
    }
    return 0;
}

static size_t digits_len(struct str rest)
{
    size_t len = 0;
    while (len < rest.len && isdigit((unsigned char)rest.at[len]))
        len++;
    return len;
}

static bool is_number(struct str digits, uint32_t number)
{
    char text[16];
    return number > 0 && snprintf(text, sizeof(text), "%u", number) == (int)digits.len &&
           memcmp(text, digits.at, digits.len) == 0;
}

void fold_normalise(struct buf *out, struct str line, uint32_t pid)
{
    size_t at = 0;
    line.len = MIN(line.len, (size_t)LINE_MAX_BYTES);
    while (at < line.len && line.at[line.len - 1] == '\r')
        line.len--;
    while (at < line.len) {
        struct str rest = {line.at + at, line.len - at};
        bool begins = at == 0 || !isalnum((unsigned char)line.at[at - 1]);
        size_t len = begins ? varying_len(rest) : 0, n_digits = digits_len(rest);
        bool varies =
            len > 0 || (n_digits > 0 && (is_of_rank(line.at, rest.at) ||
                                         is_number((struct str){rest.at, n_digits}, pid)));
        len = MAX(len, MAX(n_digits, (size_t)1));
        if (varies)
            buf_add_char(out, '#');
        else
            buf_add(out, rest.at, len);
        at += len;
    }
}

static struct str last_lines(struct str text, size_t n_lines)
{
    size_t at = text.len;
    for (; at > 0; at--)
        if (text.at[at - 1] == '\n' && at < text.len && n_lines-- == 1)
            break;
    return (struct str){text.at + at, text.len - at};
}

bool fold_ends_alike(struct str a, uint32_t a_pid, struct str b, uint32_t b_pid, size_t n_lines)
{
    cleanup_buf struct buf one = BUF_INIT, other = BUF_INIT;
    struct str line;
    if (a.len == 0 || b.len == 0)
        return false;
    a = last_lines(a, n_lines);
    b = last_lines(b, n_lines);
    for (; a.len > 0 && str_next(&a, '\n', &line); buf_add_char(&one, '\n'))
        fold_normalise(&one, line, a_pid);
    for (; b.len > 0 && str_next(&b, '\n', &line); buf_add_char(&other, '\n'))
        fold_normalise(&other, line, b_pid);
    return str_equal(buf_str(&one), buf_str(&other));
}

/* ---- echoes ---- */

/* FNV-1a. */
static uint64_t hash_of(struct str text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * 0x100000001b3;
    return hash;
}

/* The number, from 1, of the first line with this hash that the rank may repeat; 0: none. */
static uint64_t original_find(const struct fold *fold, uint32_t rank, uint64_t hash,
                              uint64_t now_ms)
{
    uint64_t oldest = fold->n_shown - MIN(fold->n_shown, (uint64_t)SHOWN_MAX) + 1;
    uint64_t number = MAX(oldest, fold->tellers[rank].repeated + 1);
    for (; number <= fold->n_shown; number++) {
        const struct shown *shown = &fold->shown[number % SHOWN_MAX];
        if (shown->hash == hash && shown->rank != rank && now_ms - shown->at_ms <= ECHO_MS)
            return number;
    }
    return 0;
}

bool fold_takes(struct fold *fold, uint32_t rank, uint32_t pid, struct str line, uint64_t now_ms)
{
    ASSERT(rank < fold->n_ranks);
    struct teller *teller = &fold->tellers[rank];
    buf_reset(&fold->scratch);
    fold_normalise(&fold->scratch, line, pid);
    uint64_t hash = hash_of(buf_str(&fold->scratch));
    /* An empty line is an echo only after an echo: any rank may print one. */
    bool may_be = str_trim(line).len > 0 || teller->was_echo;
    uint64_t number = may_be ? original_find(fold, rank, hash, now_ms) : 0;
    teller->was_echo = number > 0;
    if (number > 0) {
        fold->n_telling += teller->n_echoes++ == 0;
        fold->echo_ms = now_ms;
        teller->repeated = number;
        return true;
    }
    number = ++fold->n_shown;
    fold->shown[number % SHOWN_MAX] = (struct shown){hash, number, now_ms, rank};
    return false;
}

bool fold_note(struct fold *fold, uint64_t now_ms, bool is_end, struct fold_note *out)
{
    *out = (struct fold_note){.n_least = UINT32_MAX};
    if (fold->n_telling == 0 || (!is_end && now_ms - fold->echo_ms < NOTE_MS))
        return false;
    for (uint32_t i = 0; i < fold->n_ranks; i++) {
        uint32_t n = fold->tellers[i].n_echoes;
        if (n == 0)
            continue;
        out->n_ranks++;
        out->rank = i;
        out->n_least = MIN(out->n_least, n);
        out->n_most = MAX(out->n_most, n);
        fold->tellers[i].n_echoes = 0;
    }
    fold->n_telling = 0;
    return true;
}
