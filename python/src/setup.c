/* What training is told before it begins: state, gradient, metrics, facts, data; and hooks. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

/* A state that is saved and loaded by calls. */
struct callback {
    struct callback *next;
    struct run *run; /* borrowed */
    PyObject *save, *load;
    struct span saved; /* what the last save() gave: it stays until the next */
};

/* ---- calls from the library, which may come in any thread ---- */

/* The first one that something raises is what next() raises. */
static int note_error(struct run *run)
{
    if (run->error[0] == NULL) {
        PyErr_Fetch(&run->error[0], &run->error[1], &run->error[2]);
    } else {
        PyErr_Clear();
    }
    return MU_EINVAL;
}

static int on_save(void *arg, const void **data_out, size_t *n_out)
{
    struct callback *c = arg;
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *got = PyObject_CallNoArgs(c->save);
    int rc = MU_OK;

    py_span_release(&c->saved);
    if (got == NULL || py_span_get(&c->saved, got, false, "what save() gives") < 0) {
        rc = note_error(c->run);
    } else {
        *data_out = c->saved.data != NULL ? c->saved.data : "";
        *n_out = c->saved.bytes;
    }
    Py_XDECREF(got);
    PyGILState_Release(gil);
    return rc;
}

static int on_load(void *arg, const void *data, size_t n)
{
    const struct callback *c = arg;
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *view = PyMemoryView_FromMemory((char *)(uintptr_t)data, (Py_ssize_t)n, PyBUF_READ);
    PyObject *done = view != NULL ? PyObject_CallFunctionObjArgs(c->load, view, NULL) : NULL;
    PyObject *released = NULL;
    int rc = MU_OK;

    if (done == NULL) {
        rc = note_error(c->run);
    }
    if (view != NULL) { /* Whoever keeps it would look at memory that is gone. */
        released = PyObject_CallMethod(view, "release", NULL);
        if (released == NULL) {
            rc = note_error(c->run);
        }
    }
    Py_XDECREF(released);
    Py_XDECREF(view);
    Py_XDECREF(done);
    PyGILState_Release(gil);
    return rc;
}

static void call_hook(struct run *run, enum hook which, PyObject *args)
{
    PyObject *hook = run->hooks[which];
    PyObject *done = NULL;

    if (args != NULL && hook != NULL) {
        Py_INCREF(hook);
        done = PyObject_CallObject(hook, args);
        Py_DECREF(hook);
    }
    if (done == NULL && hook != NULL) {
        (void)note_error(run);
    }
    Py_XDECREF(done);
    Py_XDECREF(args);
}

static void on_generation(void *arg, const mu_world_info *before, const mu_world_info *now)
{
    const PyGILState_STATE gil = PyGILState_Ensure();

    call_hook(arg, HOOK_GENERATION,
              Py_BuildValue("((Kii)(Kii))", (unsigned long long)before->generation, before->rank,
                            before->size, (unsigned long long)now->generation, now->rank,
                            now->size));
    PyGILState_Release(gil);
}

static void on_before(void *arg, uint64_t step)
{
    const PyGILState_STATE gil = PyGILState_Ensure();

    call_hook(arg, HOOK_BEFORE, Py_BuildValue("(K)", (unsigned long long)step));
    PyGILState_Release(gil);
}

static void on_after(void *arg, uint64_t step)
{
    const PyGILState_STATE gil = PyGILState_Ensure();

    call_hook(arg, HOOK_AFTER, Py_BuildValue("(K)", (unsigned long long)step));
    PyGILState_Release(gil);
}

static PyObject *run_hooks(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct run *self = (struct run *)object;
    PyObject *given[HOOKS_N] = {NULL, NULL, NULL};
    mu_hooks hooks = {.arg = self};

    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "|OOO:hooks", KEYWORDS("on_generation", "before_step", "after_step"),
            &given[HOOK_GENERATION], &given[HOOK_BEFORE], &given[HOOK_AFTER]) ||
        py_run_get(self) == NULL) {
        return NULL;
    }
    for (int i = 0; i < HOOKS_N; i++) {
        PyObject *old = self->hooks[i];

        self->hooks[i] = given[i] == Py_None ? NULL : given[i];
        Py_XINCREF(self->hooks[i]);
        Py_XDECREF(old);
    }
    hooks.on_generation = self->hooks[HOOK_GENERATION] != NULL ? on_generation : NULL;
    hooks.before_step = self->hooks[HOOK_BEFORE] != NULL ? on_before : NULL;
    hooks.after_step = self->hooks[HOOK_AFTER] != NULL ? on_after : NULL;
    if (py_run_check(mu_hooks_set(self->mu, &hooks)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- state ---- */

static PyObject *run_state(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct run *self = (struct run *)object;
    struct span *spans;
    const char *name;
    PyObject *memory;
    struct span s;
    mu_run *mu;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO:state", KEYWORDS("name", "memory"), &name,
                                     &memory)) {
        return NULL;
    }
    mu = py_run_get(self);
    if (mu == NULL || py_span_get(&s, memory, true, name) < 0) {
        return NULL;
    }
    if (s.bytes == SIZE_MAX) {
        PyErr_SetString(PyExc_TypeError, "state: (address, bytes), not an address alone");
        return NULL;
    }
    spans = realloc(self->spans, (self->spans_n + 1) * sizeof(*spans));
    if (spans == NULL) {
        py_span_release(&s);
        return PyErr_NoMemory();
    }
    self->spans = spans;
    if (py_run_check(mu_state(mu, name, s.data, s.bytes)) < 0) {
        py_span_release(&s);
        return NULL;
    }
    spans[self->spans_n++] = s;
    Py_RETURN_NONE;
}

