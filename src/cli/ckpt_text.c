#include "cli/ckpt_text.h"

#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void ckpt_text_time(uint64_t ms, char text[CKPT_TEXT_MAX])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm local;

    text[0] = '\0';
    if (localtime_r(&seconds, &local) != NULL &&
        strftime(text, CKPT_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &local) == 0) {
        text[0] = '\0';
    }
}

void ckpt_text_age(uint64_t ms, char text[CKPT_TEXT_MAX])
{
    static const struct {
        uint64_t seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}};

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        uint64_t n = ms / 1000 / units[i].seconds;

        if (n > 0) {
            snprintf(text, CKPT_TEXT_MAX, "%" PRIu64 " %s%s", n, units[i].name, n > 1 ? "s" : "");
            return;
        }
    }
    snprintf(text, CKPT_TEXT_MAX, "less than a minute");
}

bool ckpt_text_step(const char *text, uint64_t *step_out)
{
    static const char folder[] = "step-";

    if (strncmp(text, folder, strlen(folder)) == 0) {
        text += strlen(folder);
    }
    return text_number(text, strlen(text), 1, UINT64_MAX, step_out);
}

bool ckpt_text_ends(const char *path, const char *end)
{
    size_t n = strlen(path), end_n = strlen(end);

    return n > end_n && path[n - end_n - 1] != '/' && strcmp(path + n - end_n, end) == 0;
}
