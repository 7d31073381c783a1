/* The end of a process that found a fault of its own. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void (*base_on_panic)(void);

void base_panic(const char *file, int line, const char *what)
{
    void (*hook)(void) = base_on_panic;
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "muster: internal error: \"%s\" does not hold (%s:%d, version %s). "
                     "This is a bug in muster: please report it with this line.\n",
                     what, file, line, mu_version());

    if (n > 0) {
        /* write, not stdio: a panic inside stdio must still be told. There is nothing left to
         * do about an error. */
        ssize_t ignored = write(STDERR_FILENO, text, MIN((size_t)n, sizeof(text) - 1));
        (void)ignored;
    }
    base_on_panic = NULL; /* A hook that panics itself does not come back here. */
    if (hook != NULL) {
        hook();
    }
    abort();
}
