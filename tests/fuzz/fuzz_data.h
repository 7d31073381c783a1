/* A file of any bytes, read as a format: it is refused with a word, or each of its records is there
 * or damaged. With skip=yes all that it counts can be read, and nothing else is. */
#ifndef FUZZ_FUZZ_DATA_H
#define FUZZ_FUZZ_DATA_H

#include "fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static inline void fuzz_data_read(const char *source, const char *options, bool skip)
{
    mu_reader *reader;
    mu_record record;
    mu_scan *scan;
    uint64_t n = 0, bytes = 0;
    int rc = mu_reader_open(&source, 1, options, &reader);

    if (rc != MU_OK) {
        mu_assert(rc == MU_ECORRUPT || rc == MU_EINVAL || rc == MU_ELIMIT || rc == MU_ENOENT ||
                  rc == MU_EIO);
        mu_assert(mu_error()[0] != '\0');
        return;
    }
    mu_assert(mu_scan_open(reader, 0, UINT64_MAX, &scan) == MU_OK);
    for (; n < 2000 && (rc = mu_scan_next(scan, &record)) != MU_EDONE; n++) {
        mu_assert(rc == MU_OK || !skip);
        if (rc != MU_OK) {
            mu_assert(rc == MU_ECORRUPT || rc == MU_ELIMIT || rc == MU_EINVAL || rc == MU_ENOENT ||
                      rc == MU_EIO);
            if (rc != MU_ECORRUPT) {
                break;
            }
            continue;
        }
        mu_assert(record.number == n);
        for (size_t i = 0; i < record.n; i += 64) {
            bytes += ((const uint8_t *)record.data)[i];
        }
        for (uint32_t i = 0; i < record.fields_n; i++) {
            for (size_t k = 0; k < record.fields[i].n; k += 64) {
                bytes += ((const uint8_t *)record.fields[i].data)[k];
            }
            bytes += strlen(record.fields[i].name);
        }
    }
    mu_assert(rc != MU_EDONE || n == mu_reader_records(reader));
    mu_assert(bytes < UINT64_MAX);
    if (n > 0) {
        (void)mu_scan_at(scan, mu_reader_records(reader) - 1, &record); /* And backwards. */
        (void)mu_scan_at(scan, 0, &record);
    }
    mu_scan_close(scan);
    mu_reader_close(reader);
}

static inline void fuzz_data(const uint8_t *data, size_t n, const char *options,
                             const char *options_skip)
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    char source[64];

    mu_assert(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
    fuzz_data_read(source, options, false);
    fuzz_data_read(source, options_skip, true);
    close(fd);
}

#endif
