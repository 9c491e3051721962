/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of a channel worker's message, not yet interpreted. Pure.
 */
#pragma once

#include "base/buf.h"

enum message_form {
    MESSAGE_WHOLE,  /* a JSON object in which no known member occurs twice */
    MESSAGE_FLAWED, /* its members can be told apart; `flaw` says what is wrong with it */
    MESSAGE_NONE    /* not one whole object; the members up to the fault are set */
};

/* Absent members have at == NULL. Views into the line. */
struct message {
    struct str ready, done, fail, oom, loaded, result, metrics, error, retry, batch;
    struct str unknown; /* the name of a member that is not known */
    const char *flaw;   /* completes a sentence that begins with "it" */
    struct str flaw_at; /* the piece that shows the flaw; may be empty */
    bool names_twice;   /* "done" or "fail" occurs twice */
};

enum message_form message_parse(struct str line, struct message *message);
/* The number of the item that the message is about. False if that is missing or uncertain. */
bool message_item(const struct message *message, uint64_t *item);
/*
 * True for a result or an error without the number of its item: without this check the item would be waited for
 * without end.
 */
bool message_lacks_item(const struct message *message);

/* A filter's line that is an object with a malformed value. */
struct failed_line {
    const char *flaw;
    struct str flaw_at, key_value;
};
/* key: the field whose value becomes key_value; NULL: none. */
MUST_CHECK bool failed_line_parse(struct str line, const char *key, struct failed_line *out);

/* Adds "it is not UTF-8: ...": the flaw, and the bytes around it in the line. */
void message_flaw_add(const char *flaw, struct str flaw_at, struct str line, struct buf *out);
