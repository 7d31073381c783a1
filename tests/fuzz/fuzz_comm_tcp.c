/* What a link over TCP reads from a peer that may send anything. However the stream is cut the same
 * notes are seen, with the same bytes, and it is lost for the same reason; no note is seen of a
 * generation that was not proved, or is not the group's. The first byte: bits 0 and 1 are the
 * group's generation, bit 2 makes heads and words right, bit 3 gives places for bytes, and all
 * seed the cuts. */
#include "base/crc32c.h"
#include "base/prng.h"
#include "comm/tcp.h"
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"
#include "wire/bytes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAM_MAX 65536

struct reader {
    struct comm comm;
    struct link *link;
    int fd;
    bool places;
    uint64_t seen; /* a hash of all that was seen */
    uint32_t seen_n;
    int lost;
};

static uint8_t place[NOTE_DATA_MAX];

void link_lose(struct link *l, int status, const char *why)
{
    int none = MU_OK;

    mu_assert(status != MU_OK && why != NULL);
    atomic_compare_exchange_strong(&l->lost, &none, status);
}

/* Half of all proofs are right. */
void link_claim(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES])
{
    if (generation < l->comm->group.number || crc32c(0, proof, HELLO_PROOF_BYTES) % 2 == 1) {
        link_lose(l, MU_EREFUSED, "wrong");
        return;
    }
    l->claim = MAX(l->claim, generation);
    if (generation == l->comm->group.number) {
        l->proved = generation;
    }
}

static void begin(struct reader *r, uint8_t options)
{
    const struct hello_session session = {.peer = 2};
    int fds[2];

    memset(r, 0, sizeof(*r));
    r->comm.group.number = options & 3;
    r->places = (options & 8) != 0;
    mu_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    mu_assert(tcp_link_open(&r->comm, fds[0], &session, &r->link) == MU_OK);
    r->fd = fds[1];
}

static void look(struct reader *r)
{
    const struct link_ops *ops = r->link->ops;
    struct note note;
    const void *data;
    int rc;

    for (;;) {
        rc = ops->head(r->link, &note);
        if (rc != MU_OK) {
            break;
        }
        mu_assert(note.generation == r->comm.group.number && note.generation == r->link->proved);
        mu_assert(note.kind != NOTE_MOVE && note.bytes <= NOTE_DATA_MAX);
        rc = ops->body(r->link, r->places ? place : NULL, &data);
        if (rc == MU_EPEER && r->link->lost == MU_OK) { /* void: seen or not, by the cuts */
            mu_assert(ops->done(r->link) == MU_EPEER);
            continue;
        }
        if (rc != MU_OK) {
            break;
        }
        mu_assert(!r->places || data == place);
        r->seen = prng_mix(r->seen ^ note.call ^ crc32c(note.kind, data, note.bytes));
        r->seen_n++;
        mu_assert(ops->done(r->link) == MU_OK);
    }
    mu_assert(rc == MU_EAGAIN || (rc == MU_EPEER && r->link->lost != MU_OK));
    r->lost = r->link->lost;
}

static void receive(void *arg, const uint8_t *piece, size_t n)
{
    struct reader *r = arg;

    if (r->lost != MU_OK || n == 0) {
        return;
    }
    mu_assert(send(r->fd, piece, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n);
    look(r);
}

static void end(struct reader *r)
{
    shutdown(r->fd, SHUT_WR);
    if (r->lost == MU_OK) {
        look(r);
    }
    mu_assert(r->lost != MU_OK || r->comm.group.number == 0 || r->link->claim >= 1);
    close(r->fd);
    r->link->ops->close(r->link);
}

/* Each frame as long as it says; a word that is not VOID becomes COUNTS. */
static void mend(uint8_t *stream, size_t n)
{
    for (size_t at = 0; n - at >= NOTE_BYTES + TCP_WORD_BYTES;) {
        uint8_t *head = stream + at;

        memcpy(head, "mun1", 4);
        put_u32(head + 4, crc32c(0, head + 8, NOTE_BYTES - 8));
        const uint64_t bytes = get_u64(head + 40);

        at += NOTE_BYTES;
        if (bytes > n - at || n - at - bytes < TCP_WORD_BYTES) {
            break;
        }
        at += bytes;
        if (get_u32(stream + at) != TCP_VOID) {
            put_u32(stream + at, TCP_COUNTS);
        }
        at += TCP_WORD_BYTES;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct reader whole, cut;

    if (n == 0 || n > STREAM_MAX) {
        return 0;
    }
    const uint8_t options = *data++;
    uint8_t *stream = wire_check_copy(data, --n);

    if ((options & 4) != 0) {
        mend(stream, n);
    }
    begin(&whole, options);
    begin(&cut, options);
    receive(&whole, stream, n);
    wire_check_cut(stream, n, options, receive, &cut);
    end(&whole);
    end(&cut);
    mu_assert(whole.lost == cut.lost);
    mu_assert(whole.seen_n == cut.seen_n && whole.seen == cut.seen);
    free(stream);
    return 0;
}
