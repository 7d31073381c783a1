/* Readers from inside: what `muster data` needs beyond the public mu_reader_… of muster.h. */
#ifndef DATA_READER_H
#define DATA_READER_H

#include "data/shard.h"

/* One file that a source names, with how it is to be read. */
struct found {
    char *path;
    const struct data_options *o; /* the list's */
};

struct found_list {
    struct found *files; /* those of a source by name */
    size_t n, cap;
    struct data_options **options; /* one for each source */
    size_t options_n;
};

/* As mu_reader_open() has it. On an error the list is empty. */
int find_files(const char *const *sources, size_t n, const char *options, struct found_list *out);
void find_free(struct found_list *list);

/* A reader of some of the files; the list outlives it. */
int reader_open_found(const struct found *files, size_t n, const struct watch *watch,
                      mu_reader **reader_out);

#endif
