/* TFRecord: see fuzz_data.h. The first byte's lowest bit makes the sums right, so that what comes
 * after is seen. */
#include "base/crc32c.h"
#include "fuzz/fuzz_data.h"

static void put(uint8_t *p, uint32_t crc)
{
    const uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8u;

    memcpy(p, &masked, 4);
}

static void mend(uint8_t *p, size_t n)
{
    for (uint64_t size; n >= 16; p += size + 16, n -= size + 16) {
        memcpy(&size, p, 8);
        put(p + 8, crc32c(0, p, 8));
        if (size > n - 16) {
            return;
        }
        put(p + 12 + size, crc32c(0, p + 12, size));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t bytes[4096];

    if (n < 1 || n > sizeof(bytes)) {
        return 0;
    }
    memcpy(bytes, data + 1, n - 1);
    if ((data[0] & 1) != 0) {
        mend(bytes, n - 1);
    }
    fuzz_data(bytes, n - 1, "format=tfrecord", "format=tfrecord&skip=yes");
    return 0;
}
