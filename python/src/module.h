/* The extension muster._muster: libmuster's calls as Python sees them, thin and exact. What is
 * pleasant to use is made of them in Python. One file per concern; all of it runs under the GIL
 * except what stands between py_wait_begin() and py_wait_end().
 *
 * What one file has for the others begins with py_, so that nothing is mistaken for a function of
 * the library, which is linked into the same object.
 *
 * Functions that give int return 0, or -1 with a Python exception set; those that give PyObject *
 * return a new reference, or NULL with one set. */
#ifndef PYTHON_SRC_MODULE_H
#define PYTHON_SRC_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <muster.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define KEYWORDS(...) ((char **)(uintptr_t)(const char *const[]){__VA_ARGS__, NULL})
#define METHOD(name, function, doc)                                                  \
    {                                                                                \
        name, (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS, \
            PyDoc_STR(doc)                                                           \
    }
#define METHOD_NOARGS(name, function, doc)            \
    {                                                 \
        name, (function), METH_NOARGS, PyDoc_STR(doc) \
    }

/* ---- errors (error.c) ---- */

/* Raises what muster.errors has for a status, with the text of the call that failed just now in
 * this thread. Returns NULL. */
PyObject *py_error_raise(int status);
PyObject *py_error_raise_rank(int status, int lost_rank); /* … .lost_rank says who; -1: nobody */
PyObject *py_error_raise_text(int status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int py_error_init(PyObject *module);

/* ---- memory that belongs to somebody else (span.c) ---- */

struct DLManagedTensor;

/* What a Python object has in memory: kept there until py_span_release(). Zero is an empty one. */
struct span {
    void *data;
    size_t bytes; /* SIZE_MAX: nobody knows, the caller gave a bare address */
    int dtype;    /* enum mu_dtype; -1: none of those, or unknown */
    bool has_view;
    Py_buffer view;                 /* … of a buffer */
    struct DLManagedTensor *tensor; /* … of what has __dlpack__ */
};

/* None is an empty span. Otherwise an address, (address, bytes), a contiguous buffer, or a
 * contiguous tensor on the CPU with __dlpack__. `what` names it in errors. */
int py_span_get(struct span *s, PyObject *object, bool writable, const char *what);
void py_span_release(struct span *s);
size_t py_dtype_bytes(int dtype);

/* ---- a worker (run.c) ---- */

struct memory;
struct callback;
struct pending;

enum hook { HOOK_GENERATION, HOOK_BEFORE, HOOK_AFTER, HOOKS_N };

struct run {
    PyObject ob_base;
    mu_run *mu; /* NULL: it has been left */
    pid_t pid;  /* whose it is: a forked child has no part in it */
    int users;  /* threads that are in a call */

    /* What training has been told of. */
    uint32_t parts_n, metrics_n;
    size_t part_bytes[MU_PARTS_MAX];
    struct span *spans; /* that states lie in */
    size_t spans_n;
    struct callback *callbacks;
    PyObject *hooks[HOOKS_N]; /* NULL */

    mu_work work;            /* the last one */
    PyObject *lent;          /* Memory by address: what mu_next() hands out, again and again */
    PyObject *results;       /* tuple of Memory: of the step that was shown last; NULL */
    struct memory *memories; /* all of this run's, borrowed */
    struct pending *pending; /* calls in the background that nobody has finished */
    PyObject *error[3];      /* what a callback has raised: type, value, traceback */
};

extern PyTypeObject *py_run_type;
int py_run_init(PyObject *module);
PyObject *py_run_join(PyObject *module, PyObject *args, PyObject *kwargs);

/* ---- waiting (wait.c) ---- */

struct waiting {
    struct run *run;
    mu_run *mu;
    PyThreadState *saved;
    bool main; /* the thread that hears of Ctrl-C */
};

/* Lets go of the GIL. Nothing of Python may be touched until py_wait_end(), which takes it again
 * and raises whatever has to be raised: Ctrl-C, what a callback raised, a status that is no
 * success. */
int py_wait_begin(struct waiting *w, struct run *run);
int py_wait_end(struct waiting *w, int status);
int py_wait_end_rank(struct waiting *w, int status, int lost_rank);
int py_wait_end_calls(struct waiting *w, int status); /* … which may have called Python */

/* Ctrl-C gets through to a thread that waits in the library, from now until py_wait_unhook(). */
int py_wait_hook(struct run *run);
void py_wait_unhook(struct run *run);

/* The run for a call that never waits; NULL with an exception set: it has been left. */
mu_run *py_run_get(struct run *run);

/* 0, or -1 with the status raised. */
int py_run_check(int status);

/* ---- memory of the library (memory.c) ---- */

enum memory_kind {
    MEMORY_RAW,   /* somebody else's, as the caller says */
    MEMORY_ALLOC, /* of mu_alloc() */
    MEMORY_VIEW,  /* to be released by mu_view_release() */
    MEMORY_LENT,  /* of mu_next(), to be filled: kept by the run */
    MEMORY_RESULT /* of mu_next(), until it is called again; arrays over it are copies */
};

int py_memory_init(PyObject *module);
/* run is NULL for MEMORY_RAW only; an ALLOC or VIEW keeps it alive, the others do not. */
PyObject *py_memory_new(enum memory_kind kind, struct run *run, void *data, size_t bytes,
                        bool readonly);
void py_memory_expire(PyObject *results); /* a tuple of them: mu_next() is called again */
/* The run is about to go: no memory of it may be used after this. Gives what py_memory_restore()
 * needs afterwards, for those that still are. */
struct kept;
struct kept *py_memory_detach(struct run *run);
void py_memory_restore(struct kept *kept);

PyObject *py_memory_raw(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_memory_copy(PyObject *module, PyObject *args);

/* ---- tables of methods, one per file ---- */

extern PyMethodDef py_control_methods[]; /* control.c: sync and the like */
extern PyMethodDef py_call_methods[];    /* call.c: the data plane */
extern PyMethodDef py_train_methods[];   /* train.c */
extern PyMethodDef py_setup_methods[];   /* setup.c: what training is told before it begins */
extern PyMethodDef py_config_methods[];  /* config.c */

/* ---- files of records (records.c) ---- */

int py_records_init(PyObject *module);
PyObject *py_records_open(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_writer_open(PyObject *module, PyObject *args, PyObject *kwargs);

/* ---- the rest ---- */

int py_work_init(PyObject *module);                           /* work.c */
PyObject *py_work_new(struct run *run);                       /* of run->work */
PyObject *py_work_samples(const uint64_t *samples, size_t n); /* a list */
int py_exit_leave(mu_run *run, int64_t meet_ms);              /* exit.c: if the process ends well */
int py_call_init(PyObject *module);                           /* call.c */
void py_call_finish_all(struct run *run, mu_run *mu);
void py_setup_clear(struct run *run); /* setup.c: all callbacks and states */
int py_setup_visit(struct run *run, visitproc visit, void *arg);

#endif
