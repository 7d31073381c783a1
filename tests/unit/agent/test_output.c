/* Lines on a console and bytes in files, with pipes, terminals, full disks and readers that do not
 * read. The test plays the worker: it writes to the ends that output_start() gives. */
#include "agent/output.h"
#include "unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 30000
#define TICK_MS 5

struct kit {
    uv_loop_t loop;
    struct output *o;
    int console[2]; /* what we read of stdout and stderr */
    char dir[32];
};

/* ---- running ---- */

/* A turn of the loop may run a timer first and then wait for the next: this is the next. */
static void on_tick(uv_timer_t *timer)
{
}

/* Until the slot is done, or for so long. */
static bool run(struct kit *k, uint32_t slot, uint64_t ms)
{
    uint64_t end_ms = net_now_ms() + ms;
    bool done = false;
    uv_timer_t timer;

    uv_timer_init(&k->loop, &timer);
    uv_timer_start(&timer, on_tick, TICK_MS, TICK_MS);
    while (!(done = output_is_done(k->o, slot)) && net_now_ms() < end_ms) {
        uv_run(&k->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&k->loop, UV_RUN_NOWAIT);
    return done;
}

static void wait_done(struct kit *k, uint32_t slot)
{
    assert_true(run(k, slot, WAIT_MS));
}

static void open_on(struct kit *k, int out, int err, bool prefix, const char *dir)
{
    struct output_config config = {
        .fds = {out, err}, .prefix = prefix, .log_dir = dir, .job = "job", .node = "node"};

    assert_int_equal(uv_loop_init(&k->loop), 0);
    assert_int_equal(output_open(&k->loop, &config, &k->o), MU_OK);
}

static void pipe_of(int size, int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, size) >= size);
}

/* stdout and stderr are two pipes that hold a mebibyte each. */
static void open_kit(struct kit *k, bool prefix, bool files)
{
    int out[2], err[2];

    strcpy(k->dir, "/tmp/muster-test-XXXXXX");
    assert_non_null(mkdtemp(k->dir));
    pipe_of(1 << 20, out);
    pipe_of(1 << 20, err);
    k->console[0] = out[0];
    k->console[1] = err[0];
    open_on(k, out[1], err[1], prefix, files ? k->dir : NULL);
    /* The ends stay open in the process, as 1 and 2 do. */
}

static void close_loop(struct kit *k, uint32_t flush_ms)
{
    output_close(k->o, flush_ms);
    uv_run(&k->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&k->loop), 0);
}

static void remove_files(const struct kit *k)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", k->dir);
    assert_int_equal(system(command), 0);
}

static void close_kit(struct kit *k)
{
    close_loop(k, WAIT_MS);
    remove_files(k);
}

/* ---- writing and reading ---- */

static void start(struct kit *k, uint32_t slot, uint32_t rank, enum stream_to to, int fds[2])
{
    struct output_start s = {
        .slot = slot, .rank = rank, .generation = 7, .to = {(uint8_t)to, (uint8_t)to}};

    assert_int_equal(output_start(k->o, &s, fds), MU_OK);
}

