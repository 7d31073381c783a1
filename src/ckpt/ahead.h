/* A file is read past the page cache, a piece ahead of who wants it: a checkpoint is read once, and
 * pages for it would cost more time than the disk takes, and memory that others need.
 *
 * Where that can't be done it says so, and the file is read in the plain way. */
#ifndef CKPT_AHEAD_H
#define CKPT_AHEAD_H

#include "base/base.h"

struct ahead;

/* NULL: there is no memory, or no such thing on this system. */
struct ahead *ahead_open(void);
void ahead_close(struct ahead *a); /* NULL is fine */

/* From now on of this file, until it is closed or another one comes (-1: none). a may be NULL. */
void ahead_file(struct ahead *a, int fd);

/* n bytes (at most CKPT_CHUNK) from `at` on, at *data_out until the next call; and those from
 * next_at on are begun with (next_n 0: none are). MU_EAGAIN: not in this way. */
int ahead_read(struct ahead *a, uint64_t at, uint32_t n, uint64_t next_at, uint32_t next_n,
               const uint8_t **data_out);

#endif
