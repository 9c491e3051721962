/* SPDX-License-Identifier: Apache-2.0 */
#include "json_oracle.h"

#include <jansson.h>

static json_t *load(struct str text, json_error_t *why)
{
    return json_loadb(text.at, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, why);
}

enum oracle_verdict oracle_judge(struct str text, const char **why)
{
    static json_error_t error;
    *why = "it stumbles over NUL";
    if (memchr(text.at, '\0', text.len))
        return ORACLE_CANNOT;
    json_t *tree = load(text, &error);
    *why = error.text;
    if (tree) {
        json_decref(tree);
        return ORACLE_TAKES;
    }
    enum json_error_code code = json_error_code(&error);
    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
                   code == json_error_stack_overflow || strstr(error.text, "Unicode")
               ? ORACLE_CANNOT
               : ORACLE_REFUSES;
}

bool oracle_is_equal(struct str a, struct str b)
{
    json_error_t unwanted;
    json_t *first = load(a, &unwanted), *second = load(b, &unwanted);
    bool is_equal = !first == !second && (!first || json_equal(first, second));
    json_decref(first);
    json_decref(second);
    return is_equal;
}

bool oracle_number(struct str text, double *out)
{
    json_error_t unwanted;
    json_t *tree = load(text, &unwanted);
    bool is_number = json_is_number(tree);
    *out = json_number_value(tree);
    json_decref(tree);
    return is_number;
}
