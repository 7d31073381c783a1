/* The data plane: make, start, finish; and memory that travels without a copy. */
#include "module.h"

#include <stdlib.h>
#include <unistd.h>

/* A call and what its buffers lie in. */
struct call {
    mu_call mu;
    struct span in, out;
};

/* A call that goes on. Its buffers stay until it is finished: by whoever started it, or when the
 * run is left. */
struct pending {
    struct pending *next, **link; /* in run->pending */
    struct started *owner;        /* NULL: nobody will finish it */
    mu_started *mu;
    struct call call;
};

struct started {
    PyObject ob_base;
    struct run *run;         /* owned */
    struct pending *pending; /* NULL: it is finished, or a thread is about to */
};

static PyTypeObject *started_type;

static void call_release(struct call *c)
{
    py_span_release(&c->in);
    py_span_release(&c->out);
}

/* ---- what is said, and whether it fits ---- */

/* Of what has a type and a length, the caller need not say them. */
static int fill_in(struct call *c, Py_ssize_t count, int dtype, int size)
{
    const struct span *by = c->in.data != NULL ? &c->in : &c->out;
    const bool parts = c->mu.kind == MU_REDUCE_SCATTER;

    if (c->mu.kind == MU_MEET) {
        dtype = MU_U8;
        count = 0;
    }
    if (dtype < 0) {
        dtype = by->dtype;
        if (dtype < 0) {
            py_error_raise_text(MU_EINVAL,
                                "elements are float32, float64, bfloat16, float16, int32, "
                                "int64 or uint8, and these are not");
            return -1;
        }
    }
    if (dtype > MU_U8) {
        py_error_raise_text(MU_EINVAL, "there is no type of elements with number %d", dtype);
        return -1;
    }
    if (count < 0) {
        if (by->bytes == SIZE_MAX) {
            py_error_raise_text(MU_EINVAL,
                                "an address alone does not say how many elements it has");
            return -1;
        }
        count = (Py_ssize_t)(by->bytes / py_dtype_bytes(dtype) / (parts ? (size_t)size : 1));
    }
    c->mu.count = (size_t)count;
    c->mu.dtype = (enum mu_dtype)dtype;
    return 0;
}

static int check_span(const struct span *s, const struct call *c, size_t times, const char *what)
{
    const size_t element = py_dtype_bytes((int)c->mu.dtype);
    size_t bytes;

    if (__builtin_mul_overflow(c->mu.count, element * times, &bytes) || s->bytes < bytes) {
        py_error_raise_text(MU_EINVAL, "%s has %zu bytes: too few for %zu elements of %zu bytes%s",
                            what, s->bytes, c->mu.count * times, element,
                            times > 1 ? ", one part for each rank" : "");
        return -1;
    }
    if (s->data == NULL && bytes > 0) {
        py_error_raise_text(MU_EINVAL, "there is no `%s`", what);
        return -1;
    }
    if (s->dtype >= 0 && s->dtype != (int)c->mu.dtype && s->dtype != MU_U8) {
        py_error_raise_text(MU_EINVAL, "`in` and `out` have elements of different types");
        return -1;
    }
    return 0;
}

static int check_spans(const struct call *c, int size, int rank)
{
    const enum mu_kind kind = c->mu.kind;
    const bool reads = kind != MU_RECV && kind != MU_MEET;
    const bool writes = kind != MU_SEND && kind != MU_MEET && (c->mu.flags & MU_VIEW) == 0 &&
                        (kind != MU_REDUCE || c->mu.rank == rank);

    if (reads && check_span(&c->in, c, kind == MU_REDUCE_SCATTER ? (size_t)size : 1, "in") < 0) {
        return -1;
    }
    if (writes && check_span(&c->out, c, kind == MU_ALLGATHER ? (size_t)size : 1, "out") < 0) {
        return -1;
    }
    return 0;
}

/* How many there are decides how long the buffers must be: so there has to be a group. */
static int find_group(struct run *self, int64_t timeout_ms, mu_group_info *g)
{
    struct waiting w;
    mu_run *mu = py_run_get(self);

    if (mu == NULL || py_run_check(mu_group(mu, g)) < 0) {
        return -1;
    }
    if (g->generation == 0) {
        if (py_wait_begin(&w, self) < 0 || py_wait_end(&w, mu_regroup(w.mu, timeout_ms)) < 0) {
            return -1;
        }
        return py_run_check(mu_group(mu, g));
    }
    return 0;
}

