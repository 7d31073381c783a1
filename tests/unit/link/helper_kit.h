/* Workers with helpers, in one process. What they answer with is a matter of the kind. */
#ifndef UNIT_LINK_HELPER_KIT_H
#define UNIT_LINK_HELPER_KIT_H

#include "unit/unit.h"

#include "link/helper.h"

#include <pthread.h>
#include <stdatomic.h>

#define KIT_MAX 9
#define KIT_LONG_MS 60000

enum kit_kind {
    KIT_ECHO = 1, /* the request's bytes */
    KIT_LENGTH,   /* how many they were, 8 bytes */
    KIT_FAIL,     /* MU_ENOENT */
    KIT_KEEP,     /* none before kit_answer_kept() */
    KIT_REFUSE,   /* no place for a large one */
    KIT_BIG,      /* KIT_BIG_BYTES zeros */
};

#define KIT_BIG_BYTES (64u << 20)

struct kit_worker {
    struct tender *tender;
    struct helper *helper;
    struct member member;
    pthread_mutex_t lock;
    struct helper_request *kept[64];
    uint32_t kept_n;
    _Atomic uint32_t taken_n, placed_n, dropped_n, sent_n, unsent_n;
};

struct kit_config {
    unsigned paths; /* 0: both */
    bool tls, mute; /* mute: answers nobody */
    uint8_t key;
};

void kit_open(struct kit_worker *w, uint32_t i, struct kit_config config);
void kit_close(struct kit_worker *w);
/* a may ask b. */
void kit_meet(struct kit_worker *a, const struct kit_worker *b);
/* Answers what it kept, from this thread. */
uint32_t kit_answer_kept(struct kit_worker *w);

/* One call, made and ended. `to` gets up to `room` bytes. */
int kit_ask(struct kit_worker *a, const struct kit_worker *b, uint16_t kind, const void *bytes,
            size_t n, void *to, size_t room, uint32_t timeout_ms);

struct helper_stats kit_stats(const struct kit_worker *w);

/* A connection to w from nowhere, of that class, proved with the key; -1: refused. */
int kit_stranger(const struct kit_worker *w, wid self, enum link_class class, uint8_t key);

#define kit_until(condition)                         \
    do {                                             \
        for (int kit_i = 0; !(condition); kit_i++) { \
            assert_true(kit_i < KIT_LONG_MS);        \
            kit_nap();                               \
        }                                            \
    } while (0)
void kit_nap(void);

#endif
