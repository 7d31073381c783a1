/* What every fuzzer includes. A fuzzer takes any bytes, and panics if a property does not hold. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#endif
