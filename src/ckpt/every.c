#include "ckpt/ckpt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS ((uint64_t)3600000)

bool ckpt_every_read(const char *text, struct ckpt_every *every_out)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } UNITS[] = {{"", 0}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", HOUR_MS}};
    const char *unit = text + strspn(text, "0123456789");
    uint64_t n;

    errno = 0;
    n = unit > text ? strtoull(text, NULL, 10) : 0;
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        if (strcmp(unit, UNITS[i].name) == 0 && n > 0 && n <= UINT64_MAX / HOUR_MS && errno == 0) {
            *every_out =
                (struct ckpt_every){.steps = UNITS[i].ms == 0 ? n : 0, .ms = n * UNITS[i].ms};
            return true;
        }
    }
    return false;
}
