#include "unit/store/store_kit.h"
#include "unit/store/shim_kit.h"

#include "base/prng.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const KIT_NAMES[KIT_FILES] = {"journal.db", "journal.db-wal", "journal.db-head"};

static const size_t SIZES[16] = {0, 8, 9, 100, 20, 33, 64, 4100, 12, 700, 11, 8, 13, 9000, 40, 300};

size_t kit_make(uint64_t tag, unsigned char *to)
{
    size_t n = SIZES[tag % 16];

    if (n == 0) {
        return 0;
    }
    memcpy(to, &tag, 8);
    for (size_t i = 8; i < n; i++) {
        to[i] = (unsigned char)(prng_mix(tag + i / 8 * 1000003) >> (i % 8 * 8));
    }
    return n;
}

uint64_t kit_seen_as(uint64_t tag)
{
    return tag % 16 == 0 ? KIT_EMPTY : tag;
}

size_t kit_snapshot_n(uint64_t upto)
{
    return 1 + upto % 4;
}

uint64_t kit_snapshot_tag(uint64_t upto, size_t i)
{
    return 0x5000000001 + upto * 256 + i;
}

static bool recognise(const void *data, size_t n, uint64_t *tag)
{
    unsigned char buf[KIT_RECORD_MAX];

    if (n == 0) {
        *tag = KIT_EMPTY;
        return true;
    }
    if (n < 8) {
        return false;
    }
    memcpy(tag, data, 8);
    return kit_make(*tag, buf) == n && memcmp(buf, data, n) == 0;
}

static int on_snapshot(void *arg, const void *data, size_t n)
{
    struct kit_seen *seen = arg;
    uint64_t tag = 0;

    if (!recognise(data, n, &tag) || seen->snapshot_n == KIT_RECORDS || seen->last > 0) {
        seen->garbled = true;
        return MU_OK;
    }
    seen->snapshot[seen->snapshot_n++] = tag;
    return MU_OK;
}

static int on_record(void *arg, uint64_t seq, const void *data, size_t n)
{
    struct kit_seen *seen = arg;
    uint64_t tag = 0;

    if (!recognise(data, n, &tag) || seq >= KIT_RECORDS ||
        (seen->last > 0 && seq != seen->last + 1)) {
        seen->garbled = true;
        return MU_OK;
    }
    if (seen->first == 0) {
        seen->first = seq;
    }
    seen->last = seq;
    seen->tags[seq] = tag;
    return MU_OK;
}

struct store_replay kit_replay(struct kit_seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    return (struct store_replay){.arg = seen, .snapshot = on_snapshot, .record = on_record};
}

void kit_on_done(void *arg, uint64_t cookie, int status, uint64_t seq)
{
    struct kit_log *log = arg;

    assert_true(log->n < KIT_RECORDS);
    log->done[log->n++] = (struct kit_done){cookie, status, seq};
}

int kit_append(struct store *st, uint64_t tag)
{
    unsigned char buf[KIT_RECORD_MAX];
    size_t n = kit_make(tag, buf);

    return store_append(st, buf, n, tag);
}

int kit_snapshot(struct store *st, uint64_t upto)
{
    static unsigned char bufs[4][KIT_RECORD_MAX];
    struct store_bytes rows[4];
    size_t n = kit_snapshot_n(upto);

    for (size_t i = 0; i < n; i++) {
        rows[i].data = bufs[i];
        rows[i].n = kit_make(kit_snapshot_tag(upto, i), bufs[i]);
    }
    return store_snapshot(st, upto, rows, n, true, upto);
}

int kit_open(const char *dir, struct kit_seen *seen, struct store **out, char *error)
{
    struct store_sqlite_config config = {.dir = dir, .vfs = SHIM, .checkpoint_pages = 12};
    struct store_replay replay = kit_replay(seen);

    shim_register();
    return store_sqlite_open(&config, &replay, out, error);
}

void kit_dir_make(char *dir, size_t cap)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(dir, cap, "%s/muster-store-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm"
             : tmp                         ? tmp
                                           : "/tmp");
    assert_non_null(mkdtemp(dir));
}

static void path_of(char *path, size_t cap, const char *dir, const char *name)
{
    int n = snprintf(path, cap, "%s/%s", dir, name);

    assert_true(n > 0 && (size_t)n < cap);
}

