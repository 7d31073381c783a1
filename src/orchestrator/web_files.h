/* The files of web/, as the build has put them into the program (scripts/embed.py). */
#ifndef ORCHESTRATOR_WEB_FILES_H
#define ORCHESTRATOR_WEB_FILES_H

#include <stddef.h>

struct web_file {
    const char *name;
    const char *type;
    const unsigned char *bytes;
    size_t n;
};

extern const struct web_file web_files[];
extern const unsigned web_files_n;

#endif
