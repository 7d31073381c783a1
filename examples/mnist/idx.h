/* The files of MNIST and its kin: images and labels in the IDX format, compressed by gzip. */
#ifndef EXAMPLES_MNIST_IDX_H
#define EXAMPLES_MNIST_IDX_H

#include <stddef.h>
#include <stdint.h>

struct idx {
    size_t n;        /* images */
    size_t pixels_n; /* of each */
    uint8_t *pixels; /* image after image */
    uint8_t *labels; /* 0 … 9 */
};

/* Reads folder/NAME-images-idx3-ubyte.gz and folder/NAME-labels-idx1-ubyte.gz. On failure it has
 * said why on stderr, and *set_out is untouched; otherwise idx_close() releases it. */
int idx_open(const char *folder, const char *name, struct idx *set_out);
void idx_close(struct idx *set);

#endif
