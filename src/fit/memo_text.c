/* SPDX-License-Identifier: Apache-2.0
 *
 * The file fit.json: {"version":1,"fits":[{…},…]}.
 */
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/xalloc.h"
#include "fit/memo.h"

void fit_signature_release(struct fit_signature *signature)
{
    free(signature->command);
    free(signature->program);
    free(signature->device);
    *signature = (struct fit_signature){0};
}

void fit_memo_release(struct fit_memo *memo)
{
    fit_signature_release(&memo->of);
    free(memo->wish);
    free(memo->when);
    *memo = (struct fit_memo){0};
}

void fit_memos_release(struct fit_memos *memos)
{
    for (size_t i = 0; i < memos->len; i++)
        fit_memo_release(&memos->at[i]);
    free(memos->at);
    *memos = (struct fit_memos){0};
}

static bool bytes_parse(struct str object, const char *key, uint64_t *out)
{
    struct str value;
    return json_get(object, key, &value) && json_to_u64(value, out);
}

static bool number_parse(struct str object, const char *key, double *out)
{
    struct str value;
    return json_get(object, key, &value) && json_to_double(value, out) && isfinite(*out);
}

static bool text_parse(struct str object, const char *key, char **out)
{
    *out = json_text_new(object, key, FIT_TEXT_BYTES_MAX);
    return *out != NULL;
}

static bool memo_parse(struct str object, struct fit_memo *memo)
{
    return text_parse(object, "command", &memo->of.command) &&
           text_parse(object, "program", &memo->of.program) &&
           text_parse(object, "device", &memo->of.device) &&
           bytes_parse(object, "device_bytes", &memo->of.device_bytes) &&
           text_parse(object, "wish", &memo->wish) && text_parse(object, "when", &memo->when) &&
           bytes_parse(object, "batch", &memo->batch) && memo->batch > 0 &&
           bytes_parse(object, "peak_bytes", &memo->peak_bytes) &&
           bytes_parse(object, "limit_bytes", &memo->limit_bytes) &&
           number_parse(object, "rate", &memo->rate) && memo->rate >= 0 &&
           number_parse(object, "fixed_bytes", &memo->fixed_bytes) &&
           number_parse(object, "item_bytes", &memo->item_bytes) && memo->item_bytes >= 0;
}

bool fit_memos_parse(struct str text, struct fit_memos *out)
{
    struct str list, element;
    uint64_t version;
    bool is_begun = false, is_good = true;
    *out = (struct fit_memos){0};
    if (!json_is_object(text) || !bytes_parse(text, "version", &version) || version != 1 ||
        !json_get(text, "fits", &list) || json_kind_of(list) != JSON_ARRAY)
        return false;
    while (is_good && json_element(&list, &is_begun, &element)) {
        struct fit_memo memo = {0};
        is_good = out->len < FIT_MEMOS_MAX && json_kind_of(element) == JSON_OBJECT &&
                  memo_parse(element, &memo);
        out->at = xrealloc(out->at, (out->len + 1) * sizeof(*out->at));
        out->at[out->len++] = memo;
    }
    if (!is_good)
        fit_memos_release(out);
    return is_good;
}

static void text_add(struct buf *out, const char *key, const char *text)
{
    buf_addf(out, "\"%s\":", key);
    buf_add_json(out, str_of(text));
    buf_add_char(out, ',');
}

static void number_add(struct buf *out, const char *key, double value)
{
    buf_addf(out, "\"%s\":", key);
    buf_add_json_double(out, value);
}

static void memo_format(const struct fit_memo *memo, struct buf *out)
{
    buf_add_char(out, '{');
    text_add(out, "command", memo->of.command);
    text_add(out, "program", memo->of.program);
    text_add(out, "device", memo->of.device);
    buf_addf(out, "\"device_bytes\":%lu,", memo->of.device_bytes);
    text_add(out, "wish", memo->wish);
    text_add(out, "when", memo->when);
    buf_addf(out, "\"batch\":%lu,\"peak_bytes\":%lu,\"limit_bytes\":%lu,", memo->batch,
             memo->peak_bytes, memo->limit_bytes);
    number_add(out, "rate", memo->rate);
    buf_add_char(out, ',');
    number_add(out, "fixed_bytes", memo->fixed_bytes);
    buf_add_char(out, ',');
    number_add(out, "item_bytes", memo->item_bytes);
    buf_add_char(out, '}');
}

void fit_memos_format(const struct fit_memos *memos, struct buf *out)
{
    buf_add_text(out, "{\"version\":1,\"fits\":[");
    for (size_t i = 0; i < memos->len; i++) {
        buf_add_text(out, i > 0 ? ",\n" : "\n");
        memo_format(&memos->at[i], out);
    }
    buf_add_text(out, "\n]}\n");
}
