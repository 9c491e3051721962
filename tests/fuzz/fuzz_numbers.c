/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole numbers, sizes, durations, and the nearest word: no text is read as a value out of range,
 * and what is written reads back, as near as it is written.
 */
#include "base/parse.h"
#include "base/suggest.h"
#include "fuzz.h"

static void check_u64(struct str text)
{
    uint64_t value, again;
    char digits[24];
    if (u64_parse(text, 0, UINT64_MAX, &value, NULL) != 0)
        return;
    snprintf(digits, sizeof(digits), "%lu", value);
    ASSERT(u64_parse(str_of(digits), value, value, &again, NULL) == 0 && again == value);
    ASSERT(value == 0 || u64_parse(text, 0, value - 1, &again, NULL) == ERR_USAGE);
}

/* It takes what u64_parse() takes, and more, which is made of the same digits. */
static void check_python(struct str text)
{
    uint64_t value, plain = 0;
    int rc = python_u64_parse(text, 0, UINT64_MAX, &value, NULL);
    if (u64_parse(text, 0, UINT64_MAX, &plain, NULL) == 0)
        ASSERT(rc == 0 && value == plain);
    for (size_t i = 0; rc == 0 && i < text.len; i++)
        ASSERT(strchr("0123456789+_ \t\r\n", text.at[i]));
}

static void check_size(struct str text)
{
    uint64_t bytes, again;
    char words[16];
    if (size_parse(text, &bytes, NULL) != 0)
        return;
    ASSERT(bytes <= UINT64_C(1) << 63);
    size_format(words, bytes);
    /* "9.5 PiB" is for people only: there is no such unit to type. */
    if (strstr(words, "PiB"))
        return;
    ASSERT(size_parse(str_of(words), &again, NULL) == 0);
    ASSERT((again > bytes ? again - bytes : bytes - again) <= bytes / 15 + 1);
}

static void check_duration(struct str text)
{
    uint64_t ms, again;
    char words[24];
    if (duration_parse(text, &ms, NULL) != 0)
        return;
    ASSERT(ms <= UINT64_C(1) << 53);
    duration_format(words, ms);
    ASSERT(duration_parse(str_of(words), &again, NULL) == 0);
    ASSERT((again > ms ? again - ms : ms - again) <= ms / 10 + 50);
}

static void check_double(struct str text)
{
    double value;
    if (double_parse(text, &value, NULL) == 0)
        ASSERT(value - value == 0); /* neither infinite nor no number */
}

static void check_words(struct str text)
{
    static const char *const words[] = {"lost", "ill", "busy", "batch", "gpus-per-worker", ""};
    char word[128], count[32];
    snprintf(word, sizeof(word), "%.*s", (int)text.len, text.len ? text.at : "");
    const char *near = suggest(word, words, countof(words));
    for (size_t i = 0; i < countof(words); i++)
        ASSERT(strcmp(word, words[i]) != 0 || near == words[i]);
    count_format(count, text.len * UINT64_C(0x9e3779b97f4a7c15));
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct err err = {0};
    uint64_t unwanted;
    check_u64(text);
    check_python(text);
    check_size(text);
    check_duration(text);
    check_double(text);
    check_words(text);
    if (size_parse(text, &unwanted, &err) != 0)
        ASSERT(err.code == ERR_USAGE && memchr(err.text, '\0', sizeof(err.text)));
    return 0;
}
