/* Clocks, and who this host is. */
#include "base/clock.h"
#include "base/prng.h"
#include "net/net.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

uint64_t net_now_ms(void)
{
    const uint64_t now_ms = clock_boot_ms();

    return MAX(now_ms, 1);
}

uint64_t net_wall_ms(void)
{
    return clock_wall_ms();
}

static uint64_t mix_text(const char *text, size_t n)
{
    uint64_t h = n;

    for (size_t i = 0; i < n; i++) {
        h = prng_mix(h ^ (uint8_t)text[i]);
    }
    return h;
}

/* The boot id is what all processes under one kernel see, containers too, and no other kernel
 * has. A reboot changes it, which is right: nothing of before is alive. Without /proc it is the
 * host's name. */
uint64_t net_host_id(void)
{
    char text[256] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        memset(text, 0, sizeof(text));
        (void)gethostname(text, sizeof(text) - 1);
        n = (ssize_t)strlen(text);
    }
    const uint64_t id = mix_text(text, (size_t)n);

    return MAX(id, 1);
}
