/* Between the files of this folder: requests that are said, answers that are awaited, and work that
 * is begun again when the line broke. */
#ifndef DEPOT_TALK_H
#define DEPOT_TALK_H

#include "depot/depot.h"

#define TALK_ANSWER_MS 60000u /* an answer that is later than this does not come any more */
#define TALK_LONG_MS \
    600000u /* the same where all of it is read from, or brought to, the disk first */

struct depot {
    struct depot_line line;
    const _Atomic bool *cancel;
    bool up;
    bool again;          /* what has just failed may go well when it is tried again */
    uint64_t life;       /* how often the line was made */
    uint64_t request;    /* the last number that was given away */
    uint32_t unanswered; /* requests over this line */
    const void *who;     /* the one who made those requests */
    uint64_t down_ms;    /* since when there is no progress; 0: there is */
    uint32_t pause_ms;   /* before the next try */
};

/* Has try() done over a line that is up. If it fails because the line broke, or the other side has
 * no time now, it is called again over a new one, with pauses, until there was no progress for as
 * long as the line has patience. try() gives what a talk_ function has given, or an error of its
 * own. Requests of another `who` that are unanswered are given up. */
int talk_run(struct depot *d, const void *who, int (*try)(void *arg, struct ckpt_why *why),
             void *arg, struct ckpt_why *why);

/* Something was reached that need not be reached again. */
void talk_progress(struct depot *d);

/* The number of the next request, of which one answer is awaited. */
uint64_t talk_number(struct depot *d);
int talk_say(struct depot *d, const struct msg_depot *m, uint64_t request, struct ckpt_why *why);

/* n bytes in pieces, all with one number; *m has the rest, and is changed. */
int talk_say_all(struct depot *d, struct msg_depot *m, const void *data, size_t n, uint64_t request,
                 struct ckpt_why *why);

/* The next answer, which must be to this request; gives its status. *m_out is valid until the next
 * talk_ call. */
int talk_answer(struct depot *d, enum depot_op op, uint64_t request, uint32_t wait_ms,
                const struct msg_depot_says **m_out, struct ckpt_why *why);

/* One request, one answer. */
int talk_ask(struct depot *d, struct msg_depot *m, uint32_t wait_ms,
             const struct msg_depot_says **m_out, struct ckpt_why *why);

/* MU_EDONE if it was called off. */
int talk_cancelled(const struct depot *d, struct ckpt_why *why);
/* The answer can't be one: the line is closed. MU_EPROTO. */
int talk_fault(struct depot *d, struct ckpt_why *why, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void talk_hang_up(struct depot *d);

/* Sets what names a checkpoint. MU_EINVAL: the job's name is too long. */
int talk_name(struct msg_depot *m, const char *job, uint64_t step, struct ckpt_why *why);

/* ---- depot_manifest.c ---- */

/* The text of a manifest, unverified; part of a try(). *text_out: free(). */
int depot_manifest(struct depot *d, const char *job, uint64_t step, char **text_out, size_t *n_out,
                   struct ckpt_why *why);

#endif
