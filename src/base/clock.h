/* Clocks. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/base.h"

/* The monotonic clock. */
uint64_t clock_ns(void);
uint64_t clock_us(void);
uint64_t clock_ms(void);
/* The boot clock: it goes on while the host sleeps. */
uint64_t clock_boot_us(void);
uint64_t clock_boot_ms(void);
/* Since 1970, for people only. */
uint64_t clock_wall_ms(void);

#endif
