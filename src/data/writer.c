/* RecordIO written, in layout A: a chunk is full when the next record would make the sum of its
 * records' lengths larger than the option `chunk`. A record that is longer by itself has a chunk of
 * its own. The file is written beside its place, and renamed when all of it is on the disk. */
#include "data/chunk.h"

#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_DEFAULT (256 << 10)

struct mu_writer {
    char *path, *attempt;
    int fd;
    enum compressor compressor;
    uint64_t chunk;
    struct bytes records, packed;
    uint32_t records_n;
    uint64_t lengths; /* of the records in it */
    z_stream z;
    bool z_open, finished;
    int status; /* of the first call that failed */
    char error[ERROR_MAX];
};

static int set(void *to, const char *key, char *value)
{
    static const char *const names[] = {"none", "snappy", "gzip"};
    struct mu_writer *w = to;

    if (strcmp(key, "chunk") == 0) {
        return option_size(key, value, 1, (uint64_t)1 << 30, &w->chunk);
    }
    if (strcmp(key, "compressor") != 0) {
        return error_say(MU_EINVAL,
                         "there is no option '%.80s' of writing; there are compressor and chunk",
                         key);
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i], value) == 0) {
            w->compressor = (enum compressor)i;
            return MU_OK;
        }
    }
    return error_say(MU_EINVAL, "the option compressor wants none, snappy or gzip, got '%.80s'",
                     value);
}

/* What failed once fails from then on: half of a file is none. */
static int fail(struct mu_writer *w, int status)
{
    w->status = status;
    snprintf(w->error, sizeof(w->error), "%s", mu_error());
    return status;
}

static int fail_io(struct mu_writer *w, const char *what)
{
    const int error = errno;

    return fail(
        w, error_say(MU_EIO, "can't %s %s: %s%s", what, w->path, strerror(error),
                     error == ENOSPC || error == EDQUOT ? "; make room and write it again" : ""));
}

int mu_writer_open(const char *path, const char *options, mu_writer **writer_out)
{
    struct mu_writer *w = calloc(1, sizeof(*w));
    uint32_t tag;
    int rc;

    if (w == NULL) {
        return error_say(MU_ENOMEM, "no memory to write %s", path);
    }
    w->fd = -1;
    w->chunk = CHUNK_DEFAULT;
    w->compressor = COMPRESS_SNAPPY;
    rc = options != NULL ? option_each(options, set, w) : MU_OK;
    random_bytes(&tag, sizeof(tag));
    w->path = strdup(path);
    if (rc == MU_OK &&
        (w->path == NULL || asprintf(&w->attempt, "%s.%08" PRIx32 ".part", path, tag) < 0)) {
        w->attempt = NULL;
        rc = error_say(MU_ENOMEM, "no memory to write %s", path);
    }
    if (rc == MU_OK) {
        w->fd = open(w->attempt, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0) {
            rc = errno == ENOENT
                     ? error_say(MU_ENOENT, "can't write %s: there is no such folder", path)
                     : fail_io(w, "write");
        }
    }
    if (rc != MU_OK) {
        mu_writer_close(w);
        return rc;
    }
    *writer_out = w;
    return MU_OK;
}

static int write_all(struct mu_writer *w, const uint8_t *p, size_t n)
{
    while (n > 0) {
        const ssize_t did = write(w->fd, p, n);

        if (did < 0 && errno == EINTR) {
            continue;
        }
        if (did < 0) {
            return fail_io(w, "write");
        }
        p += did;
        n -= (size_t)did;
    }
    return MU_OK;
}

static int pack_gzip(struct mu_writer *w)
{
    int rc;

    if ((w->z_open ? deflateReset(&w->z)
                   : deflateInit2(&w->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
                                  Z_DEFAULT_STRATEGY)) != Z_OK) {
        return error_say(MU_ENOMEM, "no memory to compress");
    }
    w->z_open = true;
    rc = bytes_room(&w->packed, w->packed.n + deflateBound(&w->z, w->records.n) + 64);
    if (rc != MU_OK) {
        return rc;
    }
    w->z.next_in = w->records.data;
    w->z.avail_in = (unsigned)w->records.n;
    w->z.next_out = w->packed.data + w->packed.n;
    w->z.avail_out = (unsigned)(w->packed.cap - w->packed.n);
    mu_assert(deflate(&w->z, Z_FINISH) == Z_STREAM_END);
    w->packed.n = (size_t)(w->z.next_out - w->packed.data);
    return MU_OK;
}

