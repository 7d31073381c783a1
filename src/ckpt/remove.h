/* Between the files of this folder: folders taken away. */
#ifndef CKPT_REMOVE_H
#define CKPT_REMOVE_H

#include "ckpt/file.h"

/* A folder that is no checkpoint, with the files in it. One that is not there: MU_OK. */
int remove_folder(const char *path, struct ckpt_why *why);

#endif
