/* Processes that are killed, and machines that lose power, at every operation on a file. */
#include "unit/store/shim_kit.h"
#include "unit/store/store_kit.h"

#include "base/log.h"
#include "base/prng.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDS_MAX 23 /* of kit_history() */

static int ack_fd = -1;

static void tell_parent(uint64_t seq)
{
    ssize_t n = write(ack_fd, &seq, sizeof(seq));

    (void)n;
}

static void child_history(const char *dir)
{
    char error[STORE_ERROR_MAX];
    struct kit_seen seen;
    struct store *st;

    if (kit_open(dir, &seen, &st, error) != MU_OK) {
        _exit(3);
    }
    kit_history(st, tell_parent);
    store_close(st);
}

/* A process that only opens, and so recovers, and closes. */
static void child_recovery(const char *dir)
{
    char error[STORE_ERROR_MAX];
    struct kit_seen seen;
    struct store *st;

    if (kit_open(dir, &seen, &st, error) != MU_OK) {
        _exit(3);
    }
    store_close(st);
}

/* Runs body in a child that is killed at operation n. Returns whether it was, or came through;
 * *acked is the last number it told of. */
static bool killed_at(void (*body)(const char *dir), const char *dir, enum shim_act act, uint64_t n,
                      uint64_t *acked)
{
    int ends[2], status;
    uint64_t seq;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        ack_fd = ends[1];
        shim_register();
        shim_arm(act, SHIM_CHANGE, n, 1);
        body(dir);
        _exit(0);
    }
    close(ends[1]);
    while (read(ends[0], &seq, sizeof(seq)) == (ssize_t)sizeof(seq)) {
        *acked = MAX(*acked, seq);
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* A killed process is no reason to refuse anything: the store opens, has what was acknowledged and
 * nothing that was not appended, and works on. */
static void check_and_go_on(const char *dir, uint64_t acked)
{
    char error[STORE_ERROR_MAX] = "";
    struct kit_seen seen;
    struct kit_log log = {0};
    struct store *st;
    uint64_t next;

    shim_register();
    shim_arm(SHIM_PASS, 0, 0, 0);
    if (kit_open(dir, &seen, &st, error) != MU_OK) {
        fail_msg("acknowledged up to %d: %s", (int)acked, error);
    }
    kit_check(&seen, st, acked, RECORDS_MAX);
    next = store_seq(st) + 1;
    assert_int_equal(kit_append(st, next), MU_OK);
    store_flush(st);
    store_poll(st, kit_on_done, &log);
    assert_int_equal(log.done[0].status, MU_OK);
    store_close(st);
    assert_int_equal(kit_open(dir, &seen, &st, error), MU_OK);
    kit_check(&seen, st, next, next);
    store_close(st);
}

static unsigned sweep_kills(enum shim_act act)
{
    unsigned killed = 0;
    bool through = false;

    for (uint64_t n = 1; !through; n++) {
        uint64_t acked = 0;
        char dir[512];

        kit_dir_make(dir, sizeof(dir));
        through = !killed_at(child_history, dir, act, n, &acked);
        killed += !through;
        check_and_go_on(dir, acked);
        kit_dir_remove(dir);
    }
    return killed;
}

static void kill_9_at_every_write_loses_nothing_acknowledged(void **state)
{
    unsigned killed = sweep_kills(SHIM_KILL);

    print_message("# killed before each of %u operations\n", killed);
    assert_true(killed > 100);
}

static void kill_9_in_the_middle_of_every_write_loses_nothing_acknowledged(void **state)
{
    unsigned killed = sweep_kills(SHIM_TEAR);

    print_message("# killed in each of %u operations\n", killed);
    assert_true(killed > 100);
}

/* Recovery is interrupted like everything else. */
static void kill_9_at_every_write_of_a_recovery_loses_nothing(void **state)
{
    struct kit_image image;
    uint64_t acked = 0;
    unsigned killed = 0, checked = 0;

    for (uint64_t n = 20; n < 150; n += 9) {
        char dir[512];

        kit_dir_make(dir, sizeof(dir));
        acked = 0;
        if (killed_at(child_history, dir, SHIM_TEAR, n, &acked)) {
            kit_image_read(dir, &image);
            for (uint64_t m = 1; m < 12; m++) {
                uint64_t also = acked;

                kit_image_write(dir, &image);
                killed += killed_at(child_recovery, dir, SHIM_TEAR, m, &also);
                check_and_go_on(dir, acked);
                checked++;
            }
            kit_image_free(&image);
        }
        kit_dir_remove(dir);
    }
    print_message("# %u of %u recoveries killed\n", killed, checked);
    assert_true(killed > 50);
}

/* --- Loss of power --- */

#define FILES_MAX 8

struct disk_file {
    char name[32];
    bool exists;
    unsigned char *data;
    size_t n, cap;
};

struct disk {
    struct disk_file files[FILES_MAX];
};

static struct disk_file *file_of(struct disk *disk, const char *name)
{
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (strcmp(disk->files[i].name, name) == 0) {
            return &disk->files[i];
        }
        if (!disk->files[i].name[0]) {
            snprintf(disk->files[i].name, sizeof(disk->files[i].name), "%s", name);
            return &disk->files[i];
        }
    }
    fail();
    return NULL;
}

