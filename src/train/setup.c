/* What a trainer says before it trains: its state, its gradient, its metrics, and what must be the
 * same for all workers. */
#include "core/text.h"
#include "train/kind.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FACT_EXTRA = 16 }; /* of a line, beside name and value */

int train_set_up(struct mu_run *run, struct train **t_out)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = call_state(run);
    if (rc == MU_OK && run->trains) {
        rc = run_fail(MU_EBUSY, "training has been set up: this comes before mu_data()");
    }
    if (rc == MU_OK && roster_helps(run)) {
        rc = run_fail(MU_EINVAL, "this worker helps, and is in no generation: it can't train");
    }
    if (rc == MU_OK) {
        *t_out = train_get(run);
        rc = *t_out != NULL ? MU_OK : MU_ENOMEM;
    }
    return rc == MU_OK ? rc : call_exit(run, rc);
}

static int add_state(struct mu_run *run, const char *name, struct state_part *part)
{
    struct train *t;
    int rc = train_set_up(run, &t);

    if (rc == MU_OK) {
        if (name != NULL) {
            memcpy(part->name, name, strnlen(name, STATE_NAME_MAX));
        }
        rc = call_exit(run, state_add(&t->what.state, part));
    }
    return rc;
}

int mu_state(mu_run *run, const char *name, void *data, size_t bytes)
{
    return add_state(run, name, &(struct state_part){.data = data, .bytes = bytes});
}

int mu_state_calls(mu_run *run, const char *name, mu_save_fn *save, mu_load_fn *load, void *arg)
{
    return add_state(run, name, &(struct state_part){.save = save, .load = load, .arg = arg});
}

int mu_gradient(mu_run *run, size_t count, enum mu_dtype dtype)
{
    struct train *t;
    int rc;

    if (count == 0 || (unsigned)dtype > MU_F16) {
        return run_fail(MU_EINVAL, "a gradient has elements, of type f32, f64, bf16 or f16");
    }
    rc = train_set_up(run, &t);
    if (rc != MU_OK) {
        return rc;
    }
    if (t->what.parts_n == MU_PARTS_MAX) {
        rc = run_fail(MU_ELIMIT, "the gradient has %d parts already", MU_PARTS_MAX);
    } else {
        t->what.parts[t->what.parts_n++] = (struct gradient_part){count, (enum dtype)dtype};
    }
    return call_exit(run, rc);
}

int mu_slices(mu_run *run, uint32_t slices)
{
    struct train *t;
    int rc;

    if (slices == 0 || slices > SLICES_MAX || (slices & (slices - 1)) != 0) {
        return run_fail(MU_EINVAL, "a step has 1 to %d slices, a power of two, not %" PRIu32,
                        SLICES_MAX, slices);
    }
    rc = train_set_up(run, &t);
    if (rc == MU_OK) {
        run->config.slices = slices;
        rc = call_exit(run, MU_OK);
    }
    return rc;
}

int mu_metric(mu_run *run, const char *name)
{
    struct train *t;
    int rc = metrics_check(name);

    if (rc != MU_OK) {
        return rc;
    }
    rc = train_set_up(run, &t);
    if (rc == MU_OK) {
        rc = call_exit(run, metrics_add(run, name));
    }
    return rc;
}

/* ---- what must be the same everywhere ---- */

static int add_fact(struct train *t, const char *name, const char *value, bool numeric)
{
    const size_t n = strlen(name) + strlen(value) + FACT_EXTRA;
    char named[FACTS_MAX], *more;

    if (t->what.facts_n + n > FACTS_MAX) {
        return run_fail(MU_ELIMIT, "all facts together have up to %d bytes: %.60s is too much",
                        FACTS_MAX, name);
    }
    snprintf(named, sizeof(named), "%s%s", numeric ? KIND_NUMERIC : "fact ", name);
    if (t->what.facts != NULL && kind_line(t->what.facts, named, strlen(named)) != NULL) {
        return run_fail(MU_EEXIST, "the fact %.60s is known already", name);
    }
    more = realloc(t->what.facts, t->what.facts_n + n);
    if (more == NULL) {
        return run_fail(MU_ENOMEM, "no memory for the fact %.60s", name);
    }
    t->what.facts = more;
    t->what.facts_n += (size_t)snprintf(more + t->what.facts_n, n, "%s %s\n", named, value);
    return MU_OK;
}

int mu_fact(mu_run *run, const char *name, const char *value, int numeric)
{
    struct train *t;
    int rc;

    if (name == NULL || value == NULL || name[0] == '\0' || !text_is_line(name, SIZE_MAX, false) ||
        !text_is_line(value, SIZE_MAX, true)) {
        return run_fail(MU_EINVAL, "a fact has a name without blanks, and a value of one line");
    }
    rc = train_set_up(run, &t);
    if (rc == MU_OK) {
        rc = call_exit(run, add_fact(t, name, value, numeric != 0));
    }
    return rc;
}
