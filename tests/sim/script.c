/* Scenarios: text files that read as prose.
 *
 *   # why this scenario exists
 *   > kill worker b.0
 *       orchestrator  b.0 is lost: it exited
 *
 * Lines that start with "> " are commands; the lines below each are what it made happen, compared
 * word by word. Blank lines and comments are free. scenarios/README.md has the commands. The
 * invariants of check.c hold in scripts as in seeds. */
#include "sim/script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX 1000

struct text {
    char *bytes; /* the lines point into it */
    char *lines[LINES_MAX];
    int n;
};

static bool text_read(struct text *t, const char *path)
{
    FILE *file = fopen(path, "r");
    size_t cap = 0;

    t->bytes = NULL;
    t->n = 0;
    if (file == NULL || getdelim(&t->bytes, &cap, '\0', file) < 0) {
        fprintf(stderr, "sim: %s: %s\n", path, errno != 0 ? strerror(errno) : "empty");
        if (file != NULL) {
            fclose(file);
        }
        return false;
    }
    fclose(file);
    for (char *line = t->bytes; *line != '\0' && t->n < LINES_MAX;) {
        char *end = strchrnul(line, '\n');

        t->lines[t->n++] = line;
        line = end + (*end != '\0');
        *end = '\0';
    }
    return true;
}

static bool is_outcome(const char *line)
{
    return line[0] == ' ';
}

/* Nothing to tell but what happens meanwhile. */
static bool is_wait(const char *line)
{
    return strncmp(line, "> until", 7) == 0 || strncmp(line, "> run", 5) == 0;
}

/* The lines of what happened, made from one block. */
static int split(char *block, char **lines)
{
    int n = 0;

    for (char *line = strtok(block, "\n"); line != NULL && n < LINES_MAX;
         line = strtok(NULL, "\n")) {
        lines[n++] = line;
    }
    return n;
}

/* Tells only the part in which the two differ. */
static bool compare(const char *path, int line, char *const *want, int want_n, char *const *got,
                    int got_n)
{
    int same = 0;

    while (same < want_n && same < got_n && strcmp(want[same], got[same]) == 0) {
        same++;
    }
    if (same == want_n && same == got_n) {
        return true;
    }
    printf("%s:%d: something else happened\n", path, line + same);
    while (want_n > same && got_n > same && strcmp(want[want_n - 1], got[got_n - 1]) == 0) {
        want_n--;
        got_n--;
    }
    for (int i = same; i < want_n; i++) {
        printf("  expected  %s\n", want[i] + strspn(want[i], " "));
    }
    for (int i = same; i < got_n; i++) {
        printf("  got       %s\n", got[i] + strspn(got[i], " "));
    }
    return false;
}

/* One command: runs it, then compares or writes down what happened. `at` is its line. */
static bool run_command(struct script *s, const struct text *t, int at, const char *path,
                        enum script_mode mode, FILE *out)
{
    static char *got[LINES_MAX];
    char *block = NULL, line[256];
    size_t block_n = 0;
    int want_n = 0;
    bool ok;

    snprintf(line, sizeof(line), "%s", t->lines[at] + 2);
    s->story.out = open_memstream(&block, &block_n);
    mu_assert(s->story.out != NULL);
    ok = script_command(s, line);
    fclose(s->story.out);
    while (at + 1 + want_n < t->n && is_outcome(t->lines[at + 1 + want_n])) {
        want_n++;
    }
    if (mode == SCRIPT_REWRITE || (mode == SCRIPT_TELL && !is_wait(t->lines[at]))) {
        fprintf(out, "%s%s\n", mode == SCRIPT_TELL ? "  " : "", t->lines[at]);
    }
    if (mode != SCRIPT_CHECK) {
        fputs(block, out);
    } else if (ok) {
        ok = compare(path, at + 2, &t->lines[at + 1], want_n, got, split(block, got));
    } else if (block_n > 0) {
        printf("%s", block);
    }
    if (s->error[0] != '\0') {
        printf("%s:%d: %s: %s\n", path, at + 1, t->lines[at], s->error);
    }
    free(block);
    return ok;
}

static void copy_line(const char *line, enum script_mode mode, FILE *out)
{
    if (mode == SCRIPT_TELL && line[0] == '#') {
        line += line[1] == ' ' ? 2 : 1;
    }
    if (mode != SCRIPT_CHECK && !is_outcome(line)) {
        fprintf(out, "%s\n", line);
    }
}

static bool write_back(const char *path, const char *bytes, size_t n)
{
    FILE *file = fopen(path, "w");
    bool ok = file != NULL && fwrite(bytes, 1, n, file) == n;

    ok = (file == NULL || fclose(file) == 0) && ok;
    if (!ok) {
        fprintf(stderr, "sim: %s: %s\n", path, strerror(errno));
    }
    return ok;
}

int script_main(const char *path, enum script_mode mode)
{
    static struct script s;
    static struct text t;
    char *written = NULL;
    size_t written_n = 0;
    FILE *out = mode == SCRIPT_TELL ? stdout : open_memstream(&written, &written_n);
    bool ok = text_read(&t, path);

    mu_assert(out != NULL);
    s.w = world_open();
    story_begin(&s.story);
    s.story.brief = mode == SCRIPT_TELL;
    for (int i = 0; i < t.n && ok; i++) {
        if (strncmp(t.lines[i], "> ", 2) == 0) {
            ok = run_command(&s, &t, i, path, mode, out);
        } else {
            copy_line(t.lines[i], mode, out);
        }
    }
    if (mode != SCRIPT_TELL) {
        fclose(out);
    }
    if (mode == SCRIPT_REWRITE && ok) {
        ok = write_back(path, written, written_n);
    }
    free(written);
    free(t.bytes);
    trace_to(NULL);
    world_close(s.w);
    return ok ? 0 : 1;
}
