/* The elastic step: next, put, and what goes with them. */
#include "module.h"

#include <stdlib.h>

/* What was shown of the last step is the library's again. */
static void expire_results(struct run *self)
{
    PyObject *results = self->results;

    self->results = NULL;
    if (results != NULL) {
        py_memory_expire(results);
        Py_DECREF(results);
    }
}

static PyObject *run_next(PyObject *object, PyObject *unused)
{
    struct run *self = (struct run *)object;
    struct waiting w;
    mu_work work;
    int rc;

    expire_results(self);
    if (py_wait_begin(&w, self) < 0) {
        return NULL;
    }
    rc = mu_next(w.mu, &work);
    if (py_wait_end_calls(&w, rc) < 0) {
        return NULL;
    }
    self->work = work;
    return py_work_new(self);
}

static int read_metrics(PyObject *given, uint32_t metrics_n, double *metrics)
{
    const Py_ssize_t n = given != NULL ? PySequence_Size(given) : 0;

    if (n < 0) {
        return -1;
    }
    if (n != (Py_ssize_t)metrics_n) {
        py_error_raise_text(MU_EINVAL, "put: %zd metrics, but metric() has named %u of them", n,
                            (unsigned)metrics_n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PySequence_GetItem(given, i);

        metrics[i] = one != NULL ? PyFloat_AsDouble(one) : 0;
        Py_XDECREF(one);
        if (PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

static PyObject *run_put(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct run *self = (struct run *)object;
    double metrics[MU_METRICS_MAX];
    PyObject *given = NULL;
    struct waiting w;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:put", KEYWORDS("metrics"), &given) ||
        read_metrics(given, self->metrics_n, metrics) < 0 || py_wait_begin(&w, self) < 0) {
        return NULL;
    }
    rc = mu_put(w.mu, self->work.kind == MU_SLICE ? self->work.out : NULL,
                self->metrics_n > 0 ? metrics : NULL);
    if (py_wait_end_calls(&w, rc) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_part(PyObject *object, PyObject *args)
{
    mu_run *mu = py_run_get((struct run *)object);
    unsigned part;

    if (mu == NULL || !PyArg_ParseTuple(args, "I:part", &part) ||
        py_run_check(mu_part(mu, part)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- what is still to come ---- */

static PyObject *run_samples(PyObject *object, PyObject *args, PyObject *kwargs)
{
    mu_run *mu = py_run_get((struct run *)object);
    unsigned long long step;
    unsigned slice;
    uint64_t *samples = NULL, position = 0;
    size_t n = 0, room;
    PyObject *list;
    int rc;

    if (mu == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "KI:samples",
                                                   KEYWORDS("step", "slice"), &step, &slice)) {
        return NULL;
    }
    for (room = 256;; room *= 4) {
        uint64_t *more = realloc(samples, room * sizeof(*samples));

        if (more == NULL) {
            free(samples);
            return PyErr_NoMemory();
        }
        samples = more;
        rc = mu_samples(mu, step, slice, samples, room, &n, &position);
        if (rc != MU_OK || n < room) { /* as many as there is room for, perhaps not all */
            break;
        }
    }
    list = py_run_check(rc) == 0 ? py_work_samples(samples, n) : NULL;
    free(samples);
    return list != NULL ? Py_BuildValue("(NK)", list, (unsigned long long)position) : NULL;
}

static PyObject *run_away(PyObject *object, PyObject *unused)
{
    mu_run *mu = py_run_get((struct run *)object);

    if (mu == NULL || py_run_check(mu_away(mu)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_log(PyObject *object, PyObject *args)
{
    mu_run *mu = py_run_get((struct run *)object);
    const char *name;
    double value;

    if (mu == NULL || !PyArg_ParseTuple(args, "sd:log", &name, &value) ||
        py_run_check(mu_log(mu, name, value)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_checkpoint(PyObject *object, PyObject *unused)
{
    mu_run *mu = py_run_get((struct run *)object);

    if (mu == NULL || py_run_check(mu_checkpoint(mu)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_resize(PyObject *object, PyObject *args)
{
    struct waiting w;
    unsigned nodes;

    if (!PyArg_ParseTuple(args, "I:resize", &nodes) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_resize(w.mu, nodes)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_training(PyObject *object, PyObject *unused)
{
    mu_run *mu = py_run_get((struct run *)object);
    mu_training t;

    if (mu == NULL || py_run_check(mu_training_get(mu, &t)) < 0) {
        return NULL;
    }
#define NUMBER(name) #name, (unsigned long long)t.name
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsy#}", NUMBER(step), NUMBER(samples),
                         NUMBER(slices), NUMBER(slices_again), NUMBER(generations),
                         NUMBER(pause_us), NUMBER(pause_max_us), NUMBER(pause_all_us),
                         NUMBER(state_sent), NUMBER(state_got), NUMBER(checkpoint), NUMBER(saves),
                         NUMBER(save_us), "digest", (const char *)t.digest,
                         (Py_ssize_t)sizeof(t.digest));
#undef NUMBER
}

PyMethodDef py_train_methods[] = {
    METHOD_NOARGS("next", run_next,
                  "next() -> Work\n\nWhat to do next; waits until there is something. The first "
                  "call says that this worker is warm. Done, Left: that was all."),
    METHOD("put", run_put,
           "put(metrics=())\n\nThe slice is computed: its gradient is in work.outs."),
    {"part", run_part, METH_VARARGS,
     PyDoc_STR("part(i)\n\nThis part of the slice is complete, and may begin to travel.")},
    METHOD("samples", run_samples,
           "samples(step, slice) -> (list, position)\n\nOf any step, to be fetched early."),
    METHOD_NOARGS("away", run_away,
                  "away()\n\nUntil the next next() this worker does something else, however long "
                  "that takes."),
    {"log", run_log, METH_VARARGS, PyDoc_STR("log(name, value)\n\nShown with the job.")},
    METHOD_NOARGS("checkpoint", run_checkpoint,
                  "checkpoint()\n\nWants the state after the next step to be saved."),
    {"resize", run_resize, METH_VARARGS, PyDoc_STR("resize(nodes)\n\nWants so many.")},
    METHOD_NOARGS("training", run_training,
                  "training() -> dict\n\nWhat this worker has seen: steps, slices, pauses."),
    {NULL, NULL, 0, NULL},
};
