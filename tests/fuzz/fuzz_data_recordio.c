/* RecordIO: see fuzz_data.h. The first byte: 1 makes the sums of chunks right, so that what comes
 * after is seen; 2: layout B. */
#include "base/crc32c.h"
#include "fuzz/fuzz_data.h"

#include <zlib.h>

static void mend(uint8_t *p, size_t n, bool b)
{
    for (uint32_t size, sum; n >= 20; p += size + 20, n -= size + 20) {
        memcpy(&size, p + (b ? 16 : 12), 4);
        if (size > n - 20) {
            return;
        }
        sum = b ? crc32c(0, p + 20, size) : (uint32_t)crc32(0, p + 20, size);
        memcpy(p + (b ? 8 : 4), &sum, 4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t bytes[4096];
    const bool b = n > 0 && (data[0] & 2) != 0;

    if (n < 1 || n > sizeof(bytes)) {
        return 0;
    }
    memcpy(bytes, data + 1, n - 1);
    if ((data[0] & 1) != 0) {
        mend(bytes, n - 1, b);
    }
    fuzz_data(bytes, n - 1, b ? "layout=b&max=65536" : "layout=a&max=65536",
              b ? "layout=b&skip=yes&max=65536" : "layout=a&skip=yes&max=65536");
    fuzz_data(bytes, n - 1, "format=recordio", "format=recordio&skip=yes");
    return 0;
}
