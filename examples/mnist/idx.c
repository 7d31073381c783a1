#include "idx.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define DIMENSIONS_MAX 3
#define LABELS 10
#define BYTES_MAX (1u << 30) /* more than that is no MNIST, but a file that is damaged */

struct array {
    uint32_t sizes[DIMENSIONS_MAX];
    size_t bytes;
    uint8_t *data;
};

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int complain(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    return -1;
}

static int read_all(gzFile file, void *to, size_t n)
{
    return gzread(file, to, (unsigned)n) == (int)n ? 0 : -1;
}

/* The head: two zeros, the type (8: bytes), how many dimensions, and the size of each. */
static int read_head(gzFile file, const char *path, uint32_t dimensions, struct array *a)
{
    uint8_t head[4], size[4];

    if (read_all(file, head, sizeof(head)) != 0) {
        return complain(path, "it can't be read, or is empty");
    }
    if (head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] != dimensions) {
        return complain(path, "it is not in the IDX format, or not what its name says");
    }
    a->bytes = 1;
    for (uint32_t i = 0; i < dimensions; i++) {
        if (read_all(file, size, sizeof(size)) != 0) {
            return complain(path, "it ends too early");
        }
        a->sizes[i] = big_endian(size);
        if (a->sizes[i] == 0 || a->sizes[i] > BYTES_MAX / a->bytes) {
            return complain(path, "its sizes make no sense");
        }
        a->bytes *= a->sizes[i];
    }
    return 0;
}

static int read_array(const char *path, uint32_t dimensions, struct array *out)
{
    struct array a = {.data = NULL};
    gzFile file = gzopen(path, "rb");
    int rc;

    if (file == NULL) {
        fprintf(stderr,
                "%s: %s; Debian's package dataset-fashion-mnist has it, --data says where\n", path,
                strerror(errno));
        return -1;
    }
    gzbuffer(file, 1 << 18);
    rc = read_head(file, path, dimensions, &a);
    if (rc == 0) {
        a.data = malloc(a.bytes);
        if (a.data == NULL) {
            rc = complain(path, "no memory for it");
        } else if (read_all(file, a.data, a.bytes) != 0) {
            rc = complain(path, "it ends too early, or is damaged");
        }
    }
    gzclose(file);
    if (rc != 0) {
        free(a.data);
        return rc;
    }
    *out = a;
    return 0;
}

static int labels_are_fine(const struct array *labels)
{
    for (size_t i = 0; i < labels->bytes; i++) {
        if (labels->data[i] >= LABELS) {
            return 0;
        }
    }
    return 1;
}

int idx_open(const char *folder, const char *name, struct idx *set_out)
{
    struct array images = {.data = NULL}, labels = {.data = NULL};
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s-images-idx3-ubyte.gz", folder, name);
    if (read_array(path, 3, &images) != 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/%s-labels-idx1-ubyte.gz", folder, name);
    if (read_array(path, 1, &labels) != 0) {
        goto err_images;
    }
    if (labels.sizes[0] != images.sizes[0] || !labels_are_fine(&labels)) {
        complain(path, "these are not the labels of the images beside them");
        goto err_labels;
    }
    *set_out = (struct idx){.n = images.sizes[0],
                            .pixels_n = (size_t)images.sizes[1] * images.sizes[2],
                            .pixels = images.data,
                            .labels = labels.data};
    return 0;

err_labels:
    free(labels.data);
err_images:
    free(images.data);
    return -1;
}

void idx_close(struct idx *set)
{
    free(set->pixels);
    free(set->labels);
    *set = (struct idx){.n = 0};
}
