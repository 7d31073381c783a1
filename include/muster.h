/* muster: elastic distributed training. The public C API.
 *
 * Every function returns MU_OK or a negative MU_E… status; mu_strerror() turns
 * either into a sentence. */
#ifndef MUSTER_H
#define MUSTER_H

#include <stddef.h>
#include <stdint.h>

#define MU_VERSION_MAJOR 0
#define MU_VERSION_MINOR 1
#define MU_VERSION_PATCH 0

#if defined(__GNUC__)
#define MU_API __attribute__((visibility("default")))
#else
#define MU_API
#endif

/* One list makes the enum and its texts. Numbers are part of the ABI: append only. */
#define MU_STATUS_MAP(X)                                                      \
    X(OK, 0, "ok")                                                            \
    X(ENOMEM, -1, "out of memory")                                            \
    X(EINVAL, -2, "invalid argument")                                         \
    X(EIO, -3, "input/output error")                                          \
    X(ECORRUPT, -4, "stored data is damaged")                                 \
    X(EVERSION, -5, "the other side speaks another version")                  \
    X(ELIMIT, -6, "a limit was reached")                                      \
    X(EEXIST, -7, "it exists already")                                        \
    X(ENOENT, -8, "no such thing")                                            \
    X(ESTALE, -9, "that generation is no longer current")                     \
    X(ECONFLICT, -10, "it was changed by someone else meanwhile")             \
    X(EBUSY, -11, "it is in use")                                             \
    X(EPROTO, -12, "the other side broke the protocol")                       \
    X(EAGAIN, -13, "not now; try again")                                      \
    X(ETIMEDOUT, -14, "it took too long")                                     \
    X(EPEER, -15, "a peer was lost")                                          \
    X(EORDER, -16, "the ranks did not make the same calls in the same order") \
    X(EDONE, -17, "the job is done")                                          \
    X(EREFUSED, -18, "refused")

enum mu_status {
#define X(name, value, text) MU_##name = (value),
    MU_STATUS_MAP(X)
#undef X
};

/* The sentence for a status; never NULL, never freed. */
MU_API const char *mu_strerror(int status);

/* "0.1.0" */
MU_API const char *mu_version(void);

#endif
