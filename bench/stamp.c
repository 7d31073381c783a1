/* A worker that does nothing but say when things happen to it: usage: stamp FILE NODE
 *
 * FILE is mapped by every worker of a run and by whoever measures. Each takes the next place in it
 * and writes the monotonic clock: at the start of main(), and when SIGTERM arrives, upon which it
 * ends at once. SIGUSR1 makes it fail, as a script does whose collective lost a peer. */
#include "base/base.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum stamp_what { STAMP_NONE, STAMP_START, STAMP_TERM };

struct stamp {
    uint64_t ns;
    uint32_t node;
    uint32_t pid;
    uint32_t rank;
    uint32_t world;
    uint32_t restarts;
    _Atomic uint32_t what; /* written last */
};

struct stamps {
    _Atomic uint64_t n;
    uint64_t unused[3]; /* to the size of one stamp */
    struct stamp at[];
};

static struct stamps *stamps;
static uint64_t stamps_max;
static struct stamp self;

static void put(enum stamp_what what)
{
    struct timespec now;
    uint64_t place;

    clock_gettime(CLOCK_MONOTONIC, &now);
    place = atomic_fetch_add(&stamps->n, 1);
    if (place < stamps_max) {
        struct stamp *s = &stamps->at[place];

        s->ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        s->node = self.node;
        s->pid = self.pid;
        s->rank = self.rank;
        s->world = self.world;
        s->restarts = self.restarts;
        atomic_store(&s->what, what);
    }
}

static void on_term(int number)
{
    put(STAMP_TERM);
    _exit(0);
}

static void on_failure(int number)
{
    _exit(1);
}

static uint32_t from_environ(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static bool map_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0 || (size_t)st.st_size < sizeof(*stamps)) {
        return false;
    }
    stamps = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    stamps_max = ((size_t)st.st_size - sizeof(*stamps)) / sizeof(struct stamp);
    close(fd);
    return stamps != MAP_FAILED;
}

int main(int argc, char **argv)
{
    if (argc != 3 || !map_file(argv[1])) {
        fprintf(stderr, "usage: stamp FILE NODE; the file must be there\n");
        return 2;
    }
    self.node = (uint32_t)strtoul(argv[2], NULL, 10);
    self.pid = (uint32_t)getpid();
    self.rank = from_environ("RANK");
    self.world = from_environ("WORLD_SIZE");
    self.restarts = from_environ("TORCHELASTIC_RESTART_COUNT");
    signal(SIGTERM, on_term);
    signal(SIGUSR1, on_failure);
    put(STAMP_START);
    for (;;) {
        pause();
    }
}
