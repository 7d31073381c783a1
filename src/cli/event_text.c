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

/* Text, or null if it is empty. */
static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *worker_or_null(wid worker)
{
    char text[48];

    if (worker == 0) {
        return json_null();
    }
    words_worker(worker, text, sizeof(text));
    return json_string(text);
}

json_t *event_json(const struct msg_event *e)
{
    return json_pack("{s:I, s:I, s:s, s:o, s:o, s:o, s:I, s:I, s:o}", "number",
                     (json_int_t)e->number, "time_ms", (json_int_t)e->time_ms, "event",
                     words_kind(e->kind), "job", text_or_null(e->job), "node",
                     text_or_null(e->node), "worker", worker_or_null(e->worker), "generation",
                     (json_int_t)e->generation, "value", (json_int_t)e->value, "reason",
                     text_or_null(e->reason));
}