static void say(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void hang_up(int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

/* … and waits until all that was said has been written. */
static void hang_up_and_wait(struct kit *k, uint32_t slot, int fds[2])
{
    hang_up(fds);
    wait_done(k, slot);
}

/* What is on the console by now. */
static const char *seen(int fd)
{
    static char text[2 << 20];
    ssize_t n;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    n = read(fd, text, sizeof(text) - 1);
    text[MAX(n, 0)] = '\0';
    return text;
}

/* That comes to the console next, in however many pieces; what comes with it already, on a machine
 * that is busy, is the beginning of what is expected after it. */
static void expect_soon(struct kit *k, uint32_t slot, const char *want)
{
    static char text[64];
    const uint64_t end_ms = net_now_ms() + WAIT_MS;
    const size_t n = strlen(want);

    while (strlen(text) < n && net_now_ms() < end_ms) {
        run(k, slot, TICK_MS);
        strncat(text, seen(k->console[0]), sizeof(text) - strlen(text) - 1);
    }
    assert_int_equal(strncmp(text, want, n), 0);
    memmove(text, text + n, strlen(text + n) + 1);
}

static const char *file_text(const char *dir, const char *name)
{
    static char text[1 << 16];
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "re");
    if (file == NULL) {
        return NULL;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- the console ---- */

static void lines_have_the_rank_before_them(void **state)
{
    struct kit k;
    int a[2], b[2];

    open_kit(&k, true, false);
    start(&k, 0, 3, STREAM_CONSOLE, a);
    start(&k, 1, 12, STREAM_CONSOLE, b);
    say(a[0], "one\ntwo\n\n");
    say(a[1], "oh\n");
    hang_up_and_wait(&k, 0, a);
    say(b[0], "three\n");
    hang_up_and_wait(&k, 1, b);
    assert_string_equal(seen(k.console[0]), "[3] one\n[3] two\n[3] \n[12] three\n");
    assert_string_equal(seen(k.console[1]), "[3] oh\n");
    close_kit(&k);
}

static void half_a_line_waits_for_its_end(void **state)
{
    struct kit k;
    int a[2];

    open_kit(&k, true, false);
    start(&k, 0, 0, STREAM_CONSOLE, a);
    say(a[0], "one\nbe");
    expect_soon(&k, 0, "[0] one\n");
    say(a[0], "gun\n");
    expect_soon(&k, 0, "[0] begun\n");
    say(a[0], "next");
    hang_up_and_wait(&k, 0, a); /* The end of the stream is the end of the line. */
    expect_soon(&k, 0, "[0] next\n");
    close_kit(&k);
}

/* A prompt, a progress bar: shown after a moment; what follows goes on in the same line unless
 * somebody else has written. */
static void half_a_line_does_not_wait_for_ever(void **state)
{
    struct kit k;
    int a[2], b[2];

    open_kit(&k, true, false);
    start(&k, 0, 0, STREAM_CONSOLE, a);
    start(&k, 1, 1, STREAM_CONSOLE, b);
    say(a[0], "loss=");
    expect_soon(&k, 0, "[0] loss=");
    say(a[0], "0.5\nacc=");
    expect_soon(&k, 0, "0.5\n[0] acc=");
    say(b[0], "hello\n");
    expect_soon(&k, 1, "\n[1] hello\n");
    say(a[0], "0.9\n");
    expect_soon(&k, 0, "[0] 0.9\n");
    say(a[0], "bye");
    expect_soon(&k, 0, "[0] bye");
    hang_up(a);
    hang_up(b);
    wait_done(&k, 0);
    expect_soon(&k, 0, "\n");
    close_kit(&k);
}

static void a_line_without_end_is_cut_at_64_kib(void **state)
{
    enum { N = 200000 };
    struct kit k;
    char *text = malloc(N + 2);
    const char *got;
    int a[2];

    open_kit(&k, true, false);
    start(&k, 0, 0, STREAM_CONSOLE, a);
    fcntl(a[0], F_SETPIPE_SZ, 1 << 20);
    memset(text, 'x', N);
    strcpy(text + N, "\n");
    say(a[0], text);
    hang_up_and_wait(&k, 0, a);
    got = seen(k.console[0]);
    assert_int_equal(strlen(got), 4 + N + 1);
    assert_memory_equal(got, "[0] ", 4);
    assert_string_equal(got + 4, text);
    close_kit(&k);
    free(text);
}

static void without_prefix_the_bytes_are_the_workers(void **state)
{
    struct kit k;
    int a[2], b[2];

    open_kit(&k, false, false);
    start(&k, 0, 0, STREAM_CONSOLE, a);
    start(&k, 1, 1, STREAM_CONSOLE, b);
    say(a[0], "a\nb");
    hang_up_and_wait(&k, 0, a);
    say(b[0], "c\n");
    hang_up_and_wait(&k, 1, b);
    assert_string_equal(seen(k.console[0]), "a\nbc\n");
    close_kit(&k);
}

static void a_newcomer_is_named_by_its_slot_until_it_has_a_rank(void **state)
{
    struct kit k;
    int a[2], b[2];

    open_kit(&k, true, false);
    start(&k, 5, OUTPUT_NO_RANK, STREAM_CONSOLE, a);
    say(a[0], "warming\n");
    run(&k, 5, 20);
    output_set_rank(k.o, 5, 2);
    say(a[0], "in\n");
    run(&k, 5, 20);
    start(&k, 5, OUTPUT_NO_RANK, STREAM_CONSOLE, b); /* the next process of the slot */
    output_set_rank(k.o, 5, 4);
    say(a[0], "late\n");
    hang_up(a);
    run(&k, 5, 20);
    say(b[0], "other\n");
    hang_up_and_wait(&k, 5, b);
    assert_string_equal(seen(k.console[0]), "[s5] warming\n[2] in\n[2] late\n[4] other\n");
    close_kit(&k);
}

static void read_terminal(int fd, char *text, size_t cap)
{
    size_t n = 0;
    ssize_t got;

    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (n < cap - 1 && (got = read(fd, text + n, cap - 1 - n)) > 0) {
        n += (size_t)got;
    }
    text[n] = '\0';
}

/* Also: stdout and stderr of one terminal are one console, so their lines keep their order. */
static void colours_are_for_terminals_and_who_wants_them(void **state)
{
    for (int plain = 0; plain < 2; plain++) {
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), tty, a[2];
        char text[256];
        struct kit k;

        if (master < 0) {
            print_message("# no terminal can be made here: is /dev/pts mounted?\n");
            skip();
        }
        assert_true(grantpt(master) == 0 && unlockpt(master) == 0);
        tty = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
        assert_true(tty >= 0);
        if (plain) {
            setenv("NO_COLOR", "1", 1);
        } else {
            unsetenv("NO_COLOR");
        }
        open_on(&k, tty, tty, true, NULL);
        start(&k, 0, 1, STREAM_CONSOLE, a);
        say(a[0], "out\n");
        run(&k, 0, 50);
        say(a[1], "err\n");
        hang_up_and_wait(&k, 0, a);
        read_terminal(master, text, sizeof(text));
        assert_string_equal(text, plain ? "[1] out\r\n[1] err\r\n"
                                        : "\033[32m[1]\033[0m out\r\n\033[32m[1]\033[0m err\r\n");
        close_loop(&k, WAIT_MS);
        close(tty);
        close(master);
    }
    unsetenv("NO_COLOR");
}

/* ---- files ---- */

static void files_hold_what_was_written_and_the_console_what_it_should(void **state)
{
    static const struct {
        enum stream_to to;
        bool console;
        const char *file;
    } cases[] = {
        {STREAM_CONSOLE, true, NULL}, {STREAM_FILE, false, "a\nb"}, {STREAM_BOTH, true, "a\nb"}};
    struct kit k;

    open_kit(&k, true, true);
    for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
        char name[64], want[64];
        int a[2];

        start(&k, i, 10 + i, cases[i].to, a);
        say(a[0], "a\nb");
        hang_up_and_wait(&k, i, a);
        snprintf(want, sizeof(want), "[%u] a\n[%u] b\n", 10 + i, 10 + i);
        assert_string_equal(seen(k.console[0]), cases[i].console ? want : "");
        snprintf(name, sizeof(name), "job/node/attempt_7/%u/stdout.log", 10 + i);
        if (cases[i].file != NULL) {
            assert_string_equal(file_text(k.dir, name), cases[i].file);
            snprintf(name, sizeof(name), "job/node/attempt_7/%u/stderr.log", 10 + i);
            assert_string_equal(file_text(k.dir, name), "");
        } else {
            assert_null(file_text(k.dir, name));
        }
    }
    close_kit(&k);
}

static void each_stream_goes_its_own_way_and_a_second_start_appends(void **state)
{
    struct output_start s = {
        .slot = 2, .rank = OUTPUT_NO_RANK, .to = {STREAM_FILE, STREAM_CONSOLE}};
    struct kit k;
    int a[2];

    open_kit(&k, true, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(output_start(k.o, &s, a), MU_OK);
        say(a[0], "out\n");
        say(a[1], "err\n");
        hang_up_and_wait(&k, 2, a);
    }
    assert_string_equal(seen(k.console[0]), "");
    assert_string_equal(seen(k.console[1]), "[s2] err\n[s2] err\n");
    assert_string_equal(file_text(k.dir, "job/node/attempt_0/slot_2/stdout.log"), "out\nout\n");
    assert_null(file_text(k.dir, "job/node/attempt_0/slot_2/stderr.log"));
    close_kit(&k);
}

static void without_a_directory_everything_is_on_the_console(void **state)
{
    struct kit k;
    char text[1024];
    int a[2];

    open_kit(&k, true, false);
    unit_stderr_begin();
    start(&k, 0, 0, STREAM_FILE, a);
    unit_stderr_end(text, sizeof(text));
    assert_non_null(strstr(text, "--log-dir"));
    say(a[0], "here\n");
    hang_up_and_wait(&k, 0, a);
    assert_string_equal(seen(k.console[0]), "[0] here\n");
    close_kit(&k);
}

static uint32_t count(const char *text, const char *word)
{
    uint32_t n = 0;

    for (; (text = strstr(text, word)) != NULL; text += strlen(word)) {
        n++;
    }
    return n;
}

/* A file where the directory should be: nobody can write there, root included. */
static void a_directory_that_can_not_be_used_is_reported_once(void **state)
{
    struct kit k;
    char path[64], text[4096];
    int a[2], b[2];

    open_kit(&k, true, true);
    snprintf(path, sizeof(path), "%s/job", k.dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    unit_stderr_begin();
    start(&k, 0, 0, STREAM_BOTH, a);
    start(&k, 1, 1, STREAM_FILE, b);
    say(a[0], "still shown\n");
    say(b[0], "dropped\n");
    hang_up(a);
    hang_up(b);
    wait_done(&k, 0);
    wait_done(&k, 1);
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count(text, "error"), 1);
    assert_non_null(strstr(text, "Not a directory"));
    assert_non_null(strstr(text, "training goes on"));
    assert_string_equal(seen(k.console[0]), "[0] still shown\n");
    close_kit(&k);
}

/* /dev/full in the place of the file: every write finds the disk full; then there is room. */
static void a_full_disk_is_reported_once_and_survived(void **state)
{
    struct kit k;
    char folder[128], path[160], text[4096];
    int a[2];

    open_kit(&k, true, true);
    snprintf(folder, sizeof(folder), "mkdir -p %s/job/node/attempt_7/0", k.dir);
    assert_int_equal(system(folder), 0);
    snprintf(path, sizeof(path), "%s/job/node/attempt_7/0/stdout.log", k.dir);
    assert_int_equal(symlink("/dev/full", path), 0);
    unit_stderr_begin();
    start(&k, 0, 0, STREAM_BOTH, a);
    for (int i = 0; i < 5; i++) {
        say(a[0], "line\n");
        run(&k, 0, 5);
    }
    hang_up_and_wait(&k, 0, a);
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count(text, "No space left"), 1);
    assert_int_equal(count(seen(k.console[0]), "[0] line\n"), 5);
    unlink(path);
    start(&k, 0, 0, STREAM_BOTH, a);
    say(a[0], "again\n");
    hang_up_and_wait(&k, 0, a);
    assert_string_equal(file_text(k.dir, "job/node/attempt_7/0/stdout.log"), "again\n");
    close_kit(&k);
}

