/* Tar shards, as WebDataset has them: a sample is the files, one after another, that have one name
 * up to the first dot of it. Its columns are called by what follows the dot; "__key__" is the name.
 */
#include "data/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512u
#define NAME_MAX_BYTES 4096u
#define MEMBERS_MAX 1024u /* of a sample */

struct member {
    char name[NAME_MAX_BYTES + 1];
    uint64_t at, n, next; /* its bytes, and where the next head is; from the sample's beginning */
    bool file;
};

/* A window's names of the columns of the sample that is shown. */
struct sample {
    struct member member;
    char *names;
    size_t names_n, names_cap;
};

static bool octal(const uint8_t *p, size_t n, uint64_t *out)
{
    size_t i = 0;

    *out = 0;
    if ((p[0] & 0x80) != 0) { /* base 256: of files of 8 GiB and more */
        for (i = n - 8; i < n; i++) {
            *out = *out << 8 | p[i];
        }
        return *out >> 62 == 0;
    }
    while (i < n && p[i] == ' ') {
        i++;
    }
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) {
        *out = *out << 3 | (uint64_t)(p[i] - '0');
    }
    return i == n || p[i] == ' ' || p[i] == '\0';
}

static bool is_head(const uint8_t *p)
{
    uint64_t told, sum = 0;

    for (uint32_t i = 0; i < BLOCK; i++) {
        sum += i >= 148 && i < 156 ? ' ' : p[i];
    }
    return octal(p + 148, 8, &told) && told == sum;
}

static bool guess(const struct guess *g)
{
    return g->head_n >= BLOCK && is_head(g->head) &&
           (memcmp(g->head + 257, "ustar", 5) == 0 || guess_ends(g, ".tar"));
}

static bool is_zero(const uint8_t *p)
{
    return p[0] == 0 && memcmp(p, p + 1, BLOCK - 1) == 0;
}

/* The path= and size= of a pax head: lines "27 path=a/b.jpg\n". */
static void read_pax(const uint8_t *p, size_t n, char *name, uint64_t *size)
{
    while (n > 0) {
        char number[24];
        const uint8_t *blank = memchr(p, ' ', MIN(n, (size_t)20));
        uint64_t line = 0;
        size_t head;

        for (const uint8_t *d = p; blank != NULL && d < blank && *d >= '0' && *d <= '9'; d++) {
            line = line * 10 + (uint64_t)(*d - '0');
        }
        if (line > n || blank == NULL || (head = (size_t)(blank + 1 - p)) >= line) {
            return;
        }
        if (line - head > 5 && memcmp(blank + 1, "path=", 5) == 0 &&
            line - head - 6 <= NAME_MAX_BYTES) {
            memcpy(name, blank + 6, line - head - 6);
            name[line - head - 6] = '\0';
        } else if (line - head > 5 && memcmp(blank + 1, "size=", 5) == 0 &&
                   line - head - 6 < sizeof(number)) {
            memcpy(number, blank + 6, line - head - 6);
            number[line - head - 6] = '\0';
            *size = strtoull(number, NULL, 10);
        }
        p += line;
        n -= line;
    }
}

static void read_name(const uint8_t *p, char *name)
{
    size_t n = 0;

    if (memcmp(p + 257, "ustar\0", 6) == 0 && p[345] != 0) {
        n = strnlen((const char *)p + 345, 155);
        memcpy(name, p + 345, n);
        name[n++] = '/';
    }
    memcpy(name + n, p, 100);
    name[n + strnlen((const char *)p, 100)] = '\0';
}

/* The member whose heads begin `from` bytes behind `at`. The window holds all from `at` on.
 * MU_EDONE. */
static int read_member(const struct shard *s, struct cursor *c, uint64_t at, uint64_t from,
                       struct member *m)
{
    uint64_t have, size = UINT64_MAX, n;
    const uint8_t *p;
    int rc;

