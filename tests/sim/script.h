/* The inside of scripts, shared by script.c, script_run.c, script_look.c and story.c. */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include "sim/sim.h"

#define WORDS_MAX 16

/* Who has committed which steps in one generation, since it was last told. */
struct commits {
    uint64_t generation;
    const char *how;
    uint32_t by[STEPS_N + 1]; /* a bit for each worker */
};

/* Workers that have done the same, to be told in one line. */
struct deed {
    uint32_t by;
    char one[12], more[12]; /* the verb, for one and for more of them */
    char rest[100];
};

/* How a worker stood after the last event. */
struct seen {
    wid self;
    enum step_phase phase;
    uint64_t term, committed;
    bool holds, paused, stopped;
};

/* Tells a run in few lines: whatever is said to the trace, what workers do that the trace does not
 * say, and commits in summary. */
struct story {
    struct trace_sink sink;
    FILE *out; /* where lines go; set by whoever runs a command */
    bool muted;
    bool brief; /* leaves out what a newcomer need not know */
    uint64_t told_us;
    char last[256]; /* the last line; the same again is not told */
    struct commits commits[4];
    uint32_t commits_n;
    struct deed deeds[4];
    uint32_t deeds_n;
    struct seen seen[WORKERS_N];
    /* The samples that took effect, by step, in the lineage that counts. */
    uint64_t lineage, head;
    uint64_t first_in[STEPS_N + 1], samples[STEPS_N + 1];
    uint64_t repeated_n;
};

struct script {
    struct world *w;
    struct story story;
    bool keep_record; /* the record on which the orchestrator dies reaches the disk */
    char error[256];  /* why the last command failed */
};

/* script_run.c: false with an error. The line is taken apart. */
bool script_command(struct script *s, char *line);
bool script_fail(struct script *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool script_number(const char *word, uint64_t *out);
bool script_node(struct script *s, const char *word, uint32_t *m_out);
bool script_worker(struct script *s, const char *word, uint32_t *worker_out);
/* Lets time pass until that moment, or until the question is answered by yes. */
struct question {
    bool (*yes)(struct script *s, const struct question *q);
    uint32_t worker;
    uint64_t number;
};
bool script_advance(struct script *s, uint64_t until_us, const struct question *q);

/* script_look.c: questions about the state of things */
bool command_until(struct script *s, char **words, int n);
bool command_expect(struct script *s, char **words, int n);
bool command_compare(struct script *s, char **words, int n);
bool generation_is_active(struct script *s, const struct question *q);
void members_text(struct script *s, uint64_t generation, char *out, size_t cap);

/* story.c */
void story_begin(struct story *st);
void story_watch(struct story *st, struct world *w); /* after every event */
void story_flush(struct story *st, struct world *w); /* at the end of a command */
void story_say(struct story *st, struct world *w, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void story_workers(uint32_t mask, char *out, size_t cap);

#endif
