/* SPDX-License-Identifier: Apache-2.0 */
#include "base/talk.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/xalloc.h"

static void PRINTF(2, 0) talk_line(const char *speaker, const char *fmt, va_list args)
{
    cleanup_free char *text = xvasprintf(fmt, args);
    cleanup_buf struct buf line = BUF_INIT;
    console_visible_add(&line, str_of(speaker));
    buf_add_text(&line, ": ");
    console_visible_add(&line, str_of(text));
    buf_add_char(&line, '\n');
    fwrite(line.at, 1, line.len, stderr);
}

void talk_va(const char *fmt, va_list args)
{
    talk_line("muster", fmt, args);
}

void talk(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    talk_line("muster", fmt, args);
    va_end(args);
}

void talk_as(const char *speaker, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    talk_line(speaker, fmt, args);
    va_end(args);
}

void print_line(const char *fmt, ...)
{
    va_list args;
    cleanup_buf struct buf line = BUF_INIT;
    va_start(args, fmt);
    cleanup_free char *text = xvasprintf(fmt, args);
    va_end(args);
    console_visible_add(&line, str_of(text));
    buf_add_char(&line, '\n');
    fwrite(line.at, 1, line.len, stdout);
}
