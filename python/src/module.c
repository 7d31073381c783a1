/* muster._muster: its functions and constants. */
#include "module.h"

static PyObject *span_describe(PyObject *module, PyObject *object)
{
    PyObject *tuple;
    struct span s;

    if (py_span_get(&s, object, false, "memory") < 0) {
        return NULL;
    }
    tuple = Py_BuildValue("(Kni)", (unsigned long long)(uintptr_t)s.data,
                          s.bytes == SIZE_MAX ? (Py_ssize_t)-1 : (Py_ssize_t)s.bytes, s.dtype);
    py_span_release(&s);
    return tuple;
}

static PyMethodDef functions[] = {
    METHOD("join", py_run_join,
           "join(address=None, join_ms=10000, slices=8, steps=0, digest_every=100, "
           "check_every=0, step_ms=-1, ckpt_dir=None, ckpt_steps=0, ckpt_ms=-1) -> Run\n\n"
           "This process becomes a worker of the job that `muster run` started it for, or of a "
           "job of one."),
    METHOD("memory", py_memory_raw,
           "memory(address, nbytes, readonly=False) -> Memory\n\nA buffer over any memory, which "
           "the caller keeps there."),
    {"copy", py_memory_copy, METH_VARARGS,
     PyDoc_STR("copy(to, from, nbytes)\n\nBetween two addresses, without the GIL.")},
    METHOD(
        "records_open", py_records_open,
        "records_open(sources, options=\"\") -> Records\n\nFiles, folders and patterns as one row "
        "of records."),
    METHOD("writer_open", py_writer_open,
           "writer_open(path, options=\"\") -> Writer\n\nA new RecordIO file."),
    {"describe", span_describe, METH_O,
     PyDoc_STR("describe(object) -> (address, nbytes, dtype)\n\nOf a buffer or a tensor with "
               "__dlpack__; dtype -1: none that can be reduced.")},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        long value;
    } constants[] = {
        {"SUM", MU_SUM},
        {"MEAN", MU_MEAN},
        {"MIN", MU_MIN},
        {"MAX", MU_MAX},
        {"F32", MU_F32},
        {"F64", MU_F64},
        {"BF16", MU_BF16},
        {"F16", MU_F16},
        {"I32", MU_I32},
        {"I64", MU_I64},
        {"U8", MU_U8},
        {"ALLREDUCE", MU_ALLREDUCE},
        {"REDUCE_SCATTER", MU_REDUCE_SCATTER},
        {"ALLGATHER", MU_ALLGATHER},
        {"BROADCAST", MU_BROADCAST},
        {"REDUCE", MU_REDUCE},
        {"MEET", MU_MEET},
        {"SEND", MU_SEND},
        {"RECV", MU_RECV},
        {"AGREE", MU_AGREE},
        {"VIEW", MU_VIEW},
        {"PARTS_MAX", MU_PARTS_MAX},
        {"METRICS_MAX", MU_METRICS_MAX},
        {"VALUE_MAX", MU_VALUE_MAX},
    };
    PyObject *any = PyLong_FromUnsignedLongLong(MU_ANY);
    int rc = any != NULL ? PyModule_AddObjectRef(module, "ANY", any) : -1;

    Py_XDECREF(any);
    for (size_t i = 0; rc == 0 && i < sizeof(constants) / sizeof(constants[0]); i++) {
        rc = PyModule_AddIntConstant(module, constants[i].name, constants[i].value);
    }
    return rc;
}

PyMODINIT_FUNC PyInit__muster(void); /* Python looks it up by its name. */

PyMODINIT_FUNC PyInit__muster(void)
{
    static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "muster._muster",
        .m_doc = PyDoc_STR("libmuster's calls; see the package muster."),
        .m_size = -1,
        .m_methods = functions,
    };
    PyObject *module = PyModule_Create(&definition);

    if (module == NULL) {
        return NULL;
    }
    if (py_error_init(module) < 0 || py_memory_init(module) < 0 || py_work_init(module) < 0 ||
        py_call_init(module) < 0 || py_run_init(module) < 0 || py_records_init(module) < 0 ||
        add_constants(module) < 0 ||
        PyModule_AddStringConstant(module, "VERSION", mu_version()) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
