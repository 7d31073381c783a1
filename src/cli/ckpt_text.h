/* Checkpoints as people read them: times, steps. */
#ifndef CLI_CKPT_TEXT_H
#define CLI_CKPT_TEXT_H

#include "base/base.h"

#define CKPT_TEXT_MAX 64

/* "2026-11-16 13:14:02", by the clock on the wall; "" if there is no such time. */
void ckpt_text_time(uint64_t ms, char text[CKPT_TEXT_MAX]);

/* "less than a minute", "1 minute", "3 hours", "12 days": how long that is. */
void ckpt_text_age(uint64_t ms, char text[CKPT_TEXT_MAX]);

/* "1200", or a folder's name, "step-000000001200". */
bool ckpt_text_step(const char *text, uint64_t *step_out);

/* Whether a path ends so, with something before it. */
bool ckpt_text_ends(const char *path, const char *end);

#endif
