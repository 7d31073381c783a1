/* Memory without a name: one process writes, whoever gets the fd can only read. */
#ifndef COMM_MEMFD_H
#define COMM_MEMFD_H

#include "base/base.h"

/* Zeroed and mapped, then sealed: nobody can map it to write any more, nor change its length.
 * bytes: of whole pages. Both outputs are the caller's. MU_ENOMEM, MU_ELIMIT: open files; MU_EIO.
 */
int memfd_make(const char *name, size_t bytes, void **memory_out, int *fd_out);

/* Of an fd that came from a peer: MU_EPROTO unless it is memory of this length, for ever, that
 * nobody can begin to write to. *why_out says so, for the log. */
int memfd_check(int fd, size_t bytes, const char **why_out);

#endif
