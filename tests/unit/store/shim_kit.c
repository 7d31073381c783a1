#include "unit/store/shim_kit.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shim_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
    char name[32];
};

static sqlite3_vfs shim_vfs, *real_vfs;

/* All under the lock; the store's thread and the test's share them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static pthread_cond_t waiting = PTHREAD_COND_INITIALIZER;
static struct {
    enum shim_act act;
    unsigned mask;
    uint64_t first, n, count, kill_at;
    bool held;
    bool waits;
    bool taping;
    struct shim_tape tape;
} shim;

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;) {
        pause();
    }
}

void shim_arm(enum shim_act act, unsigned mask, uint64_t first, uint64_t n)
{
    pthread_mutex_lock(&lock);
    shim.act = act;
    shim.mask = mask;
    shim.first = first;
    shim.n = n;
    shim.count = 0;
    shim.kill_at = 0;
    pthread_mutex_unlock(&lock);
}

void shim_kill_at(uint64_t n)
{
    pthread_mutex_lock(&lock);
    shim.kill_at = n;
    pthread_mutex_unlock(&lock);
}

uint64_t shim_count(void)
{
    uint64_t count;

    pthread_mutex_lock(&lock);
    count = shim.count;
    pthread_mutex_unlock(&lock);
    return count;
}

void shim_hold(void)
{
    pthread_mutex_lock(&lock);
    shim.held = true;
    pthread_mutex_unlock(&lock);
}

void shim_wait_held(void)
{
    pthread_mutex_lock(&lock);
    while (!shim.waits) {
        pthread_cond_wait(&waiting, &lock);
    }
    pthread_mutex_unlock(&lock);
}

void shim_release(void)
{
    pthread_mutex_lock(&lock);
    shim.held = shim.waits = false;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
}

/* What to do with this operation. */
static enum shim_act meet(enum shim_op op)
{
    enum shim_act act = SHIM_PASS;

    pthread_mutex_lock(&lock);
    if (op & shim.mask) {
        shim.count++;
        if (shim.count >= shim.first && shim.count - shim.first < shim.n) {
            act = shim.act;
        }
        if (shim.count == shim.kill_at) {
            act = SHIM_KILL;
        }
    }
    while (op == SHIM_SYNC && shim.held) {
        shim.waits = true;
        pthread_cond_signal(&waiting);
        pthread_cond_wait(&released, &lock);
    }
    pthread_mutex_unlock(&lock);
    if (act == SHIM_KILL || (act == SHIM_TEAR && op != SHIM_WRITE)) {
        die();
    }
    return act;
}

static void tape(enum shim_op op, const char *name, uint64_t at, const void *data, size_t n)
{
    struct shim_entry *e;

    pthread_mutex_lock(&lock);
    if (shim.taping) {
        if (shim.tape.n == shim.tape.cap) {
            shim.tape.cap = shim.tape.cap * 2 + 64;
            shim.tape.entries =
                realloc(shim.tape.entries, shim.tape.cap * sizeof(shim.tape.entries[0]));
        }
        e = &shim.tape.entries[shim.tape.n++];
        *e = (struct shim_entry){.op = op, .mark = name ? 0 : at, .at = at, .n = n};
        snprintf(e->name, sizeof(e->name), "%s", name ? name : "");
        if (n > 0) {
            e->data = malloc(n);
            memcpy(e->data, data, n);
        }
    }
    pthread_mutex_unlock(&lock);
}

void shim_tape_begin(void)
{
    pthread_mutex_lock(&lock);
    shim.taping = true;
    pthread_mutex_unlock(&lock);
}

void shim_tape_mark(uint64_t mark)
{
    tape(0, NULL, mark, NULL, 0);
}

struct shim_tape shim_tape_take(void)
{
    struct shim_tape out;

    pthread_mutex_lock(&lock);
    out = shim.tape;
    shim.tape = (struct shim_tape){0};
    shim.taping = false;
    pthread_mutex_unlock(&lock);
    return out;
}

void shim_tape_free(struct shim_tape *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->entries[i].data);
    }
    free(t->entries);
    *t = (struct shim_tape){0};
}

static struct shim_file *shim_of(sqlite3_file *file)
{
    return (struct shim_file *)file;
}

static int file_close(sqlite3_file *file)
{
    struct shim_file *f = shim_of(file);

    return f->real->pMethods->xClose(f->real);
}

