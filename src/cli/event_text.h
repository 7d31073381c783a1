/* One event of the orchestrator, for people. */
#ifndef CLI_EVENT_TEXT_H
#define CLI_EVENT_TEXT_H

#include "core/message.h"

/* "12:03:44  default     generation 7 (failure) has 2 members", in local time, no end of line.
 * Always terminated; cut when cap is too small. */
void event_line(const struct msg_event *e, char *buf, size_t cap);

#endif
