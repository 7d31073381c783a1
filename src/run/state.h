/* What train_state.c and train_stream.c share. */
#ifndef RUN_STATE_H
#define RUN_STATE_H

#include "run/train.h"

#define STATE_PART_BYTES_MAX (SIZE_MAX >> 16) /* no sum of the parts' lengths overflows */

/* Where a part's bytes are, and how many: of one by calls, what save gives. Fails with what save
 * gave, or MU_EINVAL; says why. */
int state_save(const struct state_part *p, const void **data_out, size_t *n_out);

#endif
