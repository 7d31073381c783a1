#include "base/env.h"

#include <stdlib.h>
#include <string.h>

const char *env_text(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? text : NULL;
}

bool env_is_on(const char *name)
{
    const char *text = env_text(name);

    return text != NULL && strcmp(text, "0") != 0;
}