static int parse(struct run *self, PyObject *args, PyObject *kwargs, struct call *c)
{
    PyObject *in = NULL, *out = NULL;
    int kind, dtype = -1, reduction = MU_SUM, rank = 0;
    long long timeout_ms = MU_FOREVER;
    unsigned tag = 0, flags = 0;
    Py_ssize_t count = -1;
    mu_group_info group;

    *c = (struct call){.in = {.dtype = -1}, .out = {.dtype = -1}};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i|OOniiiIIL:make",
                                     KEYWORDS("kind", "in_", "out", "count", "dtype", "reduction",
                                              "rank", "tag", "flags", "timeout_ms"),
                                     &kind, &in, &out, &count, &dtype, &reduction, &rank, &tag,
                                     &flags, &timeout_ms)) {
        return -1;
    }
    mu_call_init(&c->mu, (enum mu_kind)kind);
    c->mu.reduction = (enum mu_reduction)reduction;
    c->mu.rank = rank;
    c->mu.tag = tag;
    c->mu.flags = flags;
    c->mu.timeout_ms = timeout_ms;
    if (py_span_get(&c->in, in, false, "in_") < 0 || py_span_get(&c->out, out, true, "out") < 0 ||
        find_group(self, timeout_ms, &group) < 0 || fill_in(c, count, dtype, group.size) < 0 ||
        check_spans(c, group.size, group.rank) < 0) {
        call_release(c);
        return -1;
    }
    c->mu.in = c->in.data;
    c->mu.out = c->out.data;
    return 0;
}

static PyObject *result(struct run *self, const struct call *c, const mu_result *r)
{
    PyObject *view = NULL;

    if (r->view == NULL) {
        return Py_BuildValue("(KiKO)", (unsigned long long)r->generation, r->members,
                             (unsigned long long)r->newest, Py_None);
    }
    view = py_memory_new(MEMORY_VIEW, self, (void *)(uintptr_t)r->view,
                         c->mu.count * py_dtype_bytes((int)c->mu.dtype), true);
    if (view == NULL) {
        mu_view_release(self->mu, r->view);
        return NULL;
    }
    return Py_BuildValue("(KiKN)", (unsigned long long)r->generation, r->members,
                         (unsigned long long)r->newest, view);
}

/* ---- the calls ---- */

static PyObject *run_make(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct run *self = (struct run *)object;
    mu_result r = {.lost_rank = -1};
    PyObject *tuple = NULL;
    struct waiting w;
    struct call c;
    int rc;

    if (parse(self, args, kwargs, &c) < 0) {
        return NULL;
    }
    if (py_wait_begin(&w, self) == 0) {
        rc = mu_make(w.mu, &c.mu, &r);
        if (py_wait_end_rank(&w, rc, r.lost_rank) == 0) {
            tuple = result(self, &c, &r);
        }
    }
    call_release(&c);
    return tuple;
}

static void pending_link(struct run *run, struct pending *p)
{
    p->next = run->pending;
    p->link = &run->pending;
    if (p->next != NULL) {
        p->next->link = &p->next;
    }
    run->pending = p;
}

static void pending_unlink(struct pending *p)
{
    *p->link = p->next;
    if (p->next != NULL) {
        p->next->link = p->link;
    }
}

static void pending_free(struct pending *p)
{
    call_release(&p->call);
    free(p);
}

static PyObject *run_start(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct run *self = (struct run *)object;
    struct pending *p = calloc(1, sizeof(*p));
    struct started *s = p != NULL ? PyObject_New(struct started, started_type) : NULL;
    struct waiting w;

    if (s == NULL) {
        free(p);
        return PyErr_NoMemory();
    }
    s->run = self;
    Py_INCREF((PyObject *)self);
    s->pending = NULL;
    if (parse(self, args, kwargs, &p->call) < 0) {
        free(p);
        Py_DECREF((PyObject *)s);
        return NULL;
    }
    if (py_wait_begin(&w, self) < 0 || py_wait_end(&w, mu_start(w.mu, &p->call.mu, &p->mu)) < 0) {
        pending_free(p);
        Py_DECREF((PyObject *)s);
        return NULL;
    }
    s->pending = p;
    p->owner = s;
    pending_link(self, p);
    return (PyObject *)s;
}

