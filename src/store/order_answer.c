/* SPDX-License-Identifier: Apache-2.0 */
#include "store/order_answer.h"

#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"

enum {
    ANSWERS_MAX_BYTES = 1 << 20
};

/* Several lines of muster's own, with foreign words in them. */
static char *lines_new(const char *text)
{
    cleanup_buf struct buf out = BUF_INIT;
    if (!text)
        return NULL;
    console_lines_add(&out, str_of(text));
    return buf_steal(&out);
}

int order_answers_write(const char *dir, const struct order_answer *answers, size_t n_answers,
                        struct err *err)
{
    cleanup_free char *path = path_join(dir, "answers.json");
    json_t *root = json_array();
    for (size_t i = 0; i < n_answers; i++) {
        /* Both may repeat words of an order, which are any bytes. */
        cleanup_free char *refused = console_visible_new(answers[i].refused);
        cleanup_free char *told = lines_new(answers[i].told);
        json_array_append_new(root, json_pack("{s:s, s:s?, s:s?, s:b}", "order", answers[i].order,
                                              "refused", refused, "told", told, "is_wrong",
                                              answers[i].is_wrong));
    }
    char *text = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    int rc = text ? file_replace_fast(path, str_of(text), err)
                  : fail(err, ERR_DATA, "an answer to an order is no UTF-8");
    free(text);
    return rc;
}

static char *member_new(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? xstrdup(text) : NULL;
}

/* Another user may have written the file: anything malformed counts as no answer. */
bool order_answer_find(const char *dir, const char *order, struct found_answer *out)
{
    cleanup_free char *path = path_join(dir, "answers.json");
    cleanup_buf struct buf text = BUF_INIT;
    bool is_found = false;
    *out = (struct found_answer){0};
    if (plain_file_read(path, ANSWERS_MAX_BYTES, &text, NULL) != 0)
        return false;
    json_t *root = json_loadb(buf_text(&text), text.len, 0, NULL);
    for (size_t i = 0; i < json_array_size(root) && !is_found; i++) {
        const json_t *answer = json_array_get(root, i);
        const char *name = json_string_value(json_object_get(answer, "order"));
        is_found = name && strcmp(name, order) == 0;
        if (!is_found)
            continue;
        out->refused = member_new(answer, "refused");
        out->told = member_new(answer, "told");
        out->is_wrong = json_is_true(json_object_get(answer, "is_wrong"));
    }
    json_decref(root);
    return is_found;
}

void found_answer_release(struct found_answer *answer)
{
    free(answer->refused);
    free(answer->told);
    *answer = (struct found_answer){0};
}
