/* Memory of the library as a buffer: what mu_alloc() and mu_next() give, and views of results. */
#include "module.h"

#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory {
    PyObject ob_base;
    enum memory_kind kind;
    char readonly;
    struct run *run; /* ALLOC, VIEW: owned; the others: borrowed; NULL when it has been left */
    void *data;      /* NULL: it is gone */
    unsigned long long address;
    Py_ssize_t bytes;
    Py_ssize_t exports;          /* arrays and tensors that use it */
    void *copy;                  /* RESULT: what those see; NULL: there were none yet */
    struct memory *next, **link; /* in run->memories */
};

static PyTypeObject *memory_type;

static bool owns_run(const struct memory *m)
{
    return m->kind == MEMORY_ALLOC || m->kind == MEMORY_VIEW;
}

PyObject *py_memory_new(enum memory_kind kind, struct run *run, void *data, size_t bytes,
                        bool readonly)
{
    struct memory *m = PyObject_New(struct memory, memory_type);

    if (m == NULL) {
        return NULL;
    }
    m->kind = kind;
    m->readonly = readonly;
    m->run = run;
    m->data = data;
    m->address = (uintptr_t)data;
    m->bytes = (Py_ssize_t)bytes;
    m->exports = 0;
    m->copy = NULL;
    m->next = NULL;
    m->link = NULL;
    if (run != NULL) {
        m->next = run->memories;
        m->link = &run->memories;
        if (m->next != NULL) {
            m->next->link = &m->next;
        }
        run->memories = m;
        if (owns_run(m)) {
            Py_INCREF((PyObject *)run);
        }
    }
    return (PyObject *)m;
}

static void unlink_it(struct memory *m)
{
    if (m->link != NULL) {
        *m->link = m->next;
        if (m->next != NULL) {
            m->next->link = m->link;
        }
    }
    m->link = NULL;
    m->next = NULL;
}

static void memory_dealloc(PyObject *object)
{
    struct memory *m = (struct memory *)object;
    PyTypeObject *type = Py_TYPE(object);
    struct run *run = m->run;

    unlink_it(m);
    if (run != NULL && run->mu != NULL && run->pid == getpid()) {
        if (m->kind == MEMORY_ALLOC) {
            mu_free(run->mu, m->data);
        } else if (m->kind == MEMORY_VIEW) {
            mu_view_release(run->mu, m->data);
        }
    }
    if (owns_run(m)) {
        Py_XDECREF((PyObject *)run);
    }
    free(m->copy);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* The library takes a result back when the next one is due, and may unmap it. Arrays have no way to
 * know, so they are given a copy, which stays as long as they do. */
static void *find_data(struct memory *m)
{
    if (m->kind != MEMORY_RESULT) {
        return m->data;
    }
    if (m->copy == NULL && m->data != NULL) {
        m->copy = malloc((size_t)m->bytes);
        if (m->copy != NULL) {
            memcpy(m->copy, m->data, (size_t)m->bytes);
        }
    }
    return m->copy;
}

static int memory_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct memory *m = (struct memory *)object;
    void *data = find_data(m);

    if (data == NULL && m->bytes > 0) {
        view->obj = NULL;
        if (m->data != NULL) {
            PyErr_NoMemory();
        } else {
            PyErr_SetString(PyExc_BufferError,
                            m->kind == MEMORY_RESULT
                                ? "this result went when the next one was due"
                                : "this memory went with the run that it was of");
        }
        return -1;
    }
    if (PyBuffer_FillInfo(view, object, data, m->bytes, m->readonly, flags) < 0) {
        return -1;
    }
    m->exports++;
    return 0;
}

static void memory_releasebuffer(PyObject *object, Py_buffer *view)
{
    ((struct memory *)object)->exports--;
}

static Py_ssize_t memory_length(PyObject *object)
{
    return ((struct memory *)object)->bytes;
}

void py_memory_expire(PyObject *results)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(results); i++) {
        struct memory *m = (struct memory *)PyTuple_GetItem(results, i);

        m->data = NULL;
        m->address = 0;
    }
}

/* ---- the end of a run ---- */

