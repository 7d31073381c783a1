/* One row of the journal. Options as in fuzz_wire_frame.c. */
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) {
        return 0;
    }
    const uint8_t options = *data++;
    uint8_t *record = wire_check_copy(data, --n);
    struct wire_scratch scratch = wire_check_scratch(options >> 1);
    struct wire_fault fault = {0};
    union wire_any msg;
    unsigned type = 0;

    if ((options & 1) != 0) {
        wire_check_mend_record(record, n);
    }
    int rc = wire_record_decode(record, n, &type, &msg, &scratch, &fault);

    if (rc == MU_OK) {
        mu_assert(wire_is_record(type));
        wire_check_record(type, &msg, record, n);
    } else {
        wire_check_refused(rc, &fault, &scratch);
    }
    free(record);
    return 0;
}