    m->name[0] = '\0';
    for (;;) {
        if (at + from >= s->source.size) {
            return MU_EDONE;
        }
        if (from > s->o->max) {
            return shard_damaged(
                s, at, "a sample is larger than %" PRIu64 " bytes (the option max)", s->o->max);
        }
        rc = window_need(&c->window, at, from + BLOCK, &p, &have);
        if (rc != MU_OK) {
            return rc;
        }
        if (have < from + BLOCK) {
            return shard_damaged(s, at + from, "it ends in the middle of a head");
        }
        p += from;
        if (is_zero(p)) {
            return MU_EDONE;
        }
        if (!is_head(p) || !octal(p + 124, 12, &n)) {
            return shard_damaged(s, at + from, "there should be the head of a file");
        }
        if (size != UINT64_MAX && p[156] != 'x' && p[156] != 'g' && p[156] != 'L') {
            n = size;
        }
        m->at = from + BLOCK;
        m->n = n;
        if (n > s->source.size - (at + m->at)) {
            return shard_damaged(s, at + from,
                                 "it ends in the middle of a file of %" PRIu64 " bytes", n);
        }
        m->next = m->at + (n + BLOCK - 1) / BLOCK * BLOCK;
        if (p[156] != 'x' && p[156] != 'g' && p[156] != 'L') {
            break;
        }
        if (n > 2 * NAME_MAX_BYTES) {
            return shard_damaged(s, at + from, "the name of a file is too long");
        }
        from = m->next;
        rc = window_need(&c->window, at, m->at + n, &p, &have);
        if (rc != MU_OK) {
            return rc;
        }
        p += m->at;
        if (p[(ptrdiff_t)156 - (ptrdiff_t)BLOCK] == 'x') {
            read_pax(p, (size_t)n, m->name, &size);
        } else if (p[(ptrdiff_t)156 - (ptrdiff_t)BLOCK] == 'L') {
            memcpy(m->name, p, MIN(n, (uint64_t)NAME_MAX_BYTES));
            m->name[MIN(n, (uint64_t)NAME_MAX_BYTES)] = '\0';
        }
    }
    m->file = p[156] == '0' || p[156] == '\0' || p[156] == '7';
    if (m->name[0] == '\0') {
        read_name(p, m->name);
    }
    return MU_OK;
}

/* The bytes of a name that are the sample's; 0: a file that belongs to none. */
static size_t key_of(const struct member *m)
{
    const char *slash = strrchr(m->name, '/'), *file = slash != NULL ? slash + 1 : m->name;
    const char *dot = strchr(file, '.');

    if (!m->file || dot == NULL || dot == file || strncmp(file, "__", 2) == 0) {
        return 0;
    }
    return (size_t)(dot - m->name);
}

static struct sample *sample_of(const struct shard *s, struct cursor *c)
{
    if (c->own == NULL) {
        c->own = calloc(1, sizeof(struct sample));
        if (c->own == NULL) {
            shard_no_memory(s);
        }
    }
    return c->own;
}

static int add_name(const struct shard *s, struct sample *t, const char *name, size_t n, size_t *at)
{
    if (t->names_n + n + 1 > t->names_cap) {
        const size_t cap = MAX(t->names_cap * 2, t->names_n + n + 256);
        char *names = realloc(t->names, cap);

        if (names == NULL) {
            return shard_no_memory(s);
        }
        t->names = names;
        t->names_cap = cap;
    }
    *at = t->names_n;
    memcpy(t->names + t->names_n, name, n);
    t->names[t->names_n + n] = '\0';
    t->names_n += n + 1;
    return MU_OK;
}

/* One more file of the sample: its field keeps where its name is, until names move no more. */
static int add_field(const struct shard *s, struct cursor *c, struct sample *t, uint64_t at,
                     uint32_t n, size_t key)
{
    const struct member *m = &t->member;
    size_t name;
    int rc = cursor_fields(s, c, (size_t)n + 1);

    rc = rc == MU_OK ? add_name(s, t, m->name + key + 1, strlen(m->name + key + 1), &name) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    for (uint32_t i = 1; i < n; i++) {
        if (strcmp(t->names + c->fields[i].integer, t->names + name) == 0) {
            return shard_damaged(s, at, "the sample %s has two files called .%s", t->names,
                                 t->names + name);
        }
    }
    c->fields[n] = (mu_field){
        .type = MU_BYTES, .n = (size_t)m->n, .integer = (int64_t)name, .real = (double)m->at};
    return MU_OK;
}

