/* An index.json of MDS, whose shards are not there, or are itself: see fuzz_data.h. */
#include "fuzz/fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_data(data, n, "format=mds&max=65536", "format=mds&max=65536&skip=yes");
    return 0;
}
