/* What needs the orchestrator: sync, barrier, agree; and the group that calls are made in. */
#include "module.h"

static PyObject *values_list(const mu_values *values)
{
    PyObject *list = PyList_New((Py_ssize_t)values->n);

    for (size_t i = 0; list != NULL && i < values->n; i++) {
        const mu_value *v = &values->items[i];
        PyObject *one =
            Py_BuildValue("(sy#)", v->address, v->data_n > 0 ? v->data : "", (Py_ssize_t)v->data_n);

        if (one == NULL || PyList_SetItem(list, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *run_sync(PyObject *object, PyObject *args, PyObject *kwargs)
{
    long long timeout_ms = MU_FOREVER;
    PyObject *list, *data = NULL;
    struct waiting w;
    const char *tag;
    struct span s;
    mu_values values;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|OL:sync",
                                     KEYWORDS("tag", "data", "timeout_ms"), &tag, &data,
                                     &timeout_ms) ||
        py_span_get(&s, data, false, "data") < 0) {
        return NULL;
    }
    if (py_wait_begin(&w, (struct run *)object) < 0) {
        py_span_release(&s);
        return NULL;
    }
    rc = mu_sync(w.mu, tag, s.data, s.bytes, timeout_ms, &values);
    rc = py_wait_end(&w, rc);
    py_span_release(&s);
    if (rc < 0) {
        return NULL;
    }
    list = values_list(&values);
    if (list != NULL) {
        list = Py_BuildValue("(KN)", (unsigned long long)values.generation, list);
    }
    mu_values_free(&values);
    return list;
}

static PyObject *run_barrier(PyObject *object, PyObject *args, PyObject *kwargs)
{
    long long timeout_ms = MU_FOREVER;
    struct waiting w;
    const char *tag;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|L:barrier", KEYWORDS("tag", "timeout_ms"),
                                     &tag, &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_barrier(w.mu, tag, timeout_ms)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_agree(PyObject *object, PyObject *args, PyObject *kwargs)
{
    long long timeout_ms = MU_FOREVER;
    struct waiting w;
    PyObject *data;
    const char *tag;
    struct span s;
    int same = 0, rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|L:agree",
                                     KEYWORDS("tag", "data", "timeout_ms"), &tag, &data,
                                     &timeout_ms) ||
        py_span_get(&s, data, false, "data") < 0) {
        return NULL;
    }
    if (py_wait_begin(&w, (struct run *)object) < 0) {
        py_span_release(&s);
        return NULL;
    }
    rc = mu_agree(w.mu, tag, s.data, s.bytes, timeout_ms, &same);
    rc = py_wait_end(&w, rc);
    py_span_release(&s);
    return rc < 0 ? NULL : PyBool_FromLong(same);
}

static PyObject *run_group(PyObject *object, PyObject *unused)
{
    mu_run *mu = py_run_get((struct run *)object);
    mu_group_info g;

    if (mu == NULL || py_run_check(mu_group(mu, &g)) < 0) {
        return NULL;
    }
    return Py_BuildValue("(KiiO)", (unsigned long long)g.generation, g.rank, g.size,
                         g.settled ? Py_True : Py_False);
}

static PyObject *run_regroup(PyObject *object, PyObject *args, PyObject *kwargs)
{
    long long timeout_ms = MU_FOREVER;
    struct waiting w;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|L:regroup", KEYWORDS("timeout_ms"),
                                     &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_regroup(w.mu, timeout_ms)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef py_control_methods[] = {
    METHOD("sync", run_sync,
           "sync(tag, data=b\"\", timeout_ms=-1) -> (generation, [(address, bytes), ...])\n\n"
           "Everyone in the generation gets everyone's value, by rank."),
    METHOD("barrier", run_barrier, "barrier(tag, timeout_ms=-1)\n\nUntil every member has come."),
    METHOD("agree", run_agree,
           "agree(tag, data, timeout_ms=-1) -> bool\n\nDo all members say the same?"),
    METHOD_NOARGS("group", run_group,
                  "group() -> (generation, rank, size, settled)\n\nThat calls are made in."),
    METHOD("regroup", run_regroup, "regroup(timeout_ms=-1)\n\nMoves to the newest generation."),
    {NULL, NULL, 0, NULL},
};
