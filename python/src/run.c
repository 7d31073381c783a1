/* Being a worker: join, leave, and how things stand. */
#include "module.h"

#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 50 };

PyTypeObject *py_run_type;

/* ---- beginning ---- */

static struct run *run_new(void)
{
    struct run *self = PyObject_GC_New(struct run, py_run_type);

    if (self == NULL) {
        return NULL;
    }
    /* Everything behind the head. */
    self->mu = NULL;
    self->pid = getpid();
    self->users = 0;
    self->parts_n = self->metrics_n = 0;
    self->spans = NULL;
    self->spans_n = 0;
    self->callbacks = NULL;
    for (int i = 0; i < HOOKS_N; i++) {
        self->hooks[i] = NULL;
    }
    self->work = (mu_work){0};
    self->memories = NULL;
    self->results = NULL;
    self->pending = NULL;
    self->error[0] = self->error[1] = self->error[2] = NULL;
    self->lent = PyDict_New();
    PyObject_GC_Track(self);
    if (self->lent == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}

PyObject *py_run_join(PyObject *module, PyObject *args, PyObject *kwargs)
{
    unsigned long long steps, digest_every, check_every, ckpt_steps;
    long long join_ms, step_ms, ckpt_ms;
    mu_config config;
    struct run *self;
    mu_run *mu = NULL;
    unsigned slices;
    int rc;

    mu_config_init(&config);
    steps = config.steps;
    digest_every = config.digest_every;
    check_every = config.check_every;
    ckpt_steps = config.ckpt_steps;
    join_ms = config.join_ms;
    step_ms = config.step_ms;
    ckpt_ms = config.ckpt_ms;
    slices = config.slices;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "|zLIKKKLzKL:join",
            KEYWORDS("address", "join_ms", "slices", "steps", "digest_every", "check_every",
                     "step_ms", "ckpt_dir", "ckpt_steps", "ckpt_ms"),
            &config.address, &join_ms, &slices, &steps, &digest_every, &check_every, &step_ms,
            &config.ckpt_dir, &ckpt_steps, &ckpt_ms)) {
        return NULL;
    }
    config.join_ms = join_ms;
    config.slices = slices;
    config.steps = steps;
    config.digest_every = digest_every;
    config.check_every = check_every;
    config.step_ms = step_ms;
    config.ckpt_steps = ckpt_steps;
    config.ckpt_ms = ckpt_ms;
    self = run_new();
    if (self == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    rc = mu_join(&config, &mu);
    Py_END_ALLOW_THREADS;
    if (rc < 0) {
        Py_DECREF(self);
        return py_error_raise(rc);
    }
    self->mu = mu;
    if (py_wait_hook(self) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* ---- the end ---- */

/* A thread that is between here and the library must have got there: whoever is inside is sent
 * out by mu_leave(), but nobody may come in after it. */
static void let_them_in(const struct run *self)
{
    struct timespec grace = {.tv_nsec = GRACE_MS * 1000000L};

    if (self->users > 0) {
        Py_BEGIN_ALLOW_THREADS;
        nanosleep(&grace, NULL);
        Py_END_ALLOW_THREADS;
    }
}

/* Nothing of Python is in the library any more, or will be. */
static mu_run *take_out(struct run *self)
{
    mu_run *mu = self->mu;

    self->mu = NULL; /* No new calls. */
    py_wait_unhook(self);
    let_them_in(self);
    py_call_finish_all(self, mu);
    return mu;
}

static int leave(struct run *self)
{
    mu_run *mu = take_out(self);
    struct kept *kept = py_memory_detach(self);
    int rc;

    Py_BEGIN_ALLOW_THREADS;
    rc = mu_leave(mu);
    Py_END_ALLOW_THREADS;
    py_memory_restore(kept);
    py_setup_clear(self);
    PyDict_Clear(self->lent);
    Py_CLEAR(self->results);
    return rc;
}

static PyObject *run_leave(PyObject *object, PyObject *unused)
{
    struct run *self = (struct run *)object;

    if (self->mu == NULL) {
        Py_RETURN_NONE;
    }
    if (self->pid != getpid()) {
        return py_error_raise_text(MU_EINVAL, "a forked child is not this worker, and can't leave");
    }
    if (py_run_check(leave(self)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_leave_at_exit(PyObject *object, PyObject *args)
{
    struct run *self = (struct run *)object;
    long long meet_ms = 0;

    if (!PyArg_ParseTuple(args, "|L:leave_at_exit", &meet_ms)) {
        return NULL;
    }
    if (self->mu != NULL && self->pid == getpid()) {
        mu_run *mu = take_out(self);

        if (self->hooks[HOOK_GENERATION] != NULL) { /* Members may change while it leaves. */
            (void)mu_hooks_set(mu, NULL);
        }
        if (py_exit_leave(mu, meet_ms) < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *run_stop(PyObject *object, PyObject *unused)
{
    mu_run *mu = py_run_get((struct run *)object);

    if (mu == NULL || py_run_check(mu_stop(mu)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static int run_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct run *self = (struct run *)object;

    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->lent);
    Py_VISIT(self->results);
    for (int i = 0; i < HOOKS_N; i++) {
        Py_VISIT(self->hooks[i]);
    }
    return py_setup_visit(self, visit, arg);
}

/* Nobody has a use for the run any more, and nobody left it: then its work is not finished. */
static int run_clear(PyObject *object)
{
    struct run *self = (struct run *)object;

    if (self->mu != NULL && self->pid == getpid()) {
        (void)mu_stop(self->mu);
        (void)leave(self);
    }
    if (self->pid == getpid()) {
        py_setup_clear(self);
    }
    for (int i = 0; i < HOOKS_N; i++) {
        Py_CLEAR(self->hooks[i]);
    }
    for (int i = 0; i < 3; i++) {
        Py_CLEAR(self->error[i]);
    }
    return 0;
}

static void run_dealloc(PyObject *object)
{
    struct run *self = (struct run *)object;
    PyTypeObject *type = Py_TYPE(object);

    PyObject_GC_UnTrack(object);
    (void)run_clear(object);
    py_memory_restore(py_memory_detach(self)); /* In a forked child nobody has left. */
    Py_CLEAR(self->lent);
    Py_CLEAR(self->results);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* ---- how things stand ---- */

static PyObject *world_tuple(const mu_world_info *w)
{
    PyObject *addresses = PyTuple_New(w->size);

    if (addresses == NULL) {
        return NULL;
    }
    for (int i = 0; i < w->size; i++) {
        PyObject *one = PyUnicode_FromString(w->addresses != NULL ? w->addresses[i] : "");

        if (one == NULL || PyTuple_SetItem(addresses, i, one) < 0) {
            Py_DECREF(addresses);
            return NULL;
        }
    }
    return Py_BuildValue("(KiiiiOOssN)", (unsigned long long)w->generation, w->rank, w->size,
                         w->local_rank, w->local_size, w->ended ? Py_True : Py_False,
                         w->failed ? Py_True : Py_False, w->job, w->node, addresses);
}

static PyObject *run_world(PyObject *object, PyObject *unused)
{
    mu_run *mu = py_run_get((struct run *)object);
    mu_world_info world;
    PyObject *tuple;

    if (mu == NULL || py_run_check(mu_world(mu, &world)) < 0) {
        return NULL;
    }
    tuple = world_tuple(&world);
    mu_world_free(&world);
    return tuple;
}

static PyObject *run_wait(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct waiting w;
    unsigned long long generation = 0;
    long long timeout_ms = MU_FOREVER;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|KL:wait", KEYWORDS("generation", "timeout_ms"),
                                     &generation, &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_wait(w.mu, generation, timeout_ms)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* (id, role, standing, number, address) for each. */
static PyObject *peers_tuple(const mu_roster_info *r)
{
    PyObject *peers = PyTuple_New((Py_ssize_t)r->n);

    for (size_t i = 0; peers != NULL && i < r->n; i++) {
        const mu_peer *p = &r->items[i];
        PyObject *one = Py_BuildValue("(Kiiis)", (unsigned long long)p->id, (int)p->role,
                                      (int)p->standing, p->number, p->address);

        if (one == NULL || PyTuple_SetItem(peers, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(peers);
        }
    }
    return peers;
}

static PyObject *run_roster(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct waiting w;
    unsigned long long after = 0;
    long long timeout_ms = MU_FOREVER;
    mu_roster_info roster;
    PyObject *peers;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|KL:roster", KEYWORDS("after", "timeout_ms"),
                                     &after, &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_roster(w.mu, after, timeout_ms, &roster)) < 0) {
        return NULL;
    }
    peers = peers_tuple(&roster);
    after = roster.version;
    mu_roster_free(&roster);
    return peers != NULL ? Py_BuildValue("(KN)", after, peers) : NULL;
}

static PyObject *run_serve(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct waiting w;
    long long timeout_ms = MU_FOREVER;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|L:serve", KEYWORDS("timeout_ms"),
                                     &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_serve(w.mu, timeout_ms)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_progress(PyObject *object, PyObject *args)
{
    mu_run *mu = py_run_get((struct run *)object);
    unsigned long long step;

    if (mu == NULL || !PyArg_ParseTuple(args, "K:progress", &step) ||
        py_run_check(mu_progress(mu, step)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_left(PyObject *object, void *closure)
{
    return PyBool_FromLong(((struct run *)object)->mu == NULL);
}

static PyMethodDef own_methods[] = {
    METHOD_NOARGS("leave", run_leave,
                  "leave()\n\nThis worker has finished its work: the process may exit with 0. "
                  "Calls of other threads that wait raise Done first. Again: nothing."),
    {"leave_at_exit", run_leave_at_exit, METH_VARARGS,
     PyDoc_STR(
         "leave_at_exit(meet_ms=0)\n\nFor the end of a process: leaves behind Python, if the "
         "exit code is 0; otherwise the others miss this worker. meet_ms: it meets them first, "
         "and waits so long for them.")},
    METHOD_NOARGS("stop", run_stop,
                  "stop()\n\nThis worker gives up: every call that waits, or is made later, "
                  "raises Done. From any thread; never waits."),
    METHOD_NOARGS("world", run_world,
                  "world() -> (generation, rank, size, local_rank, local_size, ended, failed, "
                  "job, node, addresses)\n\nHow things stand now."),
    METHOD("wait", run_wait,
           "wait(generation=0, timeout_ms=-1)\n\nUntil this worker is in a generation newer than "
           "that one; 0: in any."),
    METHOD("roster", run_roster,
           "roster(after=0, timeout_ms=-1) -> (version, ((id, role, standing, number, address), "
           "…))\n\nWho is there, once its version is above that one."),
    METHOD("serve", run_serve,
           "serve(timeout_ms=-1)\n\nThis worker helps: it is in no generation, and is found by the "
           "roster. Returns when the time is over."),
    {"progress", run_progress, METH_VARARGS,
     PyDoc_STR("progress(step)\n\nThis worker has done so many steps.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"left", run_left, NULL, PyDoc_STR("whether leave() was called"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static char run_doc[] = "One worker of a job; join() makes it.";

static PyType_Slot slots[] = {
    {Py_tp_doc, run_doc},
    {Py_tp_dealloc, (void *)run_dealloc},
    {Py_tp_traverse, (void *)run_traverse},
    {Py_tp_clear, (void *)run_clear},
    {Py_tp_methods, NULL}, /* put together in py_run_init() */
    {Py_tp_getset, getset},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "muster._muster.Run",
    .basicsize = sizeof(struct run),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int py_run_init(PyObject *module)
{
    PyMethodDef *const tables[] = {own_methods,      py_control_methods, py_call_methods,
                                   py_setup_methods, py_train_methods,   py_config_methods};
    const size_t tables_n = sizeof(tables) / sizeof(tables[0]);
    PyMethodDef *all; /* the type's, for as long as there is Python */
    size_t n = 0;

    for (size_t i = 0; i < tables_n; i++) {
        for (const PyMethodDef *m = tables[i]; m->ml_name != NULL; m++) {
            n++;
        }
    }
    all = PyMem_Calloc(n + 1, sizeof(*all));
    if (all == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    n = 0;
    for (size_t i = 0; i < tables_n; i++) {
        for (const PyMethodDef *m = tables[i]; m->ml_name != NULL; m++) {
            all[n++] = *m;
        }
    }
    for (PyType_Slot *slot = slots; slot->slot != 0; slot++) {
        if (slot->slot == Py_tp_methods) {
            slot->pfunc = all;
        }
    }
    py_run_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return py_run_type != NULL ? PyModule_AddObjectRef(module, "Run", (PyObject *)py_run_type) : -1;
}
