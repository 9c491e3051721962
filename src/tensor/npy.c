/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/npy.h"

#include "base/parse.h"
#include "tensor/bytes.h"

enum {
    MAGIC_BYTES = 6,
    SHORT_HEAD_BYTES = 10, /* version 1.0: two bytes of length */
    LONG_HEAD_BYTES = 12,
    FIELDS_DEPTH_MAX = 32
};

static const char magic[] = "\x93NUMPY";

bool npy_is_one(struct str head)
{
    return str_starts_with(head, (struct str){magic, MAGIC_BYTES});
}

uint64_t npy_head_bytes(struct str head)
{
    if (!npy_is_one(head) || head.len < NPY_VERSION_BYTES)
        return 0;
    switch (head.at[MAGIC_BYTES]) {
    case 1:
        return SHORT_HEAD_BYTES + (uint64_t)le16_get(head.at + 8);
    case 2:
    case 3:
        return LONG_HEAD_BYTES + (uint64_t)le32_get(head.at + 8);
    default:
        return 0;
    }
}

/* ---- Python's literals, as far as a head has them ---- */

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

static bool skip(struct str *rest, char c)
{
    *rest = str_trim(*rest);
    if (rest->len == 0 || rest->at[0] != c)
        return false;
    *rest = (struct str){rest->at + 1, rest->len - 1};
    return true;
}

static bool quoted(struct str *rest, struct str *out)
{
    *rest = str_trim(*rest);
    if (rest->len < 2 || (rest->at[0] != '\'' && rest->at[0] != '"'))
        return false;
    const char *end = memchr(rest->at + 1, rest->at[0], rest->len - 1);
    if (!end || memchr(rest->at, '\\', (size_t)(end - rest->at)))
        return false;
    *out = (struct str){rest->at + 1, (size_t)(end - rest->at - 1)};
    *rest = (struct str){end + 1, rest->len - out->len - 2};
    return true;
}

/* Takes a list up to its closing bracket; brackets within strings are ignored. */
static bool bracketed(struct str *rest, struct str *out)
{
    size_t depth = 0;
    char quote = '\0';
    *rest = str_trim(*rest);
    for (size_t i = 0; i < rest->len; i++) {
        char c = rest->at[i];
        if (quote) {
            quote = c == quote ? '\0' : quote;
            continue;
        }
        if (c == '\'' || c == '"')
            quote = c;
        depth += c == '[' || c == '(';
        depth -= (c == ']' || c == ')') && depth > 0;
        if (depth == 0) {
            *out = (struct str){rest->at, i + 1};
            *rest = (struct str){rest->at + i + 1, rest->len - i - 1};
            return out->at[0] == '[' && c == ']';
        }
    }
    return false;
}

static bool word(struct str *rest, struct str *out)
{
    *rest = str_trim(*rest);
    size_t len = 0;
    while (len < rest->len && !is_one_of(rest->at[len], ",)}: \n"))
        len++;
    *out = (struct str){rest->at, len};
    *rest = (struct str){rest->at + len, rest->len - len};
    return len > 0;
}

/* Parses a shape: (3,), (), (2, 3), or (2L, 3L) as Python 2 writes it. */
static bool shape_parse(struct str *rest, struct npy *npy)
{
    if (!skip(rest, '('))
        return false;
    npy->n_dims = 0;
    while (!skip(rest, ')')) {
        struct str digits;
        if (npy->n_dims == NPY_DIMS_MAX || !word(rest, &digits))
            return false;
        if (str_ends_with(digits, STR("L")))
            digits.len--;
        if (u64_parse(digits, 0, INT64_MAX, &npy->shape[npy->n_dims++], NULL) != 0)
            return false;
        if (!skip(rest, ',') && (rest->len == 0 || rest->at[0] != ')'))
            return false;
    }
    return true;
}

static bool descr_parse(struct str *rest, struct npy *npy)
{
    return quoted(rest, &npy->descr) || bracketed(rest, &npy->descr);
}

static bool order_parse(struct str *rest, struct npy *npy)
{
    struct str truth;
    if (!word(rest, &truth) || (!str_equal(truth, STR("True")) && !str_equal(truth, STR("False"))))
        return false;
    npy->is_fortran = str_equal(truth, STR("True"));
    return true;
}

static const struct {
    const char *key;
    bool (*parse)(struct str *rest, struct npy *npy);
} fields[] = {{"descr", descr_parse}, {"fortran_order", order_parse}, {"shape", shape_parse}};

static bool dictionary_parse(struct str rest, struct npy *npy)
{
    unsigned seen = 0;
    if (!skip(&rest, '{'))
        return false;
    while (!skip(&rest, '}')) {
        struct str key;
        size_t i = 0;
        if (!quoted(&rest, &key) || !skip(&rest, ':'))
            return false;
        while (i < countof(fields) && !str_equal(key, str_of(fields[i].key)))
            i++;
        if (i == countof(fields) || seen & 1u << i || !fields[i].parse(&rest, npy))
            return false;
        seen |= 1u << i;
        if (!skip(&rest, ',') && (rest.len == 0 || rest.at[0] != '}'))
            return false;
    }
    return seen == (1u << countof(fields)) - 1 && str_trim(rest).len == 0;
}

/* ---- sizes ---- */

