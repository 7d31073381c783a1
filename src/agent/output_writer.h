/* A thread that writes, so that the loop need not wait for a console or a disk. What is put is
 * copied and written in order, one write() per put where the system takes it whole.
 *
 * A writer is used from the loop's thread. Its queue is bounded by good manners: ask
 * writer_has_room before putting more; `room` is called, from the loop, when there is again, and
 * whenever the queue has become empty. */
#ifndef AGENT_OUTPUT_WRITER_H
#define AGENT_OUTPUT_WRITER_H

#include "base/base.h"

#include <uv.h>

struct writer;
struct target;

int writer_open(uv_loop_t *loop, void (*room)(void *data), void *data, struct writer **w_out);

/* Where to: a descriptor that stays the caller's, or a file, made with its directories at the first
 * put and then appended to. path is copied. NULL: out of memory. A target belongs to the writers
 * that it is put to. name is for messages. */
struct target *target_fd(int fd, const char *name);
struct target *target_file(const char *path);

bool writer_has_room(struct writer *w);

/* Room for n bytes, to be filled and given to writer_put; NULL: out of memory. */
struct job;
struct job *writer_job(size_t n);
char *writer_job_bytes(struct job *j);

/* Given. n: how much of it is to be written, which may be less than was made room for. Returns its
 * number. */
uint64_t writer_put(struct writer *w, struct target *t, struct job *j, size_t n);

/* The target is freed, and its file closed, once all that was put has been written. */
void writer_end(struct writer *w, struct target *t);

/* Whether the put of that number, and all before it, has been written or dropped. */
bool writer_is_done(struct writer *w, uint64_t number);
uint64_t writer_last(const struct writer *w);

/* NULL is fine. What is still queued is dropped. A write that does not return keeps the thread, and
 * what the thread needs, and nothing else. */
void writer_close(struct writer *w);

#endif
