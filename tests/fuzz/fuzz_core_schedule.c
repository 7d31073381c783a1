/* The text of a schedule: what parses can be written down and parses to the same again. */
#include "core/schedule.h"
#include "fuzz/fuzz.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static size_t write_text(const struct schedule *s, char *text, size_t cap)
{
    uint64_t from = 0;
    size_t n = 0;

    for (uint32_t i = 0; i < s->parts_n; i++) {
        const struct schedule_part *part = &s->parts[i];
        bool last = i + 1 == s->parts_n;

        n += (size_t)snprintf(text + n, cap - n, "%" PRIu32, part->size);
        if (!last) {
            n += (size_t)snprintf(text + n, cap - n, ":%" PRIu64 ",", part->until - from);
        }
        mu_assert(n < cap);
        from = part->until;
    }
    return n;
}

static void check(const struct schedule *s)
{
    char text[SCHEDULE_PARTS_MAX * 40];
    struct schedule again;
    uint64_t from = 0;

    mu_assert(s->parts_n >= 1 && s->parts_n <= SCHEDULE_PARTS_MAX);
    for (uint32_t i = 0; i < s->parts_n; i++) {
        const struct schedule_part *part = &s->parts[i];

        mu_assert(part->size >= 1 && part->size <= MEMBERS_MAX);
        mu_assert(part->until > from);
        mu_assert(schedule_size(s, from) == part->size);
        mu_assert(schedule_size(s, part->until - 1) == part->size);
        from = part->until;
    }
    mu_assert(from == UINT64_MAX);
    size_t n = write_text(s, text, sizeof(text));

    mu_assert(schedule_parse(text, n, &again, NULL, 0) == MU_OK);
    mu_assert(memcmp(&again, s, sizeof(again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct schedule s;
    char why[TEXT_MAX_LEN] = "";

    memset(&s, 0x5a, sizeof(s));
    int rc = schedule_parse((const char *)data, n, &s, why, sizeof(why));

    if (rc == MU_OK) {
        check(&s);
    } else {
        mu_assert(rc == MU_EINVAL && why[0] != '\0');
        mu_assert(s.parts_n == 0x5a5a5a5a);
        mu_assert(schedule_parse((const char *)data, n, &s, NULL, 0) == rc);
        mu_assert(schedule_parse((const char *)data, n, &s, why, 1) == rc && why[0] == '\0');
    }
    return 0;
}
