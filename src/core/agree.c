#include "core/agree.h"

#include <string.h>

void agree_init(struct agree *agree, void *storage, size_t cap)
{
    *agree = (struct agree){.value = storage, .cap = cap};
}

int agree_add(struct agree *agree, const void *value, size_t value_n)
{
    if (value_n > agree->cap) {
        return MU_ELIMIT;
    }
    if (agree->peers_n++ > 0) {
        agree->differ |=
            value_n != agree->value_n || (value_n > 0 && memcmp(value, agree->value, value_n) != 0);
        return MU_OK;
    }
    if (value_n > 0) {
        memcpy(agree->value, value, value_n);
    }
    agree->value_n = value_n;
    return MU_OK;
}

bool agree_reached(const struct agree *agree)
{
    return agree->peers_n > 0 && !agree->differ;
}
