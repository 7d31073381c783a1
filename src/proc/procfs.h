/* What /proc tells about processes. */
#ifndef PROC_PROCFS_H
#define PROC_PROCFS_H

#include "base/base.h"

#include <sys/types.h>

/* Stands in the environment of every process of a start, and tells its strays from others. */
#define KEEPER_MARKER "MUSTER_MARKER"
#define KEEPER_MARKER_LEN 31 /* of "MUSTER_MARKER=0123456789abcdef", terminator included */

struct proc_stat {
    bool ended; /* or is about to: it does nothing any more, and its memory may be gone */
    pid_t parent;
    pid_t session;
};

/* False: there is no such process. */
bool proc_stat(pid_t pid, struct proc_stat *st_out);

/* The value of KEEPER_MARKER that it was started with. False: none, or not ours to read, or the
 * process has ended. */
bool proc_marker(pid_t pid, uint64_t *marker_out);

/* Every process of the machine that we can see. */
void proc_each(void (*fn)(void *data, pid_t pid), void *data);

/* Every child of this process (which has one thread), those that have ended included. */
void proc_each_child(void (*fn)(void *data, pid_t pid), void *data);

/* The same, where the kernel has no list of children. */
void proc_each_child_by_parent(void (*fn)(void *data, pid_t pid), void *data);

#endif