void kit_dir_remove(const char *dir)
{
    static const char *const MORE[] = {"journal.db-lock", "journal.db-journal", "journal.db-shm"};
    char path[512];

    for (size_t i = 0; i < KIT_FILES; i++) {
        path_of(path, sizeof(path), dir, KIT_NAMES[i]);
        unlink(path);
    }
    for (size_t i = 0; i < ARRAY_LEN(MORE); i++) {
        path_of(path, sizeof(path), dir, MORE[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

void kit_image_read(const char *dir, struct kit_image *image)
{
    char path[512];
    struct stat st;

    for (size_t i = 0; i < KIT_FILES; i++) {
        int fd;

        path_of(path, sizeof(path), dir, KIT_NAMES[i]);
        image->data[i] = NULL;
        image->n[i] = -1;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            continue;
        }
        assert_int_equal(fstat(fd, &st), 0);
        image->n[i] = st.st_size;
        image->data[i] = malloc((size_t)st.st_size + 1);
        assert_int_equal(read(fd, image->data[i], (size_t)st.st_size), st.st_size);
        close(fd);
    }
}

void kit_image_write(const char *dir, const struct kit_image *image)
{
    char path[512];

    path_of(path, sizeof(path), dir, "journal.db-journal");
    unlink(path);
    for (size_t i = 0; i < KIT_FILES; i++) {
        int fd;

        path_of(path, sizeof(path), dir, KIT_NAMES[i]);
        if (image->n[i] < 0) {
            unlink(path);
            continue;
        }
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, image->data[i], (size_t)image->n[i]), image->n[i]);
        close(fd);
    }
}

/* A missing file and an empty one are the same. */
bool kit_image_equal(const struct kit_image *a, const struct kit_image *b)
{
    for (size_t i = 0; i < KIT_FILES; i++) {
        if (MAX(a->n[i], 0) != MAX(b->n[i], 0) ||
            (a->n[i] > 0 && memcmp(a->data[i], b->data[i], (size_t)a->n[i]) != 0)) {
            return false;
        }
    }
    return true;
}

void kit_image_free(struct kit_image *image)
{
    for (size_t i = 0; i < KIT_FILES; i++) {
        free(image->data[i]);
    }
}

bool kit_full(void)
{
    const char *full = getenv("MUSTER_TEST_FULL");

    return full && strcmp(full, "1") == 0;
}

uint64_t kit_stride(uint64_t few)
{
    return kit_full() ? 1 : few;
}

void kit_check(const struct kit_seen *seen, const struct store *st, uint64_t acked, uint64_t most)
{
    uint64_t upto = store_snapshot_seq(st);

    assert_false(seen->garbled);
    assert_true(store_seq(st) >= acked && store_seq(st) <= most);
    assert_true(upto <= store_seq(st));
    assert_int_equal(seen->snapshot_n, upto > 0 ? kit_snapshot_n(upto) : 0);
    for (size_t i = 0; i < seen->snapshot_n; i++) {
        assert_int_equal(seen->snapshot[i], kit_seen_as(kit_snapshot_tag(upto, i)));
    }
    if (seen->last == 0) {
        assert_int_equal(store_seq(st), upto);
        return;
    }
    assert_int_equal(seen->first, upto + 1);
    assert_int_equal(seen->last, store_seq(st));
    for (uint64_t seq = seen->first; seq <= seen->last; seq++) {
        assert_int_equal(seen->tags[seq], kit_seen_as(seq));
    }
}

struct history {
    void (*acked)(uint64_t seq);
};

static void history_done(void *arg, uint64_t cookie, int status, uint64_t seq)
{
    struct history *h = arg;

    assert_int_equal(status, MU_OK);
    assert_int_equal(cookie, seq);
    if (h->acked) {
        h->acked(seq);
    }
}

uint64_t kit_history(struct store *st, void (*acked)(uint64_t seq))
{
    static const unsigned BATCHES[] = {1, 1, 3, 1, 7, 1, 2, 5, 1, 1};
    struct history h = {acked};
    uint64_t next = store_seq(st) + 1;

    for (size_t b = 0; b < ARRAY_LEN(BATCHES); b++) {
        /* The first is written alone, the rest together: the same operations in every run. */
        shim_hold();
        assert_int_equal(kit_append(st, next++), MU_OK);
        shim_wait_held();
        for (unsigned i = 1; i < BATCHES[b]; i++) {
            assert_int_equal(kit_append(st, next++), MU_OK);
        }
        if (b == 4 || b == 8) {
            assert_int_equal(kit_snapshot(st, store_seq(st) - (b == 4)), MU_OK);
        }
        shim_release();
        store_flush(st);
        store_poll(st, history_done, &h);
    }
    return next - 1;
}
