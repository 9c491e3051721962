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

int order_answers_write(const char *dir, const struct order_answer *answers, size_t n_answers,
                        struct err *err)
{
    cleanup_free char *path = path_join(dir, "answers.json");
    json_t *root = json_array();
    for (size_t i = 0; i < n_answers; i++) {
        /* It may repeat words of an order, which are any bytes. */
        cleanup_free char *refused = console_visible_new(answers[i].refused);
        json_array_append_new(
            root, json_pack("{s:s, s:s?}", "order", answers[i].order, "refused", refused));
    }
    char *text = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    int rc = text ? file_replace_fast(path, str_of(text), err)
                  : fail(err, ERR_DATA, "an answer to an order is no UTF-8");
    free(text);
    return rc;
}

/* The file may be anybody's: whatever is not as it should be is no answer. */
bool order_answer_find(const char *dir, const char *order, char **refused)
{
    cleanup_free char *path = path_join(dir, "answers.json");
    cleanup_buf struct buf text = BUF_INIT;
    bool is_found = false;
    if (plain_file_read(path, ANSWERS_MAX_BYTES, &text, NULL) != 0)
        return false;
    json_t *root = json_loadb(buf_text(&text), text.len, 0, NULL);
    for (size_t i = 0; i < json_array_size(root) && !is_found; i++) {
        const json_t *answer = json_array_get(root, i);
        const char *name = json_string_value(json_object_get(answer, "order"));
        const char *why = json_string_value(json_object_get(answer, "refused"));
        is_found = name && strcmp(name, order) == 0;
        *refused = is_found && why ? xstrdup(why) : NULL;
    }
    json_decref(root);
    return is_found;
}
