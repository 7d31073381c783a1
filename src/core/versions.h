/* Values by (version, name), of the newest `window` versions only: what a peer offers to others
 * that ask for "the model at step 40". A version that falls out of the window takes all its values
 * with it. The table is in the caller's storage and a value is the caller's pointer: given on
 * success, handed to `drop` when it falls out or the table is closed. */
#ifndef CORE_VERSIONS_H
#define CORE_VERSIONS_H

#include "core/message.h"

struct versions_entry {
    uint64_t version;
    char name[NAME_MAX_LEN];
    void *value;
};

struct versions {
    struct versions_entry *entries; /* by version, then in the order of creation */
    uint32_t n;
    uint32_t cap;
    uint32_t window;
    void (*drop)(void *arg, void *value); /* may be NULL */
    void *arg;
};

/* window >= 1; entries (cap of them) are borrowed for the table's life. */
void versions_init(struct versions *versions, struct versions_entry *entries, uint32_t cap,
                   uint32_t window, void (*drop)(void *arg, void *value), void *arg);

/* Drops what is left. */
void versions_close(struct versions *versions);

/* MU_EEXIST if it is there already; MU_ESTALE if `window` newer versions are; MU_ELIMIT if the
 * table is full once the versions that this one pushes out are gone; MU_EINVAL for a name that is
 * empty or too long. On an error nothing changes. */
int versions_create(struct versions *versions, uint64_t version, const char *name, void *value);

/* MU_ENOENT if there is none. */
int versions_get(const struct versions *versions, uint64_t version, const char *name,
                 void **value_out);

#endif
