#include "cli/setting_text.h"

#include "orchestrator/setting_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 160 /* bytes of a value, in a line */

/* One byte as it may stand on a terminal. */
static int escape(uint8_t byte, bool is_text, char out[8])
{
    if (byte == '\n') {
        return snprintf(out, 8, "\\n");
    }
    if (byte == '\\') {
        return snprintf(out, 8, "\\\\");
    }
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) {
        return snprintf(out, 8, "\\x%02x", byte);
    }
    return snprintf(out, 8, "%c", byte);
}

/* Control characters of U+0080 to U+009F are two bytes that begin with 0xc2. */
static bool is_text(const uint8_t *value, size_t n)
{
    json_t *text = json_stringn((const char *)value, n);
    bool ok = text != NULL;

    json_decref(text);
    for (size_t i = 0; ok && i + 1 < n; i++) {
        ok = value[i] != 0xc2 || value[i + 1] >= 0xa0;
    }
    return ok;
}

static void show_value(const struct rec_config *r, char *buf, size_t cap)
{
    uint32_t shown_n = MIN(r->value_n, SHOWN_MAX);
    size_t at = 0;

    while (shown_n < r->value_n && shown_n > 0 && (r->value[shown_n] & 0xc0) == 0x80) {
        shown_n--; /* not in the middle of a character */
    }
    const bool text = is_text(r->value, shown_n);

    buf[0] = '\0';
    for (uint32_t i = 0; i < shown_n; i++) {
        char piece[8];
        int n = escape(r->value[i], text, piece);

        if (at + (size_t)n >= cap) {
            return;
        }
        memcpy(buf + at, piece, (size_t)n + 1);
        at += (size_t)n;
    }
    if (shown_n < r->value_n) {
        snprintf(buf + at, cap - at, "… (%u bytes)", r->value_n);
    }
}

void setting_line(const struct rec_config *r, int width, char *buf, size_t cap)
{
    char value[SHOWN_MAX * 4 + 32];

    if (r->deleted) {
        snprintf(buf, cap, "%-*s  version %" PRIu64 "  removed", width, r->key, r->version);
        return;
    }
    show_value(r, value, sizeof(value));
    snprintf(buf, cap, "%-*s  version %" PRIu64 "%s%s", width, r->key, r->version,
             value[0] != '\0' ? "  " : "", value);
}

json_t *setting_object(const char *job, const struct rec_config *r)
{
    json_t *json = setting_json(r);

    if (json_object_set_new(json, "job", json_string(job)) != 0 ||
        (r->deleted && json_object_set_new(json, "deleted", json_true()) != 0)) {
        json_decref(json);
        return NULL;
    }
    return json;
}
