/* The environment, in which an empty value is none. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* NULL: it is not set, or empty. */
const char *env_text(const char *name);

/* It has a value other than 0. */
bool env_is_on(const char *name);

#endif