static PyObject *run_state_calls(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct run *self = (struct run *)object;
    PyObject *save, *load;
    struct callback *c;
    const char *name;
    mu_run *mu;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO:state_calls",
                                     KEYWORDS("name", "save", "load"), &name, &save, &load)) {
        return NULL;
    }
    mu = py_run_get(self);
    if (mu == NULL) {
        return NULL;
    }
    if (!PyCallable_Check(save) || !PyCallable_Check(load)) {
        PyErr_SetString(PyExc_TypeError, "state_calls: save and load are to be called");
        return NULL;
    }
    c = malloc(sizeof(*c));
    if (c == NULL) {
        return PyErr_NoMemory();
    }
    *c = (struct callback){.next = self->callbacks, .run = self, .save = save, .load = load};
    if (py_run_check(mu_state_calls(mu, name, on_save, on_load, c)) < 0) {
        free(c);
        return NULL;
    }
    Py_INCREF(save);
    Py_INCREF(load);
    self->callbacks = c;
    Py_RETURN_NONE;
}

void py_setup_clear(struct run *self)
{
    while (self->callbacks != NULL) {
        struct callback *c = self->callbacks;

        self->callbacks = c->next;
        py_span_release(&c->saved);
        Py_DECREF(c->save);
        Py_DECREF(c->load);
        free(c);
    }
    while (self->spans_n > 0) {
        py_span_release(&self->spans[--self->spans_n]);
    }
    free(self->spans);
    self->spans = NULL;
}

int py_setup_visit(struct run *self, visitproc visit, void *arg)
{
    for (const struct callback *c = self->callbacks; c != NULL; c = c->next) {
        Py_VISIT(c->save);
        Py_VISIT(c->load);
    }
    return 0;
}

/* ---- the rest ---- */

static PyObject *run_gradient(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct run *self = (struct run *)object;
    mu_run *mu = py_run_get(self);
    Py_ssize_t count;
    int dtype;

    if (mu == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "ni:gradient",
                                                   KEYWORDS("count", "dtype"), &count, &dtype)) {
        return NULL;
    }
    if (count < 0) {
        return py_error_raise_text(MU_EINVAL, "a gradient has elements");
    }
    if (py_run_check(mu_gradient(mu, (size_t)count, (enum mu_dtype)dtype)) < 0) {
        return NULL;
    }
    if (self->parts_n < MU_PARTS_MAX) {
        self->part_bytes[self->parts_n++] = (size_t)count * py_dtype_bytes(dtype);
    }
    Py_RETURN_NONE;
}

static PyObject *run_slices(PyObject *object, PyObject *args)
{
    mu_run *mu = py_run_get((struct run *)object);
    unsigned slices;

    if (mu == NULL || !PyArg_ParseTuple(args, "I:slices", &slices) ||
        py_run_check(mu_slices(mu, slices)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_fact(PyObject *object, PyObject *args, PyObject *kwargs)
{
    mu_run *mu = py_run_get((struct run *)object);
    const char *name, *value;
    int numeric = 0;

    if (mu == NULL ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "ss|p:fact",
                                     KEYWORDS("name", "value", "numeric"), &name, &value,
                                     &numeric) ||
        py_run_check(mu_fact(mu, name, value, numeric)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_metric(PyObject *object, PyObject *args)
{
    struct run *self = (struct run *)object;
    mu_run *mu = py_run_get(self);
    const char *name;

    if (mu == NULL || !PyArg_ParseTuple(args, "s:metric", &name) ||
        py_run_check(mu_metric(mu, name)) < 0) {
        return NULL;
    }
    self->metrics_n++;
    Py_RETURN_NONE;
}

static PyObject *run_data(PyObject *object, PyObject *args, PyObject *kwargs)
{
    unsigned long long samples_n, global_batch, epochs, seed;
    struct waiting w;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKKK:data",
                                     KEYWORDS("samples_n", "global_batch", "epochs", "seed"),
                                     &samples_n, &global_batch, &epochs, &seed) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end_calls(&w, mu_data(w.mu, samples_n, global_batch, epochs, seed)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_shard(PyObject *object, PyObject *args)
{
    unsigned long long elements_n;
    struct waiting w;

    if (!PyArg_ParseTuple(args, "K:shard", &elements_n) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end_calls(&w, mu_shard(w.mu, elements_n)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef py_setup_methods[] = {
    METHOD("state", run_state,
           "state(name, memory)\n\nA part of what a worker must know to go on: a writable buffer "
           "or DLPack tensor, used where it lies, or (address, bytes)."),
    METHOD("state_calls", run_state_calls,
           "state_calls(name, save, load)\n\nThe same for what does not lie in one place: save() "
           "gives bytes, load(memoryview) takes them elsewhere."),
    METHOD("gradient", run_gradient, "gradient(count, dtype)\n\nAnother part of the gradient."),
    {"slices", run_slices, METH_VARARGS, PyDoc_STR("slices(n)\n\nOf every step's batch.")},
    METHOD("fact", run_fact,
           "fact(name, value, numeric=False)\n\nMust be the same for all workers."),
    {"metric", run_metric, METH_VARARGS,
     PyDoc_STR("metric(name)\n\nA number that goes with every slice.")},
    METHOD("data", run_data, "data(samples_n, global_batch, epochs, seed)\n\nWhat is trained on."),
    {"shard", run_shard, METH_VARARGS,
     PyDoc_STR("shard(n)\n\nInstead: one of n elements for each worker and step.")},
    METHOD("hooks", run_hooks,
           "hooks(on_generation=None, before_step=None, after_step=None)\n\nCalled from next(): "
           "with (generation, rank, size) of before and now; with the step."),
    {NULL, NULL, 0, NULL},
};
