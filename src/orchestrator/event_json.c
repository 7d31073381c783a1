#include "orchestrator/event_json.h"

#include "orchestrator/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

json_t *metrics_json(const struct metric *metrics, uint32_t n, uint64_t step)
{
    json_t *json = json_pack("{s:I}", "step", (json_int_t)step);

    for (uint32_t i = 0; i < n; i++) {
        double value = words_metric(&metrics[i]);
        json_t *number = isfinite(value) ? json_real(value) : json_null();

        /* What a trainer calls so is not the step. */
        if (strcmp(metrics[i].name, "step") == 0) {
            json_decref(number);
        } else if (json_object_set_new(json, metrics[i].name, number) != 0) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

json_t *event_json(const struct msg_event *e, const char *life)
{
    json_t *metrics = e->metrics_n > 0 ? metrics_json(e->metrics, e->metrics_n, e->value) : NULL;
    char id[EVENT_ID_MAX], time[WORDS_TIME_MAX], text[WORDS_LINE_MAX];

    words_time(e->time_ms, time);
    words_event(e, text, sizeof(text));
    if (life != NULL) {
        event_id(life, e->number, id);
    }
    return json_pack("{s:s*, s:I, s:s, s:s, s:o, s:I, s:o, s:o, s:I, s:o, s:o*, s:s}", "id",
                     life != NULL ? id : NULL, "number", (json_int_t)e->number, "time", time,
                     "event", words_kind(e->kind), "job", text_or_null(e->job), "generation",
                     (json_int_t)e->generation, "node", text_or_null(e->node), "worker",
                     worker_or_null(e->worker), "value", (json_int_t)e->value, "reason",
                     text_or_null(e->reason), "metrics", metrics, "text", text);
}