/* ---- consoles that do not take it ---- */

static uint32_t count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    uint32_t n = 0;

    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

/* A worker that writes without end meets a full pipe; others and the loop go on; memory is bounded;
 * closing does not wait for the console. */
static void a_console_that_is_stuck_holds_up_only_its_own(void **state)
{
    char chunk[4096];
    size_t taken = 0;
    struct kit k;
    int a[2], b[2];
    uint64_t turns = 0;
    uint32_t threads_n = count_threads();

    open_kit(&k, true, false);
    start(&k, 0, 0, STREAM_CONSOLE, a);
    start(&k, 1, 1, STREAM_CONSOLE, b);
    fcntl(a[0], F_SETFL, O_NONBLOCK);
    memset(chunk, 'y', sizeof(chunk));
    chunk[sizeof(chunk) - 1] = '\n';
    for (int idle = 0; idle < 20; turns++) {
        ssize_t n = write(a[0], chunk, sizeof(chunk));

        if (n > 0) {
            taken += (size_t)n;
            idle = 0;
        } else {
            assert_int_equal(errno, EAGAIN);
            run(&k, 0, 5); /* The loop turns, whatever the console does. */
            idle++;
        }
        assert_true(taken < 16 << 20);
    }
    assert_true(taken > 1 << 20); /* all of the console's pipe, at least */
    say(b[1], "stderr is another\n");
    hang_up(b);
    run(&k, 1, 200);
    assert_string_equal(seen(k.console[1]), "[1] stderr is another\n");
    assert_false(output_is_done(k.o, 0));
    hang_up(a);
    close_loop(&k, 50);
    unit_stderr_begin();
    close(k.console[0]); /* lets the thread go */
    while (count_threads() > threads_n) {
        usleep(1000);
    }
    unit_stderr_end(chunk, sizeof(chunk));
    rmdir(k.dir);
}

