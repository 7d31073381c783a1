/* CSV: see fuzz_data.h. */
#include "fuzz/fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_data(data, n, "format=csv&max=65536", "format=csv&max=65536&skip=yes");
    return 0;
}
