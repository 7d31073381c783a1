/* Settings as people and programs read them. */
#ifndef CLI_SETTING_TEXT_H
#define CLI_SETTING_TEXT_H

#include "core/message.h"

#include <jansson.h>

/* "lr/base  version 4  0.1", without an end of line; the key takes at least `width`. What is not
 * text is shown as \xff, ends of lines as \n, and a long value is cut. Always terminated. */
void setting_line(const struct msg_setting *m, int width, char *buf, size_t cap);

/* {"job", "key", "version", "value"}; a value that is not UTF-8 is "hex" instead, and what was
 * removed has "deleted": true. NULL: out of memory. */
json_t *setting_json(const char *job, const struct msg_setting *m);

#endif
