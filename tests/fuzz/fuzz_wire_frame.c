/* One frame. The first byte has options: 1 makes length and checksum right, so that what lies
 * behind them is reached; the next two bits choose the room to decode into. */
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"

#include <stdlib.h>

/* What a question or its answer carries, as each of those that there are. */
static void take_bodies(const uint8_t *body, size_t n)
{
    static const uint16_t types[] = {
#define T_BODY(number, NAME, ident, type) (number),
#include "wire/table.def"
    };

    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const enum wire_type type = (enum wire_type)types[i];
        struct wire_scratch scratch = wire_check_scratch(0);
        struct wire_fault fault = {0};
        uint8_t *own = wire_check_copy(body, n);
        union wire_any any;
        int rc = wire_body_decode(type, own, n, &any, &scratch, &fault);

        if (rc != MU_OK) {
            wire_check_refused(rc, &fault, &scratch);
        } else {
            mu_assert(wire_body_size(type, &any) > 0);
        }
        free(own);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) {
        return 0;
    }
    const uint8_t options = *data++;
    uint8_t *frame = wire_check_copy(data, --n);
    struct wire_scratch scratch = wire_check_scratch(options >> 1);
    struct wire_fault fault = {0};
    struct wire_header h;
    union wire_any msg;

    if ((options & 1) != 0) {
        wire_check_mend_frame(frame, n);
    }
    int rc = wire_frame_decode(frame, n, &h, &msg, &scratch, &fault);

    if (rc == MU_OK) {
        wire_check_frame(&h, &msg, frame, n);
        if (h.type == WIRE_ASK) {
            take_bodies(msg.ask.body, msg.ask.body_n);
        } else if (h.type == WIRE_SAYS) {
            take_bodies(msg.says.body, msg.says.body_n);
        }
    } else {
        wire_check_refused(rc, &fault, &scratch);
    }
    free(frame);
    return 0;
}
