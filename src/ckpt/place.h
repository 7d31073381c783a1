/* Between save.c and intake.c: a checkpoint that is complete takes its place. */
#ifndef CKPT_PLACE_H
#define CKPT_PLACE_H

#include "ckpt/file.h"

/* The folder has all that *m says, and that is on the disk: it is renamed to the name of its job
 * and step in `dir`. One of the same step that is there already stays if it has the same chunks and
 * is intact, otherwise it makes place. Whatever fails, what was there before is there. */
int place_take(const char *dir, const struct ckpt_manifest *m, const char *folder,
               struct ckpt_why *why);

#endif
