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

/* What is said to all: a tag, and data. */
struct word {
    const char *tag;
    struct span data;
    long long timeout_ms;
    struct waiting w;
};

static int word_begin(struct word *word, PyObject *run, PyObject *args, PyObject *kwargs,
                      const char *format)
{
    PyObject *data = NULL;

    word->timeout_ms = MU_FOREVER;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, KEYWORDS("tag", "data", "timeout_ms"),
                                     &word->tag, &data, &word->timeout_ms) ||
        py_span_get(&word->data, data, false, "data") < 0) {
        return -1;
    }
    if (py_wait_begin(&word->w, (struct run *)run) < 0) {
        py_span_release(&word->data);
        return -1;
    }
    return 0;
}

static int word_end(struct word *word, int rc)
{
    rc = py_wait_end(&word->w, rc);
    py_span_release(&word->data);
    return rc;
}

static PyObject *run_sync(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct word word;
    mu_values values;
    PyObject *list;
    int rc;

    if (word_begin(&word, object, args, kwargs, "s|OL:sync") < 0) {
        return NULL;
    }
    rc = mu_sync(word.w.mu, word.tag, word.data.data, word.data.bytes, word.timeout_ms, &values);
    if (word_end(&word, rc) < 0) {
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
    struct word word;
    int same = 0, rc;

    if (word_begin(&word, object, args, kwargs, "sO|L:agree") < 0) {
        return NULL;
    }
    rc = mu_agree(word.w.mu, word.tag, word.data.data, word.data.bytes, word.timeout_ms, &same);
    return word_end(&word, rc) < 0 ? NULL : PyBool_FromLong(same);
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

static PyObject *run_group_check(PyObject *object, PyObject *args, PyObject *kwargs)
{
    mu_run *mu = py_run_get((struct run *)object);
    unsigned long long generation;

    if (mu == NULL ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "K:group_check", KEYWORDS("generation"),
                                     &generation) ||
        py_run_check(mu_group_check(mu, generation)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *run_group_secret(PyObject *object, PyObject *args, PyObject *kwargs)
{
    mu_run *mu = py_run_get((struct run *)object);
    uint8_t secret[MU_SECRET_BYTES];
    unsigned long long generation;
    const char *label;

    if (mu == NULL ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "Ks:group_secret",
                                     KEYWORDS("generation", "label"), &generation, &label) ||
        py_run_check(mu_group_secret(mu, generation, label, secret)) < 0) {
        return NULL;
    }
    return PyBytes_FromStringAndSize((const char *)secret, sizeof(secret));
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
    METHOD("group_check", run_group_check,
           "group_check(generation)\n\nRaises PeerLost if one of its members is gone."),
    METHOD("group_secret", run_group_secret,
           "group_secret(generation, label) -> bytes\n\nThe same for all members, known to nobody "
           "else."),
    METHOD("regroup", run_regroup, "regroup(timeout_ms=-1)\n\nMoves to the newest generation."),
    {NULL, NULL, 0, NULL},
};
