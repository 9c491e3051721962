/* SPDX-License-Identifier: Apache-2.0
 *
 * What a channel worker's line says, taken apart and not yet understood. Pure.
 */
#pragma once

#include "base/buf.h"

enum message_form {
    MESSAGE_WHOLE,  /* a JSON object, and no member that is known occurs twice */
    MESSAGE_FLAWED, /* its members can be told apart; `flaw` says what is wrong with it */
    MESSAGE_NONE    /* no object, several, or one that is cut off: the members up to there */
};

/* Absent members have at == NULL. Views into the line. */
struct message {
    struct str ready, done, fail, oom, loaded, result, metrics, error, retry, batch;
    struct str unknown; /* the name of a member that is none of these */
    const char *flaw;   /* to be put behind "it" */
    struct str flaw_at; /* the piece that shows it, may be empty */
    bool names_twice;   /* "done" or "fail" occurs twice */
};

enum message_form message_parse(struct str line, struct message *message);
/* The number of the item that it is about. False if it names none, or perhaps another one. */
bool message_item(const struct message *message, uint64_t *item);
/* What goes with an item, and no item: whoever waits for that would wait for ever. */
bool message_lacks_item(const struct message *message);

/* A line of a filter that is an object but for what is in it. */
struct failed_line {
    const char *flaw;
    struct str flaw_at, key_value;
};
/* key: the member that key_value is of; NULL if none is wanted. */
MUST_CHECK bool failed_line_parse(struct str line, const char *key, struct failed_line *out);

/* "it is not UTF-8: ..." for people: the flaw, and what stands around it in the line. */
void flaw_add(const char *flaw, struct str flaw_at, struct str line, struct buf *out);
