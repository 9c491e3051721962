/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fuzz targets share. A target takes any bytes, hands them to a parser and states what must
 * hold whatever they are; ASSERT and BUG say so. Built twice: with libFuzzer (tools/fuzz), and with
 * fuzz_main.c as a test that replays the corpus and its mutations.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte of the input, as a choice; 0 when there is none. */
static inline unsigned fuzz_choice(struct str *input)
{
    if (input->len == 0)
        return 0;
    unsigned choice = (unsigned char)input->at[0];
    input->at++;
    input->len--;
    return choice;
}

/* A folder of this process's own, made at the first call and removed at exit. */
const char *fuzz_folder(void);
/* <fuzz_folder()>/name, which then holds these bytes. Borrowed until the next call. */
const char *fuzz_file(const char *name, struct str content);
