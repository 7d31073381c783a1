#include "cli/event_text.h"

#include "orchestrator/words.h"

#include <stdio.h>
#include <time.h>

void event_line(const struct msg_event *e, char *buf, size_t cap)
{
    time_t seconds = (time_t)(e->time_ms / 1000);
    char text[WORDS_LINE_MAX], clock[16] = "--:--:--";
    struct msg_event no_job = *e;
    struct tm local;

    if (localtime_r(&seconds, &local) != NULL) {
        strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    }
    no_job.job[0] = '\0'; /* It has a column of its own. */
    words_event(&no_job, text, sizeof(text));
    snprintf(buf, cap, "%s  %-10s  %s", clock, e->job[0] != '\0' ? e->job : "-", text);
}
