/* IDX: see fuzz_data.h. */
#include "fuzz/fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_data(data, n, "format=idx&max=65536", "format=idx&max=65536&skip=yes");
    return 0;
}
