#include "comm/memfd.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define HUGE_BYTES (4u << 20) /* from here on large pages are asked for */

static int status_of(int error)
{
    switch (error) {
    case ENOMEM:
        return MU_ENOMEM;
    case EMFILE:
    case ENFILE:
        return MU_ELIMIT;
    default:
        return MU_EIO;
    }
}

int memfd_make(const char *name, size_t bytes, void **memory_out, int *fd_out)
{
    const char *did = "memfd_create";
    void *memory = MAP_FAILED;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL) { /* before Linux 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    if (fd < 0) {
        goto err;
    }
    did = "ftruncate";
    if (ftruncate(fd, (off_t)bytes) != 0) {
        goto err;
    }
    did = "mmap";
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        goto err;
    }
    did = "sealing";
    if (fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0) {
        goto err;
    }
    if (bytes >= HUGE_BYTES) {
        madvise(memory, bytes, MADV_HUGEPAGE); /* Only a wish. */
    }
    *memory_out = memory;
    *fd_out = fd;
    return MU_OK;
err:;
    const int error = errno;

    if (memory != MAP_FAILED) {
        munmap(memory, bytes);
    }
    if (fd >= 0) {
        close(fd);
    }
    log_error("comm", "%zu bytes of shared memory: %s: %s%s", bytes, did, strerror(error),
              status_of(error) == MU_ELIMIT ? "; raise the limit of open files (ulimit -n)" : "");
    errno = error;
    return status_of(error);
}

int memfd_check(int fd, size_t bytes, const char **why_out)
{
    struct stat st;
    int seals;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0 ||
        (uint64_t)st.st_size != bytes) {
        *why_out = "its shared memory is not as long as it says";
        return MU_EPROTO;
    }
    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) {
        *why_out = "its shared memory is not sealed";
        return MU_EPROTO;
    }
    return MU_OK;
}