static int flush(struct mu_writer *w)
{
    struct chunk_head h = {LAYOUT_A, w->compressor, 0, 0, w->records_n};
    int rc;

    if (w->records_n == 0) {
        return MU_OK;
    }
    w->packed.n = 0;
    rc = bytes_room(&w->packed, CHUNK_HEAD + (w->compressor == COMPRESS_NONE ? w->records.n : 0));
    w->packed.n = CHUNK_HEAD;
    if (rc == MU_OK && w->compressor == COMPRESS_SNAPPY) {
        rc = frames_pack(w->records.data, w->records.n, &w->packed);
    } else if (rc == MU_OK && w->compressor == COMPRESS_GZIP) {
        rc = pack_gzip(w);
    } else if (rc == MU_OK) {
        memcpy(w->packed.data + CHUNK_HEAD, w->records.data, w->records.n);
        w->packed.n += w->records.n;
    }
    if (rc != MU_OK) {
        return fail(w, rc);
    }
    h.bytes = (uint32_t)(w->packed.n - CHUNK_HEAD);
    h.crc = (uint32_t)crc32(0, w->packed.data + CHUNK_HEAD, h.bytes);
    chunk_write(&h, w->packed.data);
    w->records.n = 0;
    w->records_n = 0;
    w->lengths = 0;
    return write_all(w, w->packed.data, w->packed.n);
}

static int check(struct mu_writer *w)
{
    if (w->status != MU_OK) {
        return error_say(w->status, "%s", w->error);
    }
    return w->finished
               ? error_say(MU_EINVAL, "%s is finished: no record can be written to it", w->path)
               : MU_OK;
}

int mu_writer_put(mu_writer *w, const void *data, size_t n)
{
    int rc = check(w);

    if (rc == MU_OK && n > DATA_RECORD_MAX) {
        return error_say(MU_ELIMIT, "a record of %zu bytes; at most %" PRIu64, n, DATA_RECORD_MAX);
    }
    if (rc == MU_OK && w->lengths + n > w->chunk) {
        rc = flush(w);
    }
    if (rc != MU_OK) {
        return rc;
    }
    rc = bytes_room(&w->records, w->records.n + 4 + n);
    if (rc != MU_OK) {
        return fail(w, rc);
    }
    for (int i = 0; i < 4; i++) {
        w->records.data[w->records.n++] = (uint8_t)(n >> 8 * i);
    }
    if (n > 0) {
        memcpy(w->records.data + w->records.n, data, n);
    }
    w->records.n += n;
    w->lengths += n;
    w->records_n++;
    /* Empty records have a limit too: their lengths take room. */
    return w->records.n >= 2 * w->chunk + ((size_t)1 << 20) ? flush(w) : MU_OK;
}

static int sync_folder(struct mu_writer *w)
{
    char *copy = strdup(w->path);
    int fd = copy != NULL ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1,
        rc = MU_OK;

    if (fd < 0 || fsync(fd) != 0) {
        rc = fail_io(w, "sync the folder of");
    }
    if (fd >= 0) {
        close(fd);
    }
    free(copy);
    return rc;
}

int mu_writer_finish(mu_writer *w)
{
    int rc = check(w);

    rc = rc == MU_OK ? flush(w) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    if (fsync(w->fd) != 0) {
        return fail_io(w, "write");
    }
    if (rename(w->attempt, w->path) != 0) {
        return fail_io(w, "rename to");
    }
    w->finished = true;
    return sync_folder(w);
}

void mu_writer_close(mu_writer *w)
{
    if (w == NULL) {
        return;
    }
    if (w->fd >= 0) {
        close(w->fd);
        if (!w->finished) {
            unlink(w->attempt);
        }
    }
    if (w->z_open) {
        deflateEnd(&w->z);
    }
    free(w->records.data);
    free(w->packed.data);
    free(w->path);
    free(w->attempt);
    free(w);
}
