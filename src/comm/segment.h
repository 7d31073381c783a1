/* Memory that this worker shares with those on its host: it alone writes, they only read.
 *
 * A segment is one memfd, as long as was asked for, sealed against anybody else's writing, growing
 * and shrinking before its first peer sees it. Nothing of it has a name: it is gone with the last
 * process that holds it. Peers are told of a segment when it is made, or when they are linked. */
#ifndef COMM_SEGMENT_H
#define COMM_SEGMENT_H

#include "base/base.h"

#define SEGMENTS_MAX 4096

struct segments;

/* Where in them a pointer is. */
struct segment_ref {
    uint32_t id; /* from 1; never used twice by one worker */
    uint64_t offset;
};

int segments_open(struct segments **segments_out);
void segments_close(struct segments *s);

/* Zeroed, aligned to a page; any thread. MU_ENOMEM, MU_ELIMIT (SEGMENTS_MAX, or open files), MU_EIO
 * (no memfd here: errno). Peers are told of `bytes` rounded up to pages. */
int segment_make(struct segments *s, size_t bytes, void **memory_out, uint32_t *id_out);

/* Of what segment_make() gave. Peers that have mapped it keep the pages until they are told. */
void segment_free(struct segments *s, void *memory);

/* Shows the first bytes (whole pages) of what segment_make() gave at `at` as well, read-only, in
 * place of what is there. MU_ENOMEM. */
int segment_show(struct segments *s, const void *memory, size_t bytes, void *at);

/* False: [data, data + bytes) is not all in one segment. Any thread; some 10 ns. */
bool segment_find(struct segments *s, const void *data, size_t bytes, struct segment_ref *ref_out);

/* Calls fn for each segment with an id above `after`, by id, until it gives something else than
 * MU_OK, which is returned. fd is borrowed for the call: nothing is freed meanwhile. fn calls
 * nothing of this file. */
typedef int segment_fn(void *arg, uint32_t id, int fd, size_t bytes);
int segment_each(struct segments *s, uint32_t after, segment_fn *fn, void *arg);

/* This worker's board (shm.h), kept here because it lives as long. */
struct shm_board *segments_board(struct segments *s);

#endif
