#include "orchestrator/event_json.h"

#include "orchestrator/words.h"

#include <inttypes.h>
#include <stdio.h>

void event_id(const char *life, uint64_t number, char id[EVENT_ID_MAX])
{
    snprintf(id, EVENT_ID_MAX, "%s-%" PRIu64, life, number);
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

json_t *event_json(const struct msg_event *e, const char *life)
{
    char id[EVENT_ID_MAX], time[WORDS_TIME_MAX], text[WORDS_LINE_MAX];

    words_time(e->time_ms, time);
    words_event(e, text, sizeof(text));
    if (life != NULL) {
        event_id(life, e->number, id);
    }
    return json_pack("{s:s*, s:I, s:s, s:s, s:o, s:I, s:o, s:o, s:I, s:o, s:s}", "id",
                     life != NULL ? id : NULL, "number", (json_int_t)e->number, "time", time,
                     "event", words_kind(e->kind), "job", text_or_null(e->job), "generation",
                     (json_int_t)e->generation, "node", text_or_null(e->node), "worker",
                     worker_or_null(e->worker), "value", (json_int_t)e->value, "reason",
                     text_or_null(e->reason), "text", text);
}
