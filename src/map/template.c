/* SPDX-License-Identifier: Apache-2.0 */
#include "map/template.h"

#include "base/suggest.h"

static const struct {
    const char *name;
    bool makes_shard, differs;
} placeholders[] = {
#define X(id, name, makes_shard, differs) [PLACE_##id] = {(name), (makes_shard), (differs)},
    PLACEHOLDERS(X)
#undef X
};

enum {
    WORD_MAX_BYTES = 40 /* a longer word is similar to no placeholder */
};

enum piece_kind {
    PIECE_TEXT,
    PIECE_PLACEHOLDER,
    PIECE_WORD,   /* a word in doubled braces, which become single ones */
    PIECE_UNKNOWN /* a word in braces that is not a placeholder; `text` includes the braces */
};

struct piece {
    enum piece_kind kind;
    struct str text;
    enum placeholder which;
};

/* A walk over a text, piece by piece. */
struct pieces {
    struct str rest;
    char before; /* the byte before `rest` */
};

static bool is_word_byte(char c, bool is_first)
{
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return is_letter || (!is_first && c >= '0' && c <= '9');
}

/* The length of a word with `braces` braces on either side at the beginning of the text; 0: there is none. */
static size_t braced_len(struct str text, size_t braces)
{
    size_t end = braces;
    while (end < text.len && is_word_byte(text.at[end], end == braces))
        end++;
    if (end == braces || text.len - end < braces)
        return 0;
    for (size_t i = 0; i < braces; i++)
        if (text.at[i] != '{' || text.at[end + i] != '}')
            return 0;
    return end + braces;
}

static bool placeholder_find(struct str word, enum placeholder *out)
{
    for (size_t i = 0; i < countof(placeholders); i++) {
        if (!str_equal(word, str_of(placeholders[i].name)))
            continue;
        *out = (enum placeholder)i;
        return true;
    }
    return false;
}

static struct piece piece_take(struct pieces *walk, enum piece_kind kind, size_t len, size_t braces)
{
    struct piece piece = {.kind = kind, .text = {walk->rest.at + braces, len - 2 * braces}};
    walk->before = walk->rest.at[len - 1];
    walk->rest.at += len;
    walk->rest.len -= len;
    return piece;
}

static bool piece_next(struct pieces *walk, struct piece *piece)
{
    if (walk->rest.len == 0)
        return false;
    const char *brace = memchr(walk->rest.at, '{', walk->rest.len);
    size_t before = brace ? (size_t)(brace - walk->rest.at) : walk->rest.len;
    size_t doubled = before == 0 && walk->rest.len > 1 ? braced_len(walk->rest, 2) : 0;
    size_t single = before == 0 && doubled == 0 ? braced_len(walk->rest, 1) : 0;
    struct str word = {walk->rest.at + 1, single > 0 ? single - 2 : 0};
    enum placeholder which = PLACE_START;
    if (before > 0)
        *piece = piece_take(walk, PIECE_TEXT, before, 0);
    else if (doubled > 0)
        *piece = piece_take(walk, PIECE_WORD, doubled, 2);
    else if (single == 0)
        *piece = piece_take(walk, PIECE_TEXT, 1, 0);
    else if (walk->before == '$')
        *piece = piece_take(walk, PIECE_TEXT, single, 0);
    else if (placeholder_find(word, &which))
        *piece = piece_take(walk, PIECE_PLACEHOLDER, single, 1);
    else
        *piece = piece_take(walk, PIECE_UNKNOWN, single, 0);
    piece->which = which;
    return true;
}

uint32_t template_uses(struct str text)
{
    struct pieces walk = {.rest = text};
    struct piece piece;
    uint32_t uses = 0;
    while (piece_next(&walk, &piece))
        if (piece.kind == PIECE_PLACEHOLDER)
            uses |= 1u << piece.which;
    return uses;
}

uint32_t template_uses_all(const char *const *words)
{
    uint32_t uses = 0;
    for (const char *const *word = words; word && *word; word++)
        uses |= template_uses(str_of(*word));
    return uses;
}

const char *template_shard_word(uint32_t uses)
{
    for (size_t i = 0; i < countof(placeholders); i++)
        if (uses & 1u << i && placeholders[i].makes_shard)
            return placeholders[i].name;
    return NULL;
}

bool template_tells_apart(uint32_t uses)
{
    for (size_t i = 0; i < countof(placeholders); i++)
        if (uses & 1u << i && placeholders[i].differs)
            return true;
    return false;
}

static const char *placeholder_like(struct str word)
{
    const char *names[countof(placeholders)];
    char text[WORD_MAX_BYTES];
    if (word.len >= sizeof(text))
        return NULL;
    memcpy(text, word.at, word.len);
    text[word.len] = '\0';
    for (size_t i = 0; i < countof(placeholders); i++)
        names[i] = placeholders[i].name;
    return suggest(text, names, countof(names));
}

int template_check(struct str text, struct err *err)
{
    struct pieces walk = {.rest = text};
    struct piece piece;
    while (piece_next(&walk, &piece)) {
        struct str word = {piece.text.at + 1, piece.text.len - 2};
        const char *like = piece.kind == PIECE_UNKNOWN ? placeholder_like(word) : NULL;
        if (like)
            return fail(
                err, ERR_USAGE,
                "unknown placeholder {%.*s} (did you mean {%s}? {{%.*s}} stands for itself)",
                (int)word.len, word.at, like, (int)word.len, word.at);
    }
    return 0;
}

static void glob_add(struct str value, struct buf *out)
{
    for (size_t i = 0; i < value.len; i++) {
        if (strchr("*?[]\\", value.at[i]) && value.at[i] != '\0')
            buf_add_char(out, '\\');
        buf_add_char(out, value.at[i]);
    }
}

static void fill(struct str text, const struct template_values *values, bool is_glob,
                 struct buf *out)
{
    struct pieces walk = {.rest = text};
    struct piece piece;
    while (piece_next(&walk, &piece)) {
        if (piece.kind == PIECE_WORD)
            buf_add_char(out, '{');
        if (piece.kind != PIECE_PLACEHOLDER)
            buf_add_str(out, piece.text);
        else if (is_glob)
            glob_add(values->of[piece.which], out);
        else
            buf_add_str(out, values->of[piece.which]);
        if (piece.kind == PIECE_WORD)
            buf_add_char(out, '}');
    }
}

void template_fill(struct str text, const struct template_values *values, struct buf *out)
{
    fill(text, values, false, out);
}

void template_bare(struct str text, struct buf *out)
{
    static const struct template_values names = {.of = {
#define X(id, name, makes_shard, differs) [PLACE_##id] = {"{" name "}", sizeof("{" name "}") - 1},
                                                     PLACEHOLDERS(X)
#undef X
                                                 }};
    fill(text, &names, false, out);
}

void template_fill_glob(struct str text, const struct template_values *values, struct buf *out)
{
    fill(text, values, true, out);
}
