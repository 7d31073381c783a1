/* A history that meets failures and tries again, and what must be true of it afterwards. */
#ifndef UNIT_STORE_FAULTS_KIT_H
#define UNIT_STORE_FAULTS_KIT_H

#include "unit/store/store_kit.h"

struct faults_run {
    uint64_t tags[KIT_RECORDS]; /* acknowledged, by number */
    uint64_t seq;               /* the last of them */
    uint64_t next_tag;
    uint64_t trying;                           /* first tag of the group that is not acknowledged */
    unsigned opens;                            /* that failed */
    unsigned appends;                          /* that failed */
    unsigned snapshots;                        /* that failed */
    void (*acked)(uint64_t seq, uint64_t tag); /* may be NULL */
};

/* Opens a store in dir, appends groups and takes snapshots, each again with new bytes until it
 * works. Then closes, whatever that meets. Fails the test when something never works. */
void faults_run(struct faults_run *run, const char *dir);

/* Opens again, without faults: exactly the acknowledged records are there. */
void faults_check(const struct faults_run *run, const char *dir);

#endif