static int file_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    struct shim_file *f = shim_of(file);

    if (meet(SHIM_READ) != SHIM_PASS) {
        return SQLITE_IOERR_READ;
    }
    return f->real->pMethods->xRead(f->real, to, n, at);
}

static int file_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    struct shim_file *f = shim_of(file);
    enum shim_act act = meet(SHIM_WRITE);
    int rc;

    if (act == SHIM_FAIL) {
        return SQLITE_IOERR_WRITE;
    }
    if (act == SHIM_TEAR || act == SHIM_FULL) {
        f->real->pMethods->xWrite(f->real, from, n / 2, at);
        if (act == SHIM_TEAR) {
            die();
        }
        return SQLITE_FULL;
    }
    tape(SHIM_WRITE, f->name, (uint64_t)at, from, (size_t)n);
    rc = f->real->pMethods->xWrite(f->real, from, n, at);
    return act == SHIM_LIE ? SQLITE_IOERR_WRITE : rc;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct shim_file *f = shim_of(file);
    enum shim_act act = meet(SHIM_TRUNCATE);
    int rc = SQLITE_OK;

    if (act == SHIM_PASS || act == SHIM_LIE) {
        tape(SHIM_TRUNCATE, f->name, (uint64_t)size, NULL, 0);
        rc = f->real->pMethods->xTruncate(f->real, size);
    }
    return act == SHIM_PASS ? rc : SQLITE_IOERR_TRUNCATE;
}

/* The disk is not under test: a sync that passes costs nothing. */
static int file_sync(sqlite3_file *file, int flags)
{
    enum shim_act act = meet(SHIM_SYNC);

    if (act == SHIM_PASS || act == SHIM_LIE) {
        tape(SHIM_SYNC, shim_of(file)->name, 0, NULL, 0);
    }
    return act == SHIM_PASS ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *out)
{
    struct shim_file *f = shim_of(file);

    return f->real->pMethods->xFileSize(f->real, out);
}

static int file_lock(sqlite3_file *file, int level)
{
    struct shim_file *f = shim_of(file);

    return f->real->pMethods->xLock(f->real, level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    struct shim_file *f = shim_of(file);

    return f->real->pMethods->xUnlock(f->real, level);
}

static int file_check_lock(sqlite3_file *file, int *out)
{
    struct shim_file *f = shim_of(file);

    return f->real->pMethods->xCheckReservedLock(f->real, out);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    struct shim_file *f = shim_of(file);

    return f->real->pMethods->xFileControl(f->real, op, arg);
}

static int file_sector(sqlite3_file *file)
{
    struct shim_file *f = shim_of(file);

    return f->real->pMethods->xSectorSize(f->real);
}

static int file_traits(sqlite3_file *file)
{
    struct shim_file *f = shim_of(file);

    return f->real->pMethods->xDeviceCharacteristics(f->real);
}

static const sqlite3_io_methods METHODS = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *out)
{
    struct shim_file *f = shim_of(file);
    int rc;

    memset(f, 0, sizeof(*f));
    if (meet(SHIM_OPEN) != SHIM_PASS) {
        return SQLITE_CANTOPEN;
    }
    f->real = (sqlite3_file *)(f + 1);
    snprintf(f->name, sizeof(f->name), "%s", path ? base_name(path) : "");
    rc = real_vfs->xOpen(real_vfs, path, f->real, flags, out);
    if (rc == SQLITE_OK) {
        f->base.pMethods = &METHODS;
    }
    return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_dir)
{
    enum shim_act act = meet(SHIM_DELETE);
    int rc = SQLITE_OK;

    if (act == SHIM_PASS || act == SHIM_LIE) {
        tape(SHIM_DELETE, base_name(path), 0, NULL, 0);
        rc = real_vfs->xDelete(real_vfs, path, 0);
    }
    return act == SHIM_PASS ? rc : SQLITE_IOERR_DELETE;
}

void shim_register(void)
{
    if (!real_vfs) {
        real_vfs = sqlite3_vfs_find(NULL);
        shim_vfs = *real_vfs;
        shim_vfs.zName = SHIM;
        shim_vfs.szOsFile = (int)sizeof(struct shim_file) + real_vfs->szOsFile;
        shim_vfs.xOpen = vfs_open;
        shim_vfs.xDelete = vfs_delete;
        sqlite3_vfs_register(&shim_vfs, 0);
    }
}
