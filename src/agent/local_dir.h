/* The directory that an agent's socket lies in. */
#ifndef AGENT_LOCAL_DIR_H
#define AGENT_LOCAL_DIR_H

#include "base/base.h"

#define LOCAL_PATH_MAX 108 /* as long as the path of a unix socket may be */

/* Makes one, 0700, in $XDG_RUNTIME_DIR or, if that can't be used, in /tmp. error: NET_ERROR_MAX. */
int local_dir_make(char dir[LOCAL_PATH_MAX], char *error);

/* The socket's path in it. */
void local_dir_socket(const char dir[LOCAL_PATH_MAX], char path[LOCAL_PATH_MAX]);

/* With the socket. */
void local_dir_remove(const char *dir);

/* Removes those that agents of this user left behind: their process is not there, nobody listens,
 * and they are not new. */
void local_dir_clean(void);

#endif
