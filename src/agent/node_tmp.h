/* Where what is only for now lies. */
#ifndef AGENT_NODE_TMP_H
#define AGENT_NODE_TMP_H

#include <stdlib.h>

static inline const char *node_tmp_dir(void)
{
    const char *dir = getenv("TMPDIR");

    return dir != NULL && *dir == '/' ? dir : "/tmp";
}

#endif