static void file_resize(struct disk_file *f, size_t n)
{
    if (n > f->cap) {
        f->data = realloc(f->data, n);
        f->cap = n;
    }
    if (n > f->n) {
        memset(f->data + f->n, 0, n - f->n);
    }
    f->n = n;
    f->exists = true;
}

static void file_write(struct disk_file *f, uint64_t at, const unsigned char *data, size_t n)
{
    if (n == 0) {
        return;
    }
    if (at + n > f->n) {
        file_resize(f, at + n);
    }
    memcpy(f->data + at, data, n);
}

/* Applies one change that was not yet synced when the power went: all of it, nothing, or any of its
 * sectors, the last of them in part. */
static void apply_unsynced(struct disk_file *f, const struct shim_entry *e, struct prng *p)
{
    uint64_t luck = prng_below(p, 4);
    size_t cut;

    if (luck == 0) {
        return;
    }
    if (e->op == SHIM_TRUNCATE) {
        file_resize(f, e->at);
    } else if (luck == 1) {
        file_write(f, e->at, e->data, e->n);
    } else if (luck == 2) {
        for (size_t i = 0; i < e->n; i += 512) {
            if (prng_below(p, 2) == 0) {
                file_write(f, e->at + i, e->data + i, MIN((size_t)512, e->n - i));
            }
        }
    } else {
        cut = prng_below(p, e->n + 1);
        file_write(f, e->at, e->data, cut);
    }
}

static bool synced_later(const struct shim_tape *tape, size_t i, size_t end)
{
    for (size_t k = i + 1; k < end; k++) {
        if (tape->entries[k].op == SHIM_SYNC &&
            strcmp(tape->entries[k].name, tape->entries[i].name) == 0) {
            return true;
        }
    }
    return false;
}

/* The disk after the first `end` entries and a power cut; returns the last acknowledged number. */
static uint64_t play(const struct shim_tape *tape, size_t end, struct disk *disk, struct prng *p)
{
    uint64_t acked = 0;

    for (size_t i = 0; i < end; i++) {
        const struct shim_entry *e = &tape->entries[i];
        struct disk_file *f;

        if (e->op == 0) {
            acked = MAX(acked, e->mark);
            continue;
        }
        f = file_of(disk, e->name);
        if (e->op == SHIM_DELETE) {
            file_resize(f, 0);
            f->exists = false;
        } else if (e->op != SHIM_SYNC && !synced_later(tape, i, end)) {
            apply_unsynced(f, e, p);
        } else if (e->op == SHIM_WRITE) {
            file_write(f, e->at, e->data, e->n);
        } else if (e->op == SHIM_TRUNCATE) {
            file_resize(f, e->at);
        }
    }
    return acked;
}

static void disk_write(const struct disk *disk, const char *dir)
{
    for (size_t i = 0; i < FILES_MAX; i++) {
        const struct disk_file *f = &disk->files[i];
        char path[600];
        FILE *out;

        if (f->exists) {
            snprintf(path, sizeof(path), "%s/%s", dir, f->name);
            out = fopen(path, "wb");
            assert_non_null(out);
            assert_int_equal(fwrite(f->data, 1, f->n, out), f->n);
            fclose(out);
        }
    }
}

static struct shim_tape record_history(void)
{
    char dir[512], error[STORE_ERROR_MAX];
    struct shim_tape tape;
    struct kit_seen seen;
    struct store *st;

    kit_dir_make(dir, sizeof(dir));
    shim_arm(SHIM_PASS, 0, 0, 0);
    shim_tape_begin();
    assert_int_equal(kit_open(dir, &seen, &st, error), MU_OK);
    assert_int_equal(kit_history(st, shim_tape_mark), RECORDS_MAX);
    store_close(st);
    tape = shim_tape_take();
    kit_dir_remove(dir);
    return tape;
}

/* Whatever was written but not synced may be there, in part or not at all. */
static void a_power_cut_at_every_write_loses_nothing_acknowledged(void **state)
{
    struct shim_tape tape = record_history();
    unsigned rounds = kit_full() ? 40 : 3, cuts = 0;
    struct prng p;

    prng_init(&p, 20260101);
    for (size_t end = 0; end <= tape.n; end++) {
        for (unsigned i = 0; i < rounds; i++) {
            struct disk disk = {0};
            uint64_t acked = play(&tape, end, &disk, &p);
            char dir[512];

            kit_dir_make(dir, sizeof(dir));
            disk_write(&disk, dir);
            check_and_go_on(dir, acked);
            kit_dir_remove(dir);
            for (size_t k = 0; k < FILES_MAX; k++) {
                free(disk.files[k].data);
            }
            cuts++;
        }
    }
    print_message("# %u power cuts at %u points\n", cuts, (unsigned)tape.n);
    shim_tape_free(&tape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_9_at_every_write_loses_nothing_acknowledged),
        cmocka_unit_test(kill_9_in_the_middle_of_every_write_loses_nothing_acknowledged),
        cmocka_unit_test(kill_9_at_every_write_of_a_recovery_loses_nothing),
        cmocka_unit_test(a_power_cut_at_every_write_loses_nothing_acknowledged),
    };

    log_set_level((enum log_level) - 1); /* Damage is meant here. */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