static PyObject *started_finish(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct started *s = (struct started *)object;
    long long timeout_ms = MU_FOREVER;
    mu_result r = {.lost_rank = -1};
    struct pending *p = s->pending;
    PyObject *tuple = NULL;
    struct waiting w;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|L:finish", KEYWORDS("timeout_ms"),
                                     &timeout_ms)) {
        return NULL;
    }
    if (p == NULL) {
        return py_error_raise_text(MU_EINVAL,
                                   "this call is finished, went with its run, or another "
                                   "thread waits for it");
    }
    s->pending = NULL; /* No other thread may finish it, and leave() must not. */
    pending_unlink(p);
    if (py_wait_begin(&w, s->run) < 0) {
        s->pending = p;
        pending_link(s->run, p);
        return NULL;
    }
    rc = mu_finish(p->mu, timeout_ms, &r);
    if (py_wait_end_rank(&w, rc, r.lost_rank) == 0) {
        tuple = result(s->run, &p->call, &r);
    }
    if (rc == MU_ETIMEDOUT) { /* It goes on. */
        s->pending = p;
        pending_link(s->run, p);
    } else {
        pending_free(p);
    }
    return tuple;
}

static void started_dealloc(PyObject *object)
{
    struct started *s = (struct started *)object;
    PyTypeObject *type = Py_TYPE(object);

    if (s->pending != NULL) {
        s->pending->owner = NULL;
    }
    Py_XDECREF((PyObject *)s->run);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* A call that nobody waited for, and that is not over, is given up. */
void py_call_finish_all(struct run *self, mu_run *mu)
{
    while (self->pending != NULL) {
        struct pending *p = self->pending;
        mu_result r = {0};
        int rc;

        pending_unlink(p);
        if (p->owner != NULL) {
            p->owner->pending = NULL;
        }
        Py_BEGIN_ALLOW_THREADS;
        rc = mu_finish(p->mu, 0, &r);
        if (rc == MU_ETIMEDOUT) {
            (void)mu_stop(mu);
            rc = mu_finish(p->mu, MU_FOREVER, &r);
        }
        if (rc == MU_OK) {
            mu_view_release(mu, r.view);
        }
        Py_END_ALLOW_THREADS;
        pending_free(p);
    }
}

static PyObject *run_alloc(PyObject *object, PyObject *args)
{
    struct run *self = (struct run *)object;
    mu_run *mu = py_run_get(self);
    Py_ssize_t bytes;
    PyObject *memory;
    void *data;

    if (mu == NULL || !PyArg_ParseTuple(args, "n:alloc", &bytes)) {
        return NULL;
    }
    if (bytes <= 0) {
        return py_error_raise_text(MU_EINVAL, "alloc: one byte or more");
    }
    data = mu_alloc(mu, (size_t)bytes);
    if (data == NULL) {
        return py_error_raise(MU_ENOMEM);
    }
    memory = py_memory_new(MEMORY_ALLOC, self, data, (size_t)bytes, false);
    if (memory == NULL) {
        mu_free(mu, data);
    }
    return memory;
}

PyMethodDef py_call_methods[] = {
    {"alloc", run_alloc, METH_VARARGS,
     PyDoc_STR("alloc(nbytes) -> Memory\n\nZeroed; it travels without a copy to workers on the "
               "same host. Goes when nobody uses it any more, or with the run.")},
    METHOD("make", run_make,
           "make(kind, in_=None, out=None, count=-1, dtype=-1, reduction=SUM, rank=0, tag=0, "
           "flags=0, timeout_ms=-1) -> (generation, members, newest, view)\n\nMakes a call of the "
           "data plane. in_ and out: a buffer, a tensor with __dlpack__, an address, or None. A "
           "count and type that are not said are those of the buffer."),
    METHOD("start", run_start,
           "start(...) -> Started\n\nThe same in the background. Its buffers must stay as they "
           "are until it is finished."),
    {NULL, NULL, 0, NULL},
};

static PyMethodDef started_methods[] = {
    METHOD("finish", started_finish,
           "finish(timeout_ms=-1) -> (generation, members, newest, view)\n\nWaits for it, once. "
           "Timeout: it goes on; finish it later."),
    {NULL, NULL, 0, NULL},
};

static char started_doc[] = "A call that goes on in the background, of Run.start().";

static PyType_Slot slots[] = {
    {Py_tp_doc, started_doc},
    {Py_tp_dealloc, (void *)started_dealloc},
    {Py_tp_methods, started_methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "muster._muster.Started",
    .basicsize = sizeof(struct started),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int py_call_init(PyObject *module)
{
    started_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return started_type != NULL ? PyModule_AddObjectRef(module, "Started", (PyObject *)started_type)
                                : -1;
}