struct reader {
    int fd;
    size_t n;
    uint64_t lines;
};

static void *read_slowly(void *arg)
{
    struct reader *r = arg;
    char chunk[8192];
    ssize_t n;

    while ((n = read(r->fd, chunk, sizeof(chunk))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            r->lines += chunk[i] == '\n';
        }
        r->n += (size_t)n;
        if (r->n % 7 == 0) {
            usleep(500);
        }
    }
    return NULL;
}

/* Nothing is lost between a fast worker and a slow console. */
static void a_slow_console_gets_everything(void **state)
{
    enum { LINES = 300000 };
    int ends[2], a[2];
    struct reader r = {.n = 0};
    pthread_t thread;
    struct kit k;
    pid_t worker;

    pipe_of(4096, ends);
    r.fd = ends[0];
    open_on(&k, ends[1], ends[1], true, NULL);
    start(&k, 0, 0, STREAM_CONSOLE, a);
    worker = fork();
    if (worker == 0) {
        FILE *file = fdopen(a[0], "w");

        for (int i = 0; i < LINES; i++) {
            fprintf(file, "%d\n", i);
        }
        fclose(file);
        _exit(0);
    }
    hang_up(a);
    pthread_create(&thread, NULL, read_slowly, &r);
    wait_done(&k, 0);
    close_loop(&k, WAIT_MS);
    close(ends[1]);
    pthread_join(thread, NULL);
    waitpid(worker, NULL, 0);
    assert_int_equal(r.lines, LINES);
    assert_int_equal(r.n, 1988890 + 4 * LINES); /* the digits and ends of 0 … 299,999; the tags */
    close(ends[0]);
}

