/* Reading what people write: numbers, names, and quoting them back in an error. Texts are bytes
 * with a length, not always terminated. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include "base/base.h"
#include "core/message.h"

#include <stdarg.h>

/* Digits only, and a value in [min, max]; *out is set on success alone. */
bool text_number(const char *text, size_t text_n, uint64_t min, uint64_t max, uint64_t *out);

/* A job's or node's name: 1 to NAME_MAX_LEN - 1 of [A-Za-z0-9._-]. */
bool text_is_name(const char *text, size_t text_n);

/* Can it stand in a line of a text that people read? It ends with NUL, or after text_n bytes.
 * blanks: they may be in it. */
bool text_is_line(const char *text, size_t text_n, bool blanks);

/* The text between quotes, cut short if long, what is not printable shown as '?'. Returned by value
 * so that it can stand in an argument list: text_quote(s, n).text */
struct text_quoted {
    char text[44];
};
struct text_quoted text_quote(const char *text, size_t text_n);

/* UTF-8 without control characters: what a message may carry. */
bool text_valid(const uint8_t *text, size_t n);

/* Makes any terminated text valid, in place. One that was cut inside a character loses what is left
 * of that character; whatever else is not valid becomes ' ' or '?'. */
void text_clean(char *text);

/* Like snprintf, but the text is valid, also if it had to be cut, and the buffer is optional: no-op
 * if cap is 0. Whatever goes into a message or a record is written by this. */
void text_say(char *buffer, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void text_vsay(char *buffer, size_t cap, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

/* A number of bytes: "1023 B", "4.0 MiB", "1.2 GiB". */
#define TEXT_BYTES_MAX 24
const char *text_bytes(uint64_t bytes, char text[TEXT_BYTES_MAX]);

/* "n3.0#2" */
#define WID_TEXT_MAX 40
const char *wid_print(wid worker, char text[WID_TEXT_MAX]);

#endif
