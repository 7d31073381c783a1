#include "core/schedule.h"

#include "core/text.h"

#include <inttypes.h>
#include <string.h>

/* One part, without the comma. *steps is 0 if it has none. */
static int parse_part(const char *part, size_t part_n, uint32_t number, uint64_t *size,
                      uint64_t *steps, char *why, size_t cap)
{
    const char *colon = memchr(part, ':', part_n);
    size_t size_n = colon == NULL ? part_n : (size_t)(colon - part);

    if (part_n == 0) {
        text_say(why, cap, "part %" PRIu32 " is empty: write size:steps", number);
        return MU_EINVAL;
    }
    if (!text_number(part, size_n, 1, MEMBERS_MAX, size)) {
        text_say(why, cap, "part %" PRIu32 ": size must be a whole number from 1 to %u, not %s",
                 number, MEMBERS_MAX, text_quote(part, size_n).text);
        return MU_EINVAL;
    }
    *steps = 0;
    if (colon == NULL) {
        return MU_OK;
    }
    if (!text_number(colon + 1, part_n - size_n - 1, 1, SCHEDULE_STEPS_MAX, steps)) {
        text_say(why, cap, "part %" PRIu32 ": steps must be a whole number from 1 to 2^48, not %s",
                 number, text_quote(colon + 1, part_n - size_n - 1).text);
        return MU_EINVAL;
    }
    return MU_OK;
}

int schedule_parse(const char *text, size_t text_n, struct schedule *out, char *why, size_t cap)
{
    struct schedule s = {0};
    uint64_t from = 0;
    const char *end;

    text = text_n == 0 ? "" : text;
    end = text + text_n;
    for (bool last = false; !last;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *part_end = comma == NULL ? end : comma;
        uint64_t size, steps;

        last = comma == NULL;
        if (s.parts_n == SCHEDULE_PARTS_MAX) {
            text_say(why, cap, "there are more than %d parts", SCHEDULE_PARTS_MAX);
            return MU_EINVAL;
        }
        int rc =
            parse_part(text, (size_t)(part_end - text), s.parts_n + 1, &size, &steps, why, cap);
        if (rc != MU_OK) {
            return rc;
        }
        if (steps == 0 && !last) {
            text_say(why, cap, "part %" PRIu32 " has no steps: only the last may go without",
                     s.parts_n + 1);
            return MU_EINVAL;
        }
        from += steps;
        s.parts[s.parts_n++] = (struct schedule_part){(uint32_t)size, last ? UINT64_MAX : from};
        for (text = part_end + !last; text < end && *text == ' ';) {
            text++;
        }
    }
    *out = s;
    return MU_OK;
}

uint32_t schedule_size(const struct schedule *schedule, uint64_t step)
{
    uint32_t i = 0;

    mu_assert(schedule->parts_n > 0);
    while (i + 1 < schedule->parts_n && step >= schedule->parts[i].until) {
        i++;
    }
    return schedule->parts[i].size;
}