static void a_console_that_is_gone_is_reported_once_and_survived(void **state)
{
    char text[4096];
    struct kit k;
    int a[2];

    open_kit(&k, true, true);
    close(k.console[0]);
    unit_stderr_begin();
    start(&k, 0, 0, STREAM_BOTH, a);
    for (int i = 0; i < 3; i++) {
        say(a[0], "x\n");
        run(&k, 0, 5);
    }
    hang_up_and_wait(&k, 0, a);
    unit_stderr_end(text, sizeof(text));
    assert_int_equal(count(text, "could not write to stdout: Broken pipe"), 1);
    assert_string_equal(file_text(k.dir, "job/node/attempt_7/0/stdout.log"), "x\nx\nx\n");
    close_kit(&k);
}

static void a_console_that_does_not_wait_is_waited_for(void **state)
{
    enum { N = 500000 };
    int ends[2], a[2];
    struct reader r = {.n = 0};
    char *text = malloc(N + 1);
    pthread_t thread;
    struct kit k;

    pipe_of(4096, ends);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    r.fd = ends[0];
    open_on(&k, ends[1], ends[1], false, NULL);
    start(&k, 0, 0, STREAM_CONSOLE, a);
    fcntl(a[0], F_SETPIPE_SZ, 1 << 20);
    memset(text, 'z', N);
    text[N] = '\0';
    say(a[0], text);
    hang_up(a);
    pthread_create(&thread, NULL, read_slowly, &r);
    wait_done(&k, 0);
    close_loop(&k, WAIT_MS);
    close(ends[1]);
    pthread_join(thread, NULL);
    assert_int_equal(r.n, N);
    close(ends[0]);
    free(text);
}

