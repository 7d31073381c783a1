/* A .npz file: a zip file of arrays, each with the head that numpy wants, nothing compressed. Parts
 * of any length (zip64). Written from front to end, but for the sums. */
#ifndef CKPT_NPZ_H
#define CKPT_NPZ_H

#include "ckpt/file.h"

#define NPZ_NAME_MAX (3 * MU_NAME_MAX + 8)

struct npz_entry {
    char name[NPZ_NAME_MAX];
    uint64_t at, bytes; /* its head's place in the file; of the array's file in it */
    uint32_t crc;
};

struct npz {
    int fd;
    uint64_t at;
    struct npz_entry *entries; /* room for all; the caller's */
    uint32_t n;
    uint32_t crc_tables[8][256];
};

void npz_init(struct npz *z, int fd, struct npz_entry *entries);

/* An array of `bytes` bytes, or of floats of 4 if f32. These give 0, or -1 and errno. */
int npz_begin(struct npz *z, const char *name, uint64_t bytes, bool f32);
int npz_add(struct npz *z, const uint8_t *data, size_t n);
int npz_end(struct npz *z);
/* The directory. */
int npz_finish(struct npz *z);

#endif
