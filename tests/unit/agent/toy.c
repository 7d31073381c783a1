/* The server of toy.def: the word, backwards. */
#include "orchestrator/driver.h"

void serve_toy(struct session *s, const struct asker *from, const struct msg_ask *m,
               const union wire_any *body)
{
    struct body_text back = body->text;
    uint8_t bytes[256];

    for (uint32_t i = 0; i < back.data_n; i++) {
        bytes[i] = body->text.data[back.data_n - 1 - i];
    }
    back.data = bytes;
    ask_says_body(s->o, from, &(struct msg_says){0}, &back);
}
