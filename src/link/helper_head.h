/* What each piece of a request or an answer begins with. Pure.
 *
 *   REQUEST  from who asks: kind, its slot and number, how long it waits, all of its bytes
 *   ANSWER   from who answers: slot and number of the request, its status, all of its bytes
 *   MORE     of the body of either
 *   END      all of the body has been said, and counts. Only after one of more than HELPER_WHOLE
 *            bytes: these leave from memory that its owner may want back before they have left
 *   CUT      the body ends here, or the request is not wanted any more; from who answers: no more
 *            of this answer comes, for this reason
 *
 * A slot is used by one request at a time: until its answer has come and all of both bodies, or a
 * CUT instead of what is left. A CUT for what has ended by then means nothing. So each request is
 * answered, or the connection ends. Numbers only grow. */
#ifndef LINK_HELPER_HEAD_H
#define LINK_HELPER_HEAD_H

#include "base/base.h"

#define HELPER_HEAD_BYTES 32
#define HELPER_WHOLE 16384

enum helper_what { HELPER_REQUEST = 1, HELPER_ANSWER, HELPER_MORE, HELPER_END, HELPER_CUT };

struct helper_head {
    uint8_t what;
    uint16_t kind;
    uint16_t slot;
    uint64_t number; /* of the request */
    uint64_t total;  /* REQUEST, ANSWER: of the whole body */
    uint32_t bytes;  /* that follow */
    int32_t value;   /* REQUEST: the time in ms; ANSWER, CUT: the status, not positive */
};

void helper_head_encode(const struct helper_head *head, uint8_t out[HELPER_HEAD_BYTES]);
/* MU_EPROTO: no such head can be. */
int helper_head_decode(const uint8_t bytes[HELPER_HEAD_BYTES], struct helper_head *head_out);

#endif
