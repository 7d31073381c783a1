/* "file:": a file is one record, whatever is in it. Its columns are its path and its bytes. */
#include "data/shard.h"

#include <inttypes.h>
#include <string.h>

static int open_whole(struct shard *s)
{
    int rc = columns_add(&s->columns, "path", 4, MU_TEXT, "path");

    s->records = 1;
    if (rc == MU_OK && s->source.size > s->o->max) {
        rc = error_say(MU_ELIMIT,
                       "%s has %" PRIu64 " bytes, more than a record may have (%" PRIu64
                       ", the option max)",
                       s->name, s->source.size, s->o->max);
    }
    return rc == MU_OK ? columns_add(&s->columns, "data", 4, MU_BYTES, "file") : rc;
}

static int read_whole(const struct shard *s, struct cursor *c, uint64_t number, mu_record *out)
{
    const uint8_t *p;
    uint64_t have;
    int rc = window_need(&c->window, 0, s->source.size, &p, &have);

    rc = rc == MU_OK ? cursor_fields(s, c, 2) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    c->fields[0] =
        (mu_field){.name = "path", .type = MU_TEXT, .data = s->path, .n = strlen(s->path)};
    c->fields[1] = (mu_field){.name = "data", .type = MU_BYTES, .data = p, .n = (size_t)have};
    out->data = p;
    out->n = (size_t)have;
    out->fields = c->fields;
    out->fields_n = 2;
    return MU_OK;
}

const struct format format_whole = {
    .name = "file", .bare = true, .open = open_whole, .read = read_whole};
