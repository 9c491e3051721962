/* SPDX-License-Identifier: Apache-2.0
 *
 * Three readers of JSON judge the same text: muster's walker, libmuster's, and jansson, which is the
 * oracle. Then whatever is decoded, quoted, compacted and joined is held against them.
 */
#include "base/json.h"

#include "base/cleanup.h"
#include "base/json_identity.h"
#include "base/xalloc.h"
#include "data/result_merge_impl.h"
#include "fuzz.h"
#include "json_oracle.h"
#include "text.h"

static struct muster_text view(struct str text)
{
    return (struct muster_text){text.at, text.len};
}

static size_t n_brackets(struct str text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] == '[' || text.at[i] == '{';
    return count;
}

static bool check_verdicts(struct str text)
{
    const char *why;
    enum oracle_verdict oracle = oracle_judge(text, &why);
    bool is_value = json_is_value(text);
    if (is_value != mw_json_is_value(view(text)))
        BUG("muster says %d, libmuster %d", is_value, !is_value);
    if (oracle == ORACLE_TAKES && !is_value && n_brackets(text) <= JSON_DEPTH_MAX)
        BUG("refused what jansson takes");
    if (oracle == ORACLE_REFUSES && is_value)
        BUG("took what jansson refuses: %s", why);
    return is_value;
}

static void check_members(struct str object)
{
    struct json_members walk = json_members(object);
    const char *at = object.at, *end = at + object.len;
    struct str key, value;
    struct muster_text mw_key, mw_value;
    bool ok = true;
    while (json_next(&walk, &key, &value)) {
        at = mw_json_member(at, end, &mw_key, &mw_value, &ok);
        if (!at) { /* it looks at what follows the member, too */
            ASSERT(!ok && (!json_next(&walk, &key, &value) && walk.malformed));
            return;
        }
        ASSERT(mw_key.at == key.at && mw_key.len == key.len);
        ASSERT(mw_value.at == value.at && mw_value.len == value.len);
        ASSERT(json_is_value(value));
    }
    at = mw_json_member(at, end, &mw_key, &mw_value, &ok);
    if (at || ok == walk.malformed)
        BUG("muster finds the object %s, libmuster does not", walk.malformed ? "bad" : "good");
    if (json_is_object(object) && walk.malformed)
        BUG("the walk through an object does not reach its end");
}

static void check_text(struct str value)
{
    cleanup_buf struct buf text = BUF_INIT, quoted = BUF_INIT, again = BUF_INIT;
    size_t len = muster_json_decode(view(value), NULL, 0);
    bool is_text = json_to_text(value, &text);
    ASSERT(is_text == (len != SIZE_MAX));
    if (!is_text)
        return;
    cleanup_free char *decoded = xmalloc(len + 1);
    muster_json_decode(view(value), decoded, len + 1);
    ASSERT(str_equal(buf_str(&text), (struct str){decoded, len}) && utf8_is_valid(buf_str(&text)));
    buf_add_json(&quoted, buf_str(&text));
    ASSERT(json_to_text(buf_str(&quoted), &again) && str_equal(buf_str(&text), buf_str(&again)));
}

static void check_numbers(struct str value)
{
    uint64_t a = 0, b = 0;
    double number, oracle;
    if (json_to_u64(value, &a) != mw_json_u64(view(value), &b) || a != b)
        BUG("'%.*s' is %lu and %lu", (int)value.len, value.at, a, b);
    if (json_to_double(value, &number) && oracle_number(value, &oracle) && number != oracle)
        BUG("'%.*s' is read as %g", (int)value.len, value.at, number);
}

static void check_compact(struct str value)
{
    cleanup_buf struct buf compact = BUF_INIT, again = BUF_INIT;
    buf_add_json_compact(&compact, value);
    buf_add_json_compact(&again, buf_str(&compact));
    ASSERT(str_equal(buf_str(&compact), buf_str(&again)));
    ASSERT(json_is_value(buf_str(&compact)) && !memchr(compact.at, '\n', compact.len));
    ASSERT(oracle_is_equal(value, buf_str(&compact)));
}

/* A value is the same in another layout, and what it is known by is known by itself. */
static void check_identity(struct str value)
{
    cleanup_buf struct buf compact = BUF_INIT, first = BUF_INIT, second = BUF_INIT,
                           third = BUF_INIT, number = BUF_INIT;
    buf_add_json_compact(&compact, value);
    buf_add_json_identity(&first, value);
    buf_add_json_identity(&second, buf_str(&compact));
    if (!str_equal(buf_str(&first), buf_str(&second)))
        BUG("known by %s, and compact by %s", buf_text(&first), buf_text(&second));
    buf_add_json_identity(&third, buf_str(&first));
    if (!str_equal(buf_str(&first), buf_str(&third)))
        BUG("%s is known by %s", buf_text(&first), buf_text(&third));
    uint64_t whole, digits;
    if (json_kind_of(value) == JSON_NUMBER && json_to_u64(value, &digits))
        ASSERT(json_to_whole(value, &whole) && whole == digits);
    if (buf_add_number_identity(&number, value))
        ASSERT(str_equal(buf_str(&number), buf_str(&first)));
}

/* Any bytes as a string, and through base64, and back. */
static void check_quoting(struct str bytes)
{
    cleanup_buf struct buf quoted = BUF_INIT, text = BUF_INIT, base64 = BUF_INIT;
    struct mw_buf mw = {0};
    buf_add_json(&quoted, bytes);
    ASSERT(mw_buf_add_json(&mw, view(bytes)));
    ASSERT(json_to_text(buf_str(&quoted), &text));
    ASSERT(!utf8_is_valid(bytes) || str_equal(buf_str(&text), bytes));
    cleanup_free char *decoded = xmalloc(text.len + 1);
    ASSERT(muster_json_decode((struct muster_text){mw.at, mw.len}, decoded, text.len + 1) ==
           text.len);
    ASSERT(memcmp(decoded, buf_text(&text), text.len) == 0);
    mw_buf_release(&mw);
    buf_add_base64(&base64, bytes);
    size_t len = base64.len;
    ASSERT(mw_base64_decode(base64.at, &len));
    ASSERT(str_equal((struct str){base64.at, len}, bytes));
}

static void check_join(struct str text)
{
    struct str rest = text, input;
    cleanup_buf struct buf joined = BUF_INIT;
    str_next(&rest, '\n', &input);
    if (!json_is_value(rest))
        return;
    if (join_records(input, rest, &joined, NULL) != 0)
        ASSERT(!json_is_value(input));
    else if (!json_is_value(buf_str(&joined)) && n_brackets(text) <= JSON_DEPTH_MAX - 1)
        BUG("joined to %s", buf_text(&joined));
}

int fuzz_target(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str text = {(const char *)data, size};
    if (check_verdicts(text)) {
        check_compact(text);
        check_identity(str_trim(text));
    }
    struct str trimmed = str_trim(text);
    if (trimmed.len > 0 && trimmed.at[0] == '{')
        check_members(trimmed);
    check_text(text);
    check_numbers(text);
    check_quoting(text);
    check_join(text);
    return 0;
}