/* ---- the end ---- */

static void closing_reads_what_is_left(void **state)
{
    struct kit k;
    int a[2];

    open_kit(&k, true, true);
    start(&k, 0, 0, STREAM_BOTH, a);
    say(a[0], "the last words");
    hang_up(a);
    close_loop(&k, WAIT_MS);
    assert_string_equal(seen(k.console[0]), "[0] the last words\n");
    assert_string_equal(file_text(k.dir, "job/node/attempt_7/0/stdout.log"), "the last words");
    remove_files(&k);
}

static void closing_does_not_wait_for_a_worker_that_holds_its_pipe(void **state)
{
    struct kit k;
    int a[2];

    open_kit(&k, true, false);
    start(&k, 0, 0, STREAM_CONSOLE, a);
    say(a[0], "half");
    run(&k, 0, 20);
    close_loop(&k, 20);
    hang_up(a);
    rmdir(k.dir);
}

static void all_slots_write_at_once(void **state)
{
    int fds[SLOTS_MAX][2];
    char want[32];
    const char *text;
    struct kit k;

    open_kit(&k, true, true);
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        start(&k, i, i, STREAM_BOTH, fds[i]);
    }
    for (int line = 0; line < 20; line++) {
        for (uint32_t i = 0; i < SLOTS_MAX; i++) {
            say(fds[i][0], "some words in a line\n");
        }
        uv_run(&k.loop, UV_RUN_NOWAIT);
    }
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        hang_up(fds[i]);
    }
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        wait_done(&k, i);
    }
    text = seen(k.console[0]);
    assert_int_equal(count(text, "\n"), 20 * SLOTS_MAX);
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        snprintf(want, sizeof(want), "[%u] some words in a line\n", i);
        assert_int_equal(count(text, want), 20);
    }
    close_kit(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_the_rank_before_them),
        cmocka_unit_test(half_a_line_waits_for_its_end),
        cmocka_unit_test(half_a_line_does_not_wait_for_ever),
        cmocka_unit_test(a_line_without_end_is_cut_at_64_kib),
        cmocka_unit_test(without_prefix_the_bytes_are_the_workers),
        cmocka_unit_test(a_newcomer_is_named_by_its_slot_until_it_has_a_rank),
        cmocka_unit_test(colours_are_for_terminals_and_who_wants_them),
        cmocka_unit_test(files_hold_what_was_written_and_the_console_what_it_should),
        cmocka_unit_test(each_stream_goes_its_own_way_and_a_second_start_appends),
        cmocka_unit_test(without_a_directory_everything_is_on_the_console),
        cmocka_unit_test(a_directory_that_can_not_be_used_is_reported_once),
        cmocka_unit_test(a_full_disk_is_reported_once_and_survived),
        cmocka_unit_test(a_console_that_is_stuck_holds_up_only_its_own),
        cmocka_unit_test(a_slow_console_gets_everything),
        cmocka_unit_test(a_console_that_is_gone_is_reported_once_and_survived),
        cmocka_unit_test(a_console_that_does_not_wait_is_waited_for),
        cmocka_unit_test(closing_reads_what_is_left),
        cmocka_unit_test(closing_does_not_wait_for_a_worker_that_holds_its_pipe),
        cmocka_unit_test(all_slots_write_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
