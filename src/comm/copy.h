/* Copying between cores.
 *
 * Two things cost more than they seem to. For lengths of some KiB the C library's memcpy() chooses
 * a string instruction that is slow on some processors. And a store to a line that another core has
 * read must first take it away from there, line by line: some 2 GB/s where reading it makes 20. So
 * what others will read is written past the caches. */
#ifndef COMM_COPY_H
#define COMM_COPY_H

#include "base/base.h"

/* They do not overlap. */
void copy_bytes(void *to, const void *from, size_t n);

/* To where others read it. Before they are told: copy_far_done(). */
void copy_far(void *to, const void *from, size_t n);
void copy_far_done(void);

#endif
