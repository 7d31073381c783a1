/* Heads of notes from any bytes: what is accepted says nothing that can't be, prints, and encodes
 * to the bytes that it came from. The first byte says whether magic and checksum are made right. */
#include "base/crc32c.h"
#include "comm/note.h"
#include "fuzz/fuzz.h"
#include "wire/bytes.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t head[NOTE_BYTES] = {0}, again[NOTE_BYTES];
    char text[NOTE_TEXT_MAX];
    struct note note = {.call = 99};

    if (n == 0) {
        return 0;
    }
    memcpy(head, data + 1, MIN(n - 1, sizeof(head)));
    if ((data[0] & 1) != 0) {
        memcpy(head, "mun1", 4);
        put_u32(head + 4, crc32c(0, head + 8, sizeof(head) - 8));
    }
    const int rc = note_decode(head, &note);

    if (rc != MU_OK) {
        mu_assert(rc == MU_EPROTO && note.call == 99 && note.generation == 0);
        return 0;
    }
    mu_assert(note_valid(&note) && note.kind < NOTE_KIND_N && note.dtype < DTYPE_N);
    mu_assert(note.offset + note.bytes >= note.bytes);
    note_print(&note, text);
    mu_assert(strlen(text) > 0 && strstr(text, "unknown") == NULL);
    note_encode(&note, again);
    mu_assert(memcmp(head, again, sizeof(head)) == 0);
    return 0;
}
