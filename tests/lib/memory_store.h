/* A store in memory, for tests and the simulator: no thread, no clock, nothing that is not asked
 * for.
 *
 * A disk outlives the stores opened on it, one at a time, as a file outlives processes. What is
 * appended becomes durable in store_memory_sync() or store_flush() and not before, so that the
 * caller chooses what a crash loses. */
#ifndef LIB_MEMORY_STORE_H
#define LIB_MEMORY_STORE_H

#include "store/store.h"

struct store_disk;

/* A new, empty disk; id is copied. NULL when out of memory. */
struct store_disk *store_disk_new(const unsigned char id[STORE_ID_BYTES]);

/* No store may be open on it. NULL is fine. */
void store_disk_free(struct store_disk *disk);

/* Replays the disk and opens it. The disk is borrowed until close or crash. MU_EBUSY: one is open
 * on it already. notify and replay are copied, *store_out is the caller's. */
int store_memory_open(struct store_disk *disk, const struct store_replay *replay,
                      const struct store_notify *notify, struct store **store_out,
                      char error[STORE_ERROR_MAX]);

/* Makes the oldest ops_max queued operations durable, or all if there are fewer, as one write;
 * their completions can then be polled. */
void store_memory_sync(struct store *st, size_t ops_max);

/* Operations queued and not yet synced. */
size_t store_memory_pending(const struct store *st);

/* The next write fails with this status. kept: its records reached the disk all the same, and
 * replay will show them unless another append succeeds before (see store.h on durability). */
void store_memory_fail(struct store *st, int status, bool kept);

/* Somebody else writes the disk from here on: nothing of this store becomes durable. */
void store_memory_fence(struct store *st);

/* The disk's address for store_open(). */
#define STORE_MEMORY_URL 40
void store_memory_url(struct store_disk *disk, char url[STORE_MEMORY_URL]);

/* The process dies here: frees the store and all that was not synced. The disk can be opened
 * again. NULL is fine. */
void store_memory_crash(struct store *st);

#endif
