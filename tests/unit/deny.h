/* Memory that runs out: allocations of everything that is linked in are counted, and one of them is
 * denied. Needs deny_dep. (Allocations of shared libraries are not seen.) */
#ifndef UNIT_DENY_H
#define UNIT_DENY_H

#include <stdint.h>

/* Counts from 1 and denies the nth; 0: none. Neither after deny_end(). */
void deny_begin(uint32_t nth);
/* … of this thread alone. */
void deny_begin_here(uint32_t nth);
void deny_end(void);

/* In between: what a test's own fakes need is neither counted nor denied. Goes on where it was. */
void deny_pause(void);
void deny_resume(void);

/* How many there were between the two. */
uint32_t deny_taken(void);

/* Denies the first of try()'s, the second, … until it needs fewer; gives how many it needs. Every
 * try must end with MU_ENOMEM, and the last with MU_OK. Leaks are left to the sanitizers. */
uint32_t deny_sweep(int (*try)(void *arg), void *arg);

#endif
