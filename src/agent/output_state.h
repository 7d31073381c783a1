/* The inside of output: consoles, and one stream per pipe that is being read. */
#ifndef AGENT_OUTPUT_STATE_H
#define AGENT_OUTPUT_STATE_H

#include "agent/output.h"
#include "agent/output_writer.h"

#include <sys/queue.h>

#define STREAM_BYTES (64u << 10)
#define STREAM_PARTIAL_MS 200

/* What stdout and stderr share if they are the same terminal or file, so that their lines keep
 * their order and do not mix. */
struct lane {
    struct writer *writer;
    const struct stream *open; /* whose line has no end yet, on the console */
};

struct console {
    struct lane *lane;
    struct target *target;
    bool colour;
};

/* One pipe, from its start to its end. */
struct stream {
    LIST_ENTRY(stream) link;
    struct output *output;
    uv_poll_t poll;
    uv_timer_t timer;
    uint32_t handles_n; /* to be closed before it is freed */
    int fd;
    uint32_t slot;
    uint32_t rank;
    uint32_t start;
    bool paused; /* there was no room */
    bool ended;
    struct console *console; /* NULL: not there */
    struct target *file;     /* NULL: none */
    size_t n;                /* bytes of a line that has no end yet */
    char bytes[STREAM_BYTES];
};

/* What is left of a slot's output once it was read. */
struct slot_output {
    uint32_t start; /* number of its newest process */
    uint32_t streams_n;
    uint64_t console_last[2]; /* by lane */
    uint64_t file_last;
};

struct output {
    uv_loop_t *loop;
    bool prefix;
    void (*news)(void *data);
    void *data;
    char *root; /* DIR/<job>/<node>; NULL: no files */
    struct lane lanes[2];
    struct console consoles[2];
    struct writer *files;
    LIST_HEAD(, stream) streams;
    struct slot_output slots[SLOTS_MAX];
    bool closing, over;
    bool told_no_dir;
    uv_timer_t flush;
};

/* output_stream.c. fd is given on success, also if it fails to be read later. */
int stream_open(struct output *o, const struct output_start *start, unsigned which, int fd);
void stream_resume(struct stream *s);
/* Takes what has been read so far as all there is. */
void stream_end(struct stream *s);

/* output.c: a stream has ended, or a writer has written. */
void output_check(struct output *o);

#endif
