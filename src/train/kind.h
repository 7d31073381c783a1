/* What this worker trains, and what decides the bits that it gets, as a text (core/kind.h). kind.c
 * says it, compares it with the others' and decides. */
#ifndef TRAIN_KIND_H
#define TRAIN_KIND_H

#include "core/kind.h"

#include <stdio.h>

struct train;

/* ---- kind_numeric.c: this process ---- */

/* One thread for each worker unless the environment says otherwise: more of them add up in another
 * order. What is loaded into the process is told so. */
void kind_threads(void);

/* The lines about CPU, libc, BLAS and threads. */
void kind_numerics(FILE *out);

/* ---- kind.c ---- */

/* All lines. On success *text_out is the caller's. MU_ENOMEM; says so. */
int kind_text(const struct train *t, char **text_out);

#endif
