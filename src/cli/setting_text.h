/* Settings as people and programs read them. */
#ifndef CLI_SETTING_TEXT_H
#define CLI_SETTING_TEXT_H

#include "core/message.h"

#include <jansson.h>

/* "lr/base  version 4  0.1", without an end of line; the key takes at least `width`. What is not
 * text is shown as \xff, ends of lines as \n, and a long value is cut. Always terminated. */
void setting_line(const struct rec_config *r, int width, char *buf, size_t cap);

/* What setting_json() (orchestrator/setting_json.h) makes of it, with "job", and "deleted": true if
 * it was removed. NULL: out of memory. */
json_t *setting_object(const char *job, const struct rec_config *r);

#endif
