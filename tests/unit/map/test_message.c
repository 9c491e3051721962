/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/json.h"
#include "map/message.h"

#define NO_ITEM UINT64_MAX

static void a_message_is_whole_flawed_or_none(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum message_form form;
        uint64_t item;
        const char *flaw;
    } cases[] = {
        {"{\"done\":17,\"result\":{\"a\":[1]}}", MESSAGE_WHOLE, 17, NULL},
        {" { \"result\" : 1 , \"done\" : 17.0 } ", MESSAGE_WHOLE, 17, NULL},
        {"{\"d\\u006fne\":1e2}", MESSAGE_WHOLE, 100, NULL},
        {"{\"fail\":0,\"error\":\"x\"}", MESSAGE_WHOLE, 0, NULL},
        {"{\"done\":-0}", MESSAGE_WHOLE, 0, NULL},
        {"{\"done\":-1}", MESSAGE_WHOLE, NO_ITEM, NULL},
        {"{\"done\":1.5}", MESSAGE_WHOLE, NO_ITEM, NULL},
        {"{\"done\":\"17\"}", MESSAGE_WHOLE, NO_ITEM, NULL},
        {"{\"done\":1,\"fail\":2}", MESSAGE_WHOLE, NO_ITEM, NULL},
        {"{}", MESSAGE_WHOLE, NO_ITEM, NULL},
        {"{\"done\":17,\"result\":NaN}", MESSAGE_FLAWED, 17, "has NaN"},
        {"{\"result\":[Infinity,\"}\"],\"done\":17}", MESSAGE_FLAWED, 17, "has NaN"},
        {"{\"result\":\"a\\\",\\\"done\\\":5\xff\",\"done\":17}", MESSAGE_FLAWED, 17,
         "is not UTF-8"},
        {"{\"done\":17,\"result\":\"\t\"}", MESSAGE_FLAWED, 17, "control character"},
        {"{\"done\":17,\"result\":\"\\u12\"}", MESSAGE_FLAWED, 17, "wrong escape"},
        {"{\"done\":17,\"result\":01}", MESSAGE_FLAWED, 17, "no JSON"},
        {"{\"done\":17,\"result\":}", MESSAGE_FLAWED, 17, "no JSON"},
        {"{\"done\":17,\"result\":[1,]}", MESSAGE_FLAWED, 17, "no JSON"},
        {"{\"done\":17,\"result\":1,\"result\":2}", MESSAGE_FLAWED, 17, "a member twice"},
        {"{\"done\":17,\"\\u0064one\":18}", MESSAGE_FLAWED, NO_ITEM, "a member twice"},
        {"{\"done\":NaN}", MESSAGE_FLAWED, NO_ITEM, "has NaN"},
        {"{\"ready\":1,\"ready\":1}", MESSAGE_FLAWED, NO_ITEM, "a member twice"},
        {"", MESSAGE_NONE, NO_ITEM, NULL},
        {"hello", MESSAGE_NONE, NO_ITEM, NULL},
        {"[{\"done\":1}]", MESSAGE_NONE, NO_ITEM, NULL},
        {"{\"a\":1} x", MESSAGE_NONE, NO_ITEM, NULL},
        {"{", MESSAGE_NONE, NO_ITEM, NULL},
        {"{\"result\":\"cut", MESSAGE_NONE, NO_ITEM, NULL},
        {"{\"result\":[1,2", MESSAGE_NONE, NO_ITEM, NULL},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct message message;
        uint64_t item = NO_ITEM;
        enum message_form form = message_parse(str_of(cases[i].line), &message);
        if (form != cases[i].form)
            fail_msg("%s has form %d", cases[i].line, form);
        if (!message_item(&message, &item))
            item = NO_ITEM;
        if (item != cases[i].item)
            fail_msg("%s is about item %lu", cases[i].line, item);
        if (cases[i].flaw && !strstr(message.flaw, cases[i].flaw))
            fail_msg("%s %s", cases[i].line, message.flaw);
    }
}