/* Arrays that outlive the run must not crash the process: what they see is put back, in private
 * memory at the same place. */
struct kept {
    struct kept *next;
    void *place; /* whole pages */
    size_t bytes;
    void *copy;
};

static void keep(struct kept **list, const struct memory *m)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)m->data & ~(page - 1);
    const uintptr_t end = ((uintptr_t)m->data + (size_t)m->bytes + page - 1) & ~(page - 1);
    struct kept *k = malloc(sizeof(*k));

    if (k == NULL) {
        return;
    }
    *k = (struct kept){*list, (void *)begin, end - begin, malloc(end - begin)};
    if (k->copy == NULL) {
        free(k);
        return;
    }
    memcpy(k->copy, k->place, k->bytes);
    *list = k;
}

struct kept *py_memory_detach(struct run *run)
{
    struct kept *list = NULL;

    while (run->memories != NULL) {
        struct memory *m = run->memories;

        if (m->exports > 0 && m->kind != MEMORY_RESULT) {
            keep(&list, m);
        }
        unlink_it(m);
        m->data = NULL;
        m->address = 0;
        m->run = NULL;
        if (owns_run(m)) {
            Py_DECREF(run); /* The caller has another reference. */
        }
    }
    return list;
}

/* Pages that are taken were put back already, for a neighbour; or they never went. */
static void restore(const struct kept *k, size_t at, size_t bytes)
{
    char *place = (char *)k->place + at;
    void *got = mmap(place, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (got == place) {
        memcpy(place, (const char *)k->copy + at, bytes);
        return;
    }
    if (got != MAP_FAILED) { /* An old kernel, to which the address is a wish. */
        munmap(got, bytes);
        return;
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t i = 0; bytes > page && i < bytes; i += page) {
        restore(k, at + i, page);
    }
}

void py_memory_restore(struct kept *kept)
{
    while (kept != NULL) {
        struct kept *next = kept->next;

        restore(kept, 0, kept->bytes);
        free(kept->copy);
        free(kept);
        kept = next;
    }
}

/* ---- of the module ---- */

PyObject *py_memory_raw(PyObject *module, PyObject *args, PyObject *kwargs)
{
    unsigned long long address;
    Py_ssize_t bytes;
    int readonly = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Kn|p:memory",
                                     KEYWORDS("address", "nbytes", "readonly"), &address, &bytes,
                                     &readonly)) {
        return NULL;
    }
    if (bytes < 0 || (address == 0 && bytes > 0)) {
        PyErr_SetString(PyExc_ValueError, "memory has an address, and 0 or more bytes");
        return NULL;
    }
    return py_memory_new(MEMORY_RAW, NULL, (void *)(uintptr_t)address, (size_t)bytes, readonly);
}

PyObject *py_memory_copy(PyObject *module, PyObject *args)
{
    unsigned long long to, from;
    Py_ssize_t bytes;

    if (!PyArg_ParseTuple(args, "KKn:copy", &to, &from, &bytes)) {
        return NULL;
    }
    if (bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "copy: 0 or more bytes");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, (size_t)bytes);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyMemberDef members[] = {
    {"address", T_ULONGLONG, offsetof(struct memory, address), READONLY,
     PyDoc_STR("where it begins; 0: it went with its run")},
    {"nbytes", T_PYSSIZET, offsetof(struct memory, bytes), READONLY, PyDoc_STR("its length")},
    {"readonly", T_BOOL, offsetof(struct memory, readonly), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static char memory_doc[] = "Memory that is not Python's, as a buffer.";

static PyType_Slot slots[] = {
    {Py_tp_doc, memory_doc},
    {Py_tp_dealloc, (void *)memory_dealloc},
    {Py_tp_members, members},
    {Py_bf_getbuffer, (void *)memory_getbuffer},
    {Py_bf_releasebuffer, (void *)memory_releasebuffer},
    {Py_sq_length, (void *)memory_length},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "muster._muster.Memory",
    .basicsize = sizeof(struct memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int py_memory_init(PyObject *module)
{
    memory_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return memory_type != NULL ? PyModule_AddObjectRef(module, "Memory", (PyObject *)memory_type)
                               : -1;
}
