#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool text_number(const char *text, size_t text_n, uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text_n; i++) {
        uint64_t digit = (uint64_t)text[i] - '0';
        if (digit > 9 || value > (max - MIN(digit, max)) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (text_n == 0 || value < min || value > max) {
        return false;
    }
    *out = value;
    return true;
}

bool text_is_name(const char *text, size_t text_n)
{
    if (text_n < 1 || text_n >= NAME_MAX_LEN) {
        return false;
    }
    for (size_t i = 0; i < text_n; i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-')) {
            return false;
        }
    }
    return true;
}

bool text_is_line(const char *text, size_t text_n, bool blanks)
{
    for (size_t i = 0; i < text_n && text[i] != '\0'; i++) {
        if ((uint8_t)text[i] < ' ' || text[i] == 0x7f || (!blanks && text[i] == ' ')) {
            return false;
        }
    }
    return true;
}

struct text_quoted text_quote(const char *text, size_t text_n)
{
    struct text_quoted q = {.text = "\""};
    size_t shown_n = MIN(text_n, sizeof(q.text) - 6);

    for (size_t i = 0; i < shown_n; i++) {
        q.text[1 + i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    strcpy(q.text + 1 + shown_n, shown_n < text_n ? "...\"" : "\"");
    return q;
}

void text_say(char *buffer, size_t cap, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    text_vsay(buffer, cap, fmt, args);
    va_end(args);
}

void text_vsay(char *buffer, size_t cap, const char *fmt, va_list args)
{
    if (cap > 0) {
        (void)vsnprintf(buffer, cap, fmt, args);
        text_clean(buffer);
    }
}

const char *text_bytes(uint64_t bytes, char text[TEXT_BYTES_MAX])
{
    static const char *const UNITS[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double n = (double)bytes / 1024;
    size_t unit = 0;

    while (n >= 1023.95 && unit + 1 < ARRAY_LEN(UNITS)) { /* It would be shown as 1024.0. */
        n /= 1024;
        unit++;
    }
    if (bytes < 1024) {
        snprintf(text, TEXT_BYTES_MAX, "%" PRIu64 " B", bytes);
    } else {
        snprintf(text, TEXT_BYTES_MAX, "%.1f %s", n, UNITS[unit]);
    }
    return text;
}

const char *wid_print(wid worker, char text[WID_TEXT_MAX])
{
    snprintf(text, WID_TEXT_MAX, "n%" PRIu32 ".%" PRIu32 "#%" PRIu32, wid_node(worker),
             wid_slot(worker), wid_incarnation(worker));
    return text;
}
