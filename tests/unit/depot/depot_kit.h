/* An orchestrator's depot in memory, and a line to it that breaks where it is told to. It takes
 * what the protocol allows and nothing else: pieces in their order, and no more requests at once
 * than a client may have. */
#ifndef UNIT_DEPOT_DEPOT_KIT_H
#define UNIT_DEPOT_DEPOT_KIT_H

#include "depot/depot.h"
#include "unit/ckpt/ckpt_kit.h"

#define DEPOT_KIT_KEPT 16
#define DEPOT_KIT_CHUNKS 16
#define DEPOT_KIT_ANSWERS 16

struct depot_kept {
    char job[NAME_MAX_LEN];
    uint64_t step;
    char *manifest;
    size_t manifest_n;
    bool no_manifest; /* the file is lost */
    uint8_t *shard;
    size_t shard_n;
};

/* What is being put; it outlives lines. */
struct depot_taken {
    char job[NAME_MAX_LEN];
    uint64_t step;
    uint8_t *bytes;
    size_t cap, n;
    struct ckpt_chunk chunks[DEPOT_KIT_CHUNKS];
    uint32_t chunks_n;
};

struct depot_answer {
    uint64_t request;
    struct msg_depot_says m;
    uint8_t *data;
};

struct depot_kit {
    struct depot_kept kept[DEPOT_KIT_KEPT]; /* by job, the newest first */
    uint32_t kept_n;
    struct depot_taken taken;
    uint32_t page; /* entries, or names, in an answer */

    /* of this line */
    bool up;
    uint32_t puts_n, reads_n;  /* unanswered */
    uint64_t piece_request;    /* of the chunk or manifest that comes in pieces … */
    uint8_t *piece;            /* … as far as it has come */
    size_t piece_n, piece_cap; /* 0: none */
    struct depot_answer answers[DEPOT_KIT_ANSWERS];
    uint32_t first, answers_n;
    struct depot_answer given; /* the last that next() gave: valid until it is called again */

    /* what happens to it */
    uint64_t frames;   /* said and received, from 1 */
    uint64_t break_at; /* the frame at which it breaks; 0: never */
    bool deliver;      /* one that is said at that moment is heard, but its sender is not told */
    uint32_t refuse_n; /* so many times it can't be made */
    uint32_t busy_n;   /* so many answers are MU_EAGAIN */
    int begin_status;  /* of BEGIN; MU_OK: it has room */
    bool silent;       /* it never answers */
    void (*spoil)(struct msg_depot_says *m, uint64_t *request, uint64_t how);
    uint64_t spoil_how;
    uint64_t spoil_from; /* so many answers are left as they are … */
    uint64_t spoil_to;   /* … and those after so many; 0: none */

    /* what was seen */
    uint32_t opens_n;
    uint64_t given_n;       /* answers */
    uint32_t chunks_said;   /* first pieces */
    uint32_t chunks_resent; /* … of chunks that were there */
    uint32_t keep;          /* of the last commit */
    uint64_t keep_every;
};

/* All zero, and a page. */
void depot_kit_open(struct depot_kit *k);
void depot_kit_close(struct depot_kit *k);

struct depot_line depot_kit_line(struct depot_kit *k, uint32_t patience_ms);

/* A copy of the state of a ckpt_kit; *mark must outlive it. */
struct depot_copy depot_kit_copy(const struct ckpt_kit *c, const struct ckpt_mark *mark, bool zstd);

/* Puts it with a depot of its own. */
int depot_kit_put(struct depot_kit *k, const struct depot_copy *copy, uint32_t patience_ms,
                  struct ckpt_why *why);
/* Gets it with a depot of its own, part by part, and compares. MU_EDONE: it is another. */
int depot_kit_get(struct depot_kit *k, const struct ckpt_kit *c, uint64_t step,
                  uint32_t patience_ms, struct ckpt_why *why);

struct depot_kept *depot_kit_find(struct depot_kit *k, const char *job, uint64_t step);
/* One that has no bytes, for lists. */
void depot_kit_add(struct depot_kit *k, const char *job, uint64_t step);

#endif
