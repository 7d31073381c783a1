/* The settings of one job: keys and values that people and programs read, change with
 * compare-and-set, and watch.
 *
 * One counter, the store's version, grows by one with each change; a key's version is the store's
 * at its last change, and so serves as its ETag. State changes in two moves, as in the cluster:
 * config_check validates a request and makes a record, and changes nothing that can be read; the
 * caller makes it durable and calls config_apply, or config_abort if it could not. One record is
 * pending at a time, so a request is always checked against the state that it will change.
 * Applying the records of a journal, or those of a dump, rebuilds the state.
 *
 * All memory is taken at init. What a record's value points to: see each function. */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

#include "core/message.h"

#define CONFIG_ANY UINT64_MAX /* no condition */
#define CONFIG_MEMBERS_MAX 4096

struct config_limits {
    uint32_t keys_n;
    uint32_t value_bytes; /* of one value, at most CONFIG_VALUE_MAX */
    uint32_t total_bytes; /* of all values */
    uint32_t window_n;    /* changes that a watcher may lag behind */
};

struct config_entry {
    char key[CONFIG_KEY_MAX];
    uint64_t version;
    uint32_t at; /* of the value in `values` */
    uint32_t value_n;
};

struct config_change {
    char key[CONFIG_KEY_MAX];
    bool deleted;
};

struct config {
    char job[NAME_MAX_LEN];
    struct config_limits limits;
    struct config_entry *entries; /* sorted by key */
    uint32_t entries_n;
    uint8_t *values; /* without holes */
    uint32_t values_n;
    struct config_change *window; /* change v is at v % window_n, for v in (floor, version] */
    uint64_t version;
    uint64_t floor;
    bool pending;
};

/* MU_EINVAL for a limit that is 0 or too large or a job that is no name, MU_ENOMEM. */
int config_init(struct config *config, const char *job, const struct config_limits *limits);
void config_close(struct config *config);

/* Empty, as the settings of this job, in the memory that it has. */
void config_reset(struct config *config, const char *job);
size_t config_memory(const struct config *config);

struct config_request {
    const char *key;
    const void *value;
    uint32_t value_n;
    uint64_t expect; /* the key's version; 0: it must not exist; or CONFIG_ANY */
    bool remove;
};

/* A key is 1 to CONFIG_KEY_MAX - 1 of [A-Za-z0-9._/-], in segments between slashes that are neither
 * empty nor "." nor "..". If it is none, a sentence is in why (cap bytes; it may be 0). */
bool config_key_valid(const char *key, char *why, size_t cap);

/* Does the key act on the cluster, as those below do? */
bool config_key_acts(const char *key);

/* Some keys mean something to muster, and their values are checked:
 *
 *   size, min, max   whole numbers from 1, such that min <= size <= max as far as they are set
 *   members          names of nodes, separated by commas, none twice
 *   schedule         core/schedule.h
 *   paused           true or false
 *
 * On success the record is pending, and its value is the request's own pointer: it must stay until
 * config_apply, and so must not be one that a function below gave. Otherwise a sentence is in why
 * (cap bytes; it may be 0) and the result is
 *
 *   MU_EAGAIN      another record is pending
 *   MU_EINVAL      the key or value is not valid
 *   MU_EEXIST      expect is 0 and the key exists
 *   MU_ECONFLICT   the key's version is not the expected one, or the key is gone
 *   MU_ENOENT      removal of a key that is not there
 *   MU_ELIMIT      no room */
int config_check(struct config *config, const struct config_request *request,
                 struct rec_config *record_out, char *why, size_t cap);

/* The record is durable. The value is copied. MU_ECORRUPT, and nothing changed, if it can't
 * follow the present state (only a damaged journal has such); MU_ELIMIT if the limits have become
 * too small for what was stored. */
int config_apply(struct config *config, const struct rec_config *record);

/* The pending record could not be made durable: it never was. */
void config_abort(struct config *config);

/* In the following, the record's value is borrowed until the next config_apply. */

/* MU_ENOENT if there is no such key. */
int config_get(const struct config *config, const char *key, struct rec_config *out);

/* Lists the keys that begin with prefix in order: begin with after = "", go on with the key of the
 * last. MU_ENOENT at the end. */
int config_list(const struct config *config, const char *prefix, const char *after,
                struct rec_config *out);

/* Lists records that rebuild the state, in their order: begin with after = 0, go on with the
 * version of the last; MU_ENOENT at the end. The last one may have an empty key: it stands for
 * changes of which nothing is left but the version. */
int config_dump(const struct config *config, uint64_t after, struct rec_config *out);

/* Lists what has changed after a version, each key once, as it is now: go on with the version of
 * the last. MU_ENOENT when up to date; MU_ESTALE if the window no longer reaches back to it, or if
 * it is not of this store: list everything, and go on from config->version. */
int config_since(const struct config *config, uint64_t after, struct rec_config *out);

/* Is `key` watched: is it that key, or below it if that ends with a slash or is empty? */
bool config_matches(const char *watched, const char *key);

#endif
