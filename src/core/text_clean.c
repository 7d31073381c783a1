/* Text from peers ends up in logs, tables and terminals: it is UTF-8 and nothing that
 * moves a cursor. */
#include "core/text.h"

#include <string.h>

/* The length of the well-formed sequence at p, or 0. Overlong forms, surrogates, values above
 * U+10FFFF and the control characters U+0080–U+009F are not well-formed here. */
static size_t sequence(const uint8_t *p, size_t n)
{
    uint32_t value;
    size_t len;

    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        len = 2;
        value = p[0] & 0x1fu;
    } else if ((p[0] & 0xf0) == 0xe0) {
        len = 3;
        value = p[0] & 0x0fu;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        len = 4;
        value = p[0] & 0x07u;
    } else {
        return 0;
    }
    if (n < len) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        value = value << 6 | (p[i] & 0x3fu);
    }
    if (value < 0xa0 || (len == 3 && value < 0x800) || (len == 4 && value < 0x10000)) {
        return 0;
    }
    if ((value >= 0xd800 && value <= 0xdfff) || value > 0x10ffff) {
        return 0;
    }
    return len;
}

bool text_valid(const uint8_t *text, size_t n)
{
    size_t i = 0;

    while (i < n) {
        if (text[i] >= 0x20 && text[i] < 0x7f) {
            i++;
            continue;
        }
        size_t len = sequence(text + i, n - i);

        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

void text_clean(char *text)
{
    size_t n = strlen(text);

    /* A text that was cut may end in the middle of a character. */
    for (int i = 0; i < 3 && n > 0 && (text[n - 1] & 0x80) != 0; i++) {
        if (text_valid((const uint8_t *)text, n)) {
            return;
        }
        text[--n] = '\0';
    }
    if (text_valid((const uint8_t *)text, n)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)text[i];

        if (byte < 0x20) {
            text[i] = ' ';
        } else if (byte >= 0x7f) {
            text[i] = '?';
        }
    }
}
