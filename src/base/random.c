#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

void random_bytes(void *out, size_t n)
{
    uint8_t *p = out;

    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);

        mu_assert(got > 0 || errno == EINTR);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
}
