/* One frame. The first byte has options: 1 makes length and checksum right, so that what lies
 * behind them is reached; the next two bits choose the room to decode into. */
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"

#include <stdlib.h>

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
    } else {
        wire_check_refused(rc, &fault, &scratch);
    }
    free(frame);
    return 0;
}
