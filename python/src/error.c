/* A status becomes an exception of muster.errors. */
#include "module.h"

#include <stdarg.h>
#include <stdio.h>

static PyObject *make; /* muster.errors.make(status, text, lost_rank) */

static PyObject *raise_with(int status, const char *text, int lost_rank)
{
    PyObject *error = PyObject_CallFunction(make, "isi", status, text, lost_rank);

    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

PyObject *py_error_raise_rank(int status, int lost_rank)
{
    const char *text = mu_error();

    return raise_with(status, text[0] != '\0' ? text : mu_strerror(status), lost_rank);
}

PyObject *py_error_raise(int status)
{
    return py_error_raise_rank(status, -1);
}

PyObject *py_error_raise_text(int status, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return raise_with(status, text, -1);
}

int py_error_init(PyObject *module)
{
    static const struct {
        const char *name;
        int value;
    } statuses[] = {
#define X(name, value, text) {"MU_" #name, value},
        MU_STATUS_MAP(X)
#undef X
    };
    PyObject *errors = PyImport_ImportModule("muster.errors");
    PyObject *table = PyDict_New();

    if (errors == NULL || table == NULL) {
        goto err;
    }
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        PyObject *value = PyLong_FromLong(statuses[i].value);

        if (value == NULL || PyDict_SetItemString(table, statuses[i].name, value) < 0 ||
            PyModule_AddObjectRef(module, statuses[i].name + sizeof("MU_") - 1, value) < 0) {
            Py_XDECREF(value);
            goto err;
        }
        Py_DECREF(value);
    }
    make = PyObject_GetAttrString(errors, "make");
    if (make == NULL || PyModule_AddObjectRef(module, "STATUSES", table) < 0) {
        goto err;
    }
    Py_DECREF(errors);
    Py_DECREF(table);
    return 0;
err:
    Py_XDECREF(errors);
    Py_XDECREF(table);
    return -1;
}