/*
 * Parses a type such as "<f8": byte order, kind, bytes of an element; for kind U, characters of
 * four bytes each. False for an unknown type.
 */
static bool scalar_bytes(struct str descr, uint64_t *bytes)
{
    bool has_order = descr.len > 0 && is_one_of(descr.at[0], "<>|=");
    struct str rest = {descr.at + has_order, descr.len - has_order};
    if (rest.len < 2 || !is_one_of(rest.at[0], "biufcSUVMm"))
        return false;
    struct str digits = {rest.at + 1, rest.len - 1};
    const char *unit = memchr(digits.at, '[', digits.len); /* M8[ns] */
    if (unit)
        digits.len = (size_t)(unit - digits.at);
    if (u64_parse(digits, 0, UINT32_MAX, bytes, NULL) != 0)
        return false;
    *bytes *= rest.at[0] == 'U' ? 4 : 1;
    return true;
}

/* Skips 'name' or ('title', 'name'). */
static bool field_name_skip(struct str *rest)
{
    struct str name;
    if (!skip(rest, '('))
        return quoted(rest, &name);
    return quoted(rest, &name) && skip(rest, ',') && quoted(rest, &name) && skip(rest, ')');
}

static bool fields_bytes(struct str *rest, unsigned depth, uint64_t *bytes);

/*
 * The bytes of a field: ('name', '<f4'), ('name', '<f4', (3,)) or ('name', [...]); `rest` begins
 * behind the "(".
 */
/* NOLINTNEXTLINE(misc-no-recursion): at most FIELDS_DEPTH_MAX deep */
static bool field_bytes(struct str *rest, unsigned depth, uint64_t *bytes)
{
    struct npy inner = {0};
    struct str type;
    if (!field_name_skip(rest) || !skip(rest, ','))
        return false;
    bool is_list = skip(rest, '[');
    if (is_list ? !fields_bytes(rest, depth + 1, bytes)
                : !quoted(rest, &type) || !scalar_bytes(type, bytes))
        return false;
    if (skip(rest, ',') && (rest->len == 0 || rest->at[0] != ')') && !shape_parse(rest, &inner))
        return false;
    for (size_t i = 0; i < inner.n_dims; i++)
        if (__builtin_mul_overflow(*bytes, inner.shape[i], bytes))
            return false;
    return skip(rest, ')');
}

/* The bytes of a structured type, the sum of its fields; `rest` begins behind the "[". */
/* NOLINTNEXTLINE(misc-no-recursion): see above */
static bool fields_bytes(struct str *rest, unsigned depth, uint64_t *bytes)
{
    *bytes = 0;
    if (depth > FIELDS_DEPTH_MAX)
        return false;
    while (!skip(rest, ']')) {
        uint64_t field;
        if (!skip(rest, '(') || !field_bytes(rest, depth, &field) ||
            __builtin_add_overflow(*bytes, field, bytes))
            return false;
        if (!skip(rest, ',') && (rest->len == 0 || rest->at[0] != ']'))
            return false;
    }
    return true;
}

static bool descr_bytes(struct str descr, uint64_t *bytes)
{
    struct str rest = descr;
    if (!skip(&rest, '['))
        return scalar_bytes(descr, bytes);
    return fields_bytes(&rest, 0, bytes) && rest.len == 0;
}

int npy_head_fail(const char *name, struct err *err)
{
    return fail(err, ERR_DATA, "%s: the head of the array is cut off, or of an unknown version",
                name);
}

int npy_parse(struct npy *npy, const char *name, struct str head, uint64_t file_bytes,
              struct err *err)
{
    size_t begin =
        npy_head_bytes(head) && head.at[MAGIC_BYTES] == 1 ? SHORT_HEAD_BYTES : LONG_HEAD_BYTES;
    *npy = (struct npy){.data_at = npy_head_bytes(head)};
    npy->version = npy->data_at ? (uint8_t)head.at[MAGIC_BYTES] : 0;
    if (npy->data_at == 0 || npy->data_at > file_bytes || npy->data_at > head.len)
        return npy_head_fail(name, err);
    if (!dictionary_parse((struct str){head.at + begin, (size_t)npy->data_at - begin}, npy))
        return fail(err, ERR_DATA, "%s: the head of the array is not one that numpy writes", name);
    if (str_ends_with(npy->descr, STR("O")) ||
        (npy->descr.at[0] == '[' && memmem(npy->descr.at, npy->descr.len, "'|O'", 4)))
        return fail(err, ERR_DATA,
                    "%s: an array of Python objects is a pickle, which is not run here; save "
                    "numbers or text",
                    name);
    if (!descr_bytes(npy->descr, &npy->element_bytes))
        return fail(err, ERR_DATA, "%s: elements of an unknown type, %.*s", name,
                    (int)MIN(npy->descr.len, (size_t)40), npy->descr.at);
    npy->data_bytes = file_bytes - npy->data_at;
    uint64_t bytes = npy->element_bytes;
    for (size_t i = 0; i < npy->n_dims; i++)
        if (__builtin_mul_overflow(bytes, npy->shape[i], &bytes))
            return fail(err, ERR_DATA, "%s: a shape beyond 64 bits", name);
    if (bytes != npy->data_bytes)
        return fail(err, ERR_DATA, "%s: its shape asks for %lu bytes, %lu are there", name, bytes,
                    npy->data_bytes);
    return 0;
}