static void a_message_that_is_cut_off_tells_what_it_began_with(void **state)
{
    (void)state;
    struct message message;
    uint64_t item = 0;
    struct str line = STR("{\"done\":17,\"result\":\"xxxxx");
    assert_int_equal(message_parse(line, &message), MESSAGE_NONE);
    assert_true(message_item(&message, &item));
    assert_int_equal(item, 17);
    assert_null(message.result.at);
}

static void the_flaw_is_shown_with_what_stands_around_it(void **state)
{
    (void)state;
    struct message message;
    struct buf line = BUF_INIT, why = BUF_INIT;
    buf_add_text(&line, "{\"done\":17,\"result\":{\"text\":\"");
    for (int i = 0; i < 1000; i++)
        buf_add_text(&line, "\u00e9");
    buf_add_text(&line, "\",\"loss\":NaN,\"more\":\"\x1b[31m");
    for (int i = 0; i < 1000; i++)
        buf_add_text(&line, "\u00e9");
    buf_add_text(&line, "\"}}");
    assert_int_equal(message_parse(buf_str(&line), &message), MESSAGE_FLAWED);
    message_flaw_add(message.flaw, message.flaw_at, buf_str(&line), &why);
    assert_non_null(strstr(buf_text(&why), "\u00e9\",\"loss\":NaN,\"more\":\""));
    assert_null(strchr(buf_text(&why), '\x1b'));
    assert_true(utf8_is_valid(buf_str(&why)));
    assert_true(why.len < 200);
    buf_release(&line);
    buf_release(&why);
}

/* A hundred thousand levels, and a name of a million bytes: the cost is that of the bytes. */
static void depth_and_length_are_no_trouble(void **state)
{
    (void)state;
    struct message message;
    struct buf line = BUF_INIT;
    uint64_t item = 0;
    buf_add_text(&line, "{\"");
    for (int i = 0; i < 1000000; i++)
        buf_add_char(&line, 'n');
    buf_add_text(&line, "\":1,\"done\":3,\"result\":");
    for (int i = 0; i < 100000; i++)
        buf_add_text(&line, "[{\"a\":");
    buf_add_char(&line, '1');
    for (int i = 0; i < 100000; i++)
        buf_add_text(&line, "}]");
    buf_add_text(&line, "}");
    assert_int_equal(message_parse(buf_str(&line), &message), MESSAGE_FLAWED);
    assert_true(message_item(&message, &item) && item == 3);
    assert_string_equal(message.flaw, "is nested deeper than 512 levels");
    assert_int_equal(message.unknown.len, 1000000);
    buf_release(&line);
}

static void a_line_of_a_filter_fails_when_it_is_an_object_but_for_its_values(void **state)
{
    (void)state;
    struct failed_line failed;
    assert_true(failed_line_parse(STR("{\"id\":7,\"loss\":NaN}\n"), NULL, &failed));
    assert_true(failed_line_parse(STR("{\"loss\":NaN,\"\\u0069d\":7}\n"), "id", &failed));
    assert_true(str_equal(failed.key_value, STR("7")));
    assert_false(failed_line_parse(STR("{\"loss\":NaN}\n"), "id", &failed));
    assert_false(failed_line_parse(STR("{\"id\":NaN}\n"), "id", &failed));
    assert_false(failed_line_parse(STR("NaN\n"), NULL, &failed));
    assert_false(failed_line_parse(STR("INFO: {\"a\":1}\n"), NULL, &failed));
    assert_false(failed_line_parse(STR("{'a': 1}\n"), NULL, &failed));
    assert_false(failed_line_parse(STR("{\"a\":1}{\"a\":1}\n"), NULL, &failed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_whole_flawed_or_none),
        cmocka_unit_test(a_message_that_is_cut_off_tells_what_it_began_with),
        cmocka_unit_test(the_flaw_is_shown_with_what_stands_around_it),
        cmocka_unit_test(depth_and_length_are_no_trouble),
        cmocka_unit_test(a_line_of_a_filter_fails_when_it_is_an_object_but_for_its_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
