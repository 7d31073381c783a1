/* What next() gives: a slice to compute, or a step that is committed. */
#include "module.h"

#include <structmember.h>

enum {
    LENT_MAX = 4096
}; /* more than that, and they come and go: then they are not worth keeping */

struct work {
    PyObject ob_base;
    PyObject *kind;
    unsigned long long step, epoch, generation, position, seed, step_samples;
    int rank, world;
    unsigned slice;
    PyObject *samples;   /* list of int */
    PyObject *outs;      /* tuple of Memory */
    PyObject *gradients; /* the same, read-only */
    PyObject *metrics;   /* tuple of float */
};

static PyTypeObject *work_type;
static PyObject *word_slice, *word_step;

/* The library takes its buffers in turn, so that the same few are handed out again and again. */
static PyObject *lend(struct run *run, void *data, size_t bytes)
{
    PyObject *key = PyLong_FromVoidPtr(data);
    PyObject *memory;

    if (key == NULL) {
        return NULL;
    }
    memory = PyDict_GetItemWithError(run->lent, key); /* borrowed */
    if (memory != NULL && PyObject_Size(memory) == (Py_ssize_t)bytes) {
        Py_DECREF(key);
        Py_INCREF(memory);
        return memory;
    }
    if (PyErr_Occurred()) {
        Py_DECREF(key);
        return NULL;
    }
    if (PyDict_Size(run->lent) >= LENT_MAX) {
        PyDict_Clear(run->lent);
    }
    memory = py_memory_new(MEMORY_LENT, run, data, bytes, false);
    if (memory != NULL && PyDict_SetItem(run->lent, key, memory) < 0) {
        Py_CLEAR(memory);
    }
    Py_DECREF(key);
    return memory;
}

static PyObject *outs_of(struct run *run, void *const *outs)
{
    const Py_ssize_t n = outs != NULL ? (Py_ssize_t)run->parts_n : 0;
    PyObject *tuple = PyTuple_New(n);

    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *one = lend(run, outs[i], run->part_bytes[i]);

        if (one == NULL || PyTuple_SetItem(tuple, i, one) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

static PyObject *results_of(struct run *run, const void *const *gradients)
{
    const Py_ssize_t n = gradients != NULL ? (Py_ssize_t)run->parts_n : 0;
    PyObject *tuple = PyTuple_New(n);

    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *one = py_memory_new(MEMORY_RESULT, run, (void *)(uintptr_t)gradients[i],
                                      run->part_bytes[i], true);

        if (one == NULL || PyTuple_SetItem(tuple, i, one) < 0) {
            Py_CLEAR(tuple);
        }
    }
    if (tuple != NULL && n > 0) {
        Py_INCREF(tuple);
        Py_XDECREF(run->results);
        run->results = tuple;
    }
    return tuple;
}

PyObject *py_work_samples(const uint64_t *samples, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list != NULL && i < n; i++) {
        PyObject *one = PyLong_FromUnsignedLongLong(samples[i]);

        if (one == NULL || PyList_SetItem(list, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *metrics_of(const double *metrics, uint32_t n)
{
    PyObject *tuple = PyTuple_New(metrics != NULL ? (Py_ssize_t)n : 0);

    for (uint32_t i = 0; tuple != NULL && metrics != NULL && i < n; i++) {
        PyObject *one = PyFloat_FromDouble(metrics[i]);

        if (one == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

PyObject *py_work_new(struct run *run)
{
    const mu_work *from = &run->work;
    const bool is_slice = from->kind == MU_SLICE;
    struct work *w = PyObject_New(struct work, work_type);

    if (w == NULL) {
        return NULL;
    }
    w->kind = is_slice ? word_slice : word_step;
    Py_INCREF(w->kind);
    w->step = from->step;
    w->epoch = from->epoch;
    w->generation = from->generation;
    w->rank = from->rank;
    w->world = from->world;
    w->slice = is_slice ? from->slice : 0;
    w->position = is_slice ? from->position : 0;
    w->seed = is_slice ? from->seed : 0;
    w->step_samples = is_slice ? 0 : from->step_samples;
    w->samples = py_work_samples(from->samples, is_slice ? from->samples_n : 0);
    w->outs = outs_of(run, is_slice ? from->outs : NULL);
    w->gradients = results_of(run, is_slice ? NULL : from->gradients);
    w->metrics = metrics_of(is_slice ? NULL : from->metrics, run->metrics_n);
    if (w->samples == NULL || w->outs == NULL || w->gradients == NULL || w->metrics == NULL) {
        Py_CLEAR(w);
    }
    return (PyObject *)w;
}

static void work_dealloc(PyObject *object)
{
    struct work *w = (struct work *)object;
    PyTypeObject *type = Py_TYPE(object);

    Py_XDECREF(w->kind);
    Py_XDECREF(w->samples);
    Py_XDECREF(w->outs);
    Py_XDECREF(w->gradients);
    Py_XDECREF(w->metrics);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *work_repr(PyObject *object)
{
    const struct work *w = (const struct work *)object;

    if (w->kind == word_step) {
        return PyUnicode_FromFormat("<step %llu of epoch %llu, by %d workers>", w->step, w->epoch,
                                    w->world);
    }
    return PyUnicode_FromFormat("<slice %u of step %llu, %zd samples>", w->slice, w->step,
                                PyList_Size(w->samples));
}

#define MEMBER(name, type, doc)                                            \
    {                                                                      \
#name, type, offsetof(struct work, name), READONLY, PyDoc_STR(doc) \
    }

static PyMemberDef members[] = {
    MEMBER(kind, T_OBJECT, "\"slice\": to be computed; or \"step\": it is committed"),
    MEMBER(step, T_ULONGLONG, "its number, from 1"),
    MEMBER(epoch, T_ULONGLONG, "from 0"),
    MEMBER(generation, T_ULONGLONG, NULL),
    MEMBER(rank, T_INT, "in that generation"),
    MEMBER(world, T_INT, "how many workers it has"),
    MEMBER(slice, T_UINT, "its number in the step"),
    MEMBER(samples, T_OBJECT, "numbers of a slice's samples"),
    MEMBER(position, T_ULONGLONG, "of the first of them in its epoch"),
    MEMBER(seed, T_ULONGLONG, "of a slice"),
    MEMBER(outs, T_OBJECT, "where a slice's gradient goes, by part"),
    MEMBER(gradients, T_OBJECT, "of a step, by part; addresses until next() is called again"),
    MEMBER(metrics, T_OBJECT, "means over a step's samples"),
    MEMBER(step_samples, T_ULONGLONG, "how many samples a step had"),
    {NULL, 0, 0, 0, NULL},
};

static char work_doc[] = "What is to be done, as Run.next() says.";

static PyType_Slot slots[] = {
    {Py_tp_doc, work_doc},
    {Py_tp_dealloc, (void *)work_dealloc},
    {Py_tp_members, members},
    {Py_tp_repr, (void *)work_repr},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "muster._muster.Work",
    .basicsize = sizeof(struct work),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int py_work_init(PyObject *module)
{
    word_slice = PyUnicode_InternFromString("slice");
    word_step = PyUnicode_InternFromString("step");
    work_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (word_slice == NULL || word_step == NULL || work_type == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Work", (PyObject *)work_type);
}
