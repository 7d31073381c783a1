#include "core/record.h"

const struct machine_live *machine_of(const struct machine_live *all, uint32_t n, unsigned kind)
{
    const struct machine_live *own = NULL;

    for (uint32_t i = 0; i < n; i++) {
        const struct machine_type *m = all[i].machine;

        if (kind >= m->first && kind <= m->last &&
            (own == NULL || m->last - m->first < own->machine->last - own->machine->first)) {
            own = &all[i];
        }
    }
    return own;
}

int machines_apply(const struct machine_live *all, uint32_t n, const struct record *r, bool live)
{
    const struct machine_live *own = machine_of(all, n, r->kind);
    int rc = own == NULL ? MU_ENOENT : own->machine->apply(own->state, r, live ? own->fx : NULL);

    for (uint32_t i = 0; rc == MU_OK && i < n; i++) {
        if (&all[i] != own && all[i].machine->hear != NULL) {
            rc = all[i].machine->hear(all[i].state, r, live ? all[i].fx : NULL);
        }
    }
    return rc;
}

void machines_dump(const struct machine_live *all, uint32_t n, struct sink *to)
{
    for (uint32_t i = 0; i < n; i++) {
        struct cursor at = {0};

        while (all[i].machine->dump(all[i].state, &at, to)) {
        }
    }
}
