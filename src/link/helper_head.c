#include "link/helper_head.h"

#include "link/helper.h"
#include "wire/bytes.h"

/* 0 what, 1 zero, 2 kind, 4 slot, 6 zero, 8 number, 16 total, 24 bytes, 28 value */

void helper_head_encode(const struct helper_head *head, uint8_t out[HELPER_HEAD_BYTES])
{
    out[0] = head->what;
    out[1] = out[6] = out[7] = 0;
    put_u16(out + 2, head->kind);
    put_u16(out + 4, head->slot);
    put_u64(out + 8, head->number);
    put_u64(out + 16, head->total);
    put_u32(out + 24, head->bytes);
    put_u32(out + 28, (uint32_t)head->value);
}

static bool can_be(const struct helper_head *h)
{
    if (h->slot >= HELPER_WINDOW || h->number == 0 || (h->kind != 0 && h->what != HELPER_REQUEST)) {
        return false;
    }
    switch (h->what) {
    case HELPER_REQUEST:
    case HELPER_ANSWER:
        return h->total <= HELPER_BODY_MAX && h->bytes <= h->total &&
               (h->bytes > 0 || h->total == 0) &&
               (h->what == HELPER_REQUEST ? h->value > 0 : h->value <= 0);
    case HELPER_MORE:
        return h->total == 0 && h->bytes > 0 && h->value == 0;
    case HELPER_END:
        return h->total == 0 && h->bytes == 0 && h->value == 0;
    case HELPER_CUT:
        return h->total == 0 && h->bytes == 0 && h->value <= 0;
    default:
        return false;
    }
}

int helper_head_decode(const uint8_t bytes[HELPER_HEAD_BYTES], struct helper_head *head_out)
{
    const struct helper_head h = {.what = bytes[0],
                                  .kind = get_u16(bytes + 2),
                                  .slot = get_u16(bytes + 4),
                                  .number = get_u64(bytes + 8),
                                  .total = get_u64(bytes + 16),
                                  .bytes = get_u32(bytes + 24),
                                  .value = (int32_t)get_u32(bytes + 28)};

    if (bytes[1] != 0 || bytes[6] != 0 || bytes[7] != 0 || !can_be(&h)) {
        return MU_EPROTO;
    }
    *head_out = h;
    return MU_OK;
}