/* A sample from its first head on: how many fields it has, and where it ends. */
static int gather(const struct shard *s, struct cursor *c, uint64_t at, uint32_t *fields_n,
                  uint64_t *next)
{
    struct sample *t = sample_of(s, c);
    uint64_t from = 0;
    size_t key, name;
    int rc = t != NULL ? read_member(s, c, at, 0, &t->member) : MU_ENOMEM;

    *next = rc == MU_OK ? at + t->member.next : 0;
    if (rc != MU_OK) {
        return rc;
    }
    *fields_n = 1;
    t->names_n = 0;
    key = key_of(&t->member);
    if (key == 0) {
        *fields_n = 0;
        return MU_OK;
    }
    rc = add_name(s, t, t->member.name, key, &name);
    rc = rc == MU_OK ? cursor_fields(s, c, 8) : rc;
    while (rc == MU_OK) {
        rc = add_field(s, c, t, at + from, (*fields_n)++, key);
        from = t->member.next;
        *next = at + from;
        if (rc == MU_OK && (from > s->o->max || *fields_n > MEMBERS_MAX)) {
            rc = shard_damaged(s, at,
                               "the sample %s is larger than %" PRIu64
                               " bytes (the option max), or has more than %u files",
                               t->names, s->o->max, MEMBERS_MAX);
        }
        if (rc != MU_OK || read_member(s, c, at, from, &t->member) != MU_OK ||
            key_of(&t->member) != key || memcmp(t->member.name, t->names, key) != 0) {
            break; /* What is damaged behind it is told of when that is looked at. */
        }
    }
    return rc;
}

/* From `at` on, the first block that is a head. */
static uint64_t next_head(const struct shard *s, struct cursor *c, uint64_t at)
{
    const uint8_t *p;
    uint64_t have;

    for (at += BLOCK; at < s->source.size; at += BLOCK) {
        if (window_need(&c->window, at, BLOCK, &p, &have) != MU_OK || have < BLOCK) {
            return 0;
        }
        if (!is_zero(p) && is_head(p)) {
            return at;
        }
    }
    return 0;
}

static int next(const struct shard *s, struct cursor *c, uint64_t at, bool whole,
                struct extent *out)
{
    uint32_t fields_n;
    uint64_t after;
    int rc;

    for (;;) {
        rc = gather(s, c, at, &fields_n, &after);
        if (rc == MU_ECORRUPT && s->o->skip) {
            char text[ERROR_MAX];

            snprintf(text, sizeof(text), "%s", mu_error());
            out->next = next_head(s, c, at);
            return error_say(rc, "%s", text);
        }
        if (rc != MU_OK || fields_n > 0) {
            break;
        }
        at = after;
    }
    *out = (struct extent){.at = at, .n = after - at, .next = after};
    return rc;
}

static int take(const struct shard *s, struct cursor *c, const struct extent *e, mu_record *out)
{
    const struct sample *t;
    uint32_t fields_n;
    uint64_t after, have;
    const uint8_t *p;
    int rc = gather(s, c, e->at, &fields_n, &after);

    rc = rc == MU_OK ? window_need(&c->window, e->at, e->n, &p, &have) : rc;
    if (rc != MU_OK || fields_n == 0) {
        return rc != MU_OK ? rc : MU_ESTALE;
    }
    t = c->own;
    c->fields[0] =
        (mu_field){.name = "__key__", .type = MU_TEXT, .data = t->names, .n = strlen(t->names)};
    for (uint32_t i = 1; i < fields_n; i++) {
        mu_field *f = &c->fields[i];

        f->name = t->names + f->integer;
        f->data = p + (uint64_t)f->real;
        f->integer = 0;
        f->real = 0;
    }
    out->data = p;
    out->fields = c->fields;
    out->fields_n = fields_n;
    return MU_OK;
}

/* The columns of the first sample: the others may have more, or fewer. */
static int open_tar(struct shard *s)
{
    struct cursor c = {.own = NULL};
    mu_record record;
    int rc = walk_open(s);

    window_init(&c.window, &s->source);
    if (rc == MU_OK && s->records > 0) {
        rc = walk_read(s, &c, 0, &record);
        for (uint32_t i = 0; rc == MU_OK && i < record.fields_n; i++) {
            const mu_field *f = &record.fields[i];

            rc = columns_add(&s->columns, f->name, strlen(f->name), f->type,
                             i == 0 ? "key" : "file");
        }
    }
    cursor_close(s, &c);
    return rc;
}

static void leave(const struct shard *s, struct cursor *c)
{
    struct sample *t = c->own;

    free(t->names);
    free(t);
}

const struct format format_tar = {.name = "tar",
                                  .guess = guess,
                                  .open = open_tar,
                                  .read = walk_read,
                                  .leave = leave,
                                  .next = next,
                                  .take = take};
