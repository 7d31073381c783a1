/* What a worker trains, and what decides the bits that it gets: one text with a line for each fact,
 * a name and a value. Workers of one run have the same text, but for what --numerics warn lets
 * pass. */
#ifndef CORE_KIND_H
#define CORE_KIND_H

#include "base/base.h"

/* Lines whose names begin so are numeric; or no reason not to take part. */
#define KIND_NUMERIC "numeric "
#define KIND_SAVES "saves "

enum kind_weight { KIND_COUNTS, KIND_IF_STRICT, KIND_IS_TOLD };

/* The line of a text that has this name; NULL: there is none. */
const char *kind_line(const char *text, const char *name, size_t name_n);

/* A difference: "slices: here 8 / there 16". Borrowed for the call. */
typedef void kind_differ_fn(void *arg, enum kind_weight weight, const char *text);

/* Calls differ() for each line that is not the same, in the order of `here`, then for those that
 * are only there; true: there was one. */
bool kind_compare(const char *here, const char *there, kind_differ_fn *differ, void *arg);

#endif
