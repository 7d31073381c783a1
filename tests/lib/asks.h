/* Questions and answers whole, frame and body in one struct, for tests that play an agent or an
 * orchestrator. What is decoded points into the frame. */
#ifndef LIB_ASKS_H
#define LIB_ASKS_H

#include "core/sync.h"
#include "wire/ask.h"

enum asked_verb { ASKED_GET, ASKED_PUT, ASKED_REMOVE, ASKED_LIST, ASKED_WATCH, ASKED_N };

/* About a setting. */
struct asked {
    wid worker;
    uint64_t request;
    uint8_t verb;
    char job[NAME_MAX_LEN];
    char key[CONFIG_KEY_MAX];
    uint64_t expect; /* of a change */
    uint64_t after;  /* of a watch */
    uint32_t wait_ms;
    uint32_t value_n;
    uint8_t *value;
};

/* One setting, or the end of a list, or why there is none. */
struct said {
    wid worker;
    uint64_t request;
    int32_t status;
    uint8_t more;
    uint8_t deleted;
    uint64_t version;
    char key[CONFIG_KEY_MAX];
    char text[TEXT_MAX_LEN];
    uint32_t value_n;
    uint8_t *value;
};

/* A frame with room for its body. */
struct asks_frame {
    struct msg_ask ask;
    struct msg_says says;
    uint8_t body[ASK_BODY_MAX];
};

/* Anything, with its body; body may be NULL. */
void asks_body(struct asks_frame *f, enum ask_kind kind, bool answer, const void *body);

void asks_ask(struct asks_frame *f, const struct asked *a);
void asks_said(struct asks_frame *f, const struct said *s);
void asks_value(struct asks_frame *f, const struct msg_sync *m);
void asks_values(struct asks_frame *f, const struct msg_synced *m);

/* False: it is another kind. A body that is none fails the test. */
bool asks_is_asked(const struct msg_ask *m, struct asked *a_out);
struct said asks_to_said(const struct msg_says *m);
bool asks_is_value(const struct msg_ask *m, struct msg_sync *m_out);
struct msg_synced asks_to_synced(const struct msg_says *m);

#endif
