/* Files of records: readers, the scans that threads have of them, and the writer. */
#include "module.h"

#include <string.h>

static PyTypeObject *records_type, *scan_type, *writer_type;

struct records {
    PyObject ob_base;
    mu_reader *reader;
};

/* One thread's: it lets go of the GIL, and nobody else may come in meanwhile. */
struct scan {
    PyObject ob_base;
    PyObject *records; /* owned */
    mu_scan *scan;
    bool busy;
};

struct writer {
    PyObject ob_base;
    mu_writer *writer; /* NULL: closed */
    bool busy;
};

/* ---- values ---- */

static PyObject *value_of(const mu_field *f)
{
    switch (f->type) {
    case MU_INTEGER:
        return PyLong_FromLongLong(f->integer);
    case MU_REAL:
        return PyFloat_FromDouble(f->real);
    case MU_TEXT:
        return PyUnicode_DecodeUTF8(f->data, (Py_ssize_t)f->n, "surrogateescape");
    case MU_NULL:
        Py_RETURN_NONE;
    default:
        return PyBytes_FromStringAndSize(f->data, (Py_ssize_t)f->n);
    }
}

/* A dict by column; the bytes themselves if there is one column alone, or none. */
static PyObject *object_of(const mu_record *record)
{
    PyObject *dict;

    if (record->fields_n < 2 && (record->fields_n == 0 || record->fields[0].type == MU_BYTES)) {
        return PyBytes_FromStringAndSize(record->data, (Py_ssize_t)record->n);
    }
    dict = PyDict_New();
    for (uint32_t i = 0; dict != NULL && i < record->fields_n; i++) {
        PyObject *name = PyUnicode_DecodeUTF8(
            record->fields[i].name, (Py_ssize_t)strlen(record->fields[i].name), "surrogateescape");
        PyObject *value = value_of(&record->fields[i]);

        if (name == NULL || value == NULL || PyDict_SetItem(dict, name, value) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return dict;
}

/* ---- readers ---- */

/* A list of str as an array of texts, which live as long as *keep does. */
static const char **texts_of(PyObject *list, PyObject **keep)
{
    const Py_ssize_t n = PyList_Size(list);
    const char **texts = n >= 0 ? PyMem_Calloc((size_t)n + 1, sizeof(*texts)) : NULL;

    *keep = PyList_New(0);
    if (texts == NULL || *keep == NULL) {
        PyMem_Free(texts);
        return n >= 0 && !PyErr_Occurred() ? (const char **)PyErr_NoMemory() : NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *bytes = NULL;

        if (PyUnicode_FSConverter(PyList_GetItem(list, i), &bytes) == 0 ||
            PyList_Append(*keep, bytes) < 0) {
            Py_XDECREF(bytes);
            PyMem_Free(texts);
            return NULL;
        }
        texts[i] = PyBytes_AsString(bytes);
        Py_DECREF(bytes);
    }
    return texts;
}

PyObject *py_records_open(PyObject *module, PyObject *args, PyObject *kwargs)
{
    PyObject *list, *keep = NULL;
    const char *options = "", **texts;
    mu_reader *reader = NULL;
    struct records *r = NULL;
    int rc = MU_OK;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|s:records_open",
                                     KEYWORDS("sources", "options"), &PyList_Type, &list,
                                     &options)) {
        return NULL;
    }
    texts = texts_of(list, &keep);
    if (texts != NULL) {
        const size_t n = (size_t)PyList_Size(keep);

        Py_BEGIN_ALLOW_THREADS;
        rc = mu_reader_open(texts, n, options, &reader);
        Py_END_ALLOW_THREADS;
        r = rc == MU_OK ? PyObject_New(struct records, records_type) : NULL;
        if (r != NULL) {
            r->reader = reader;
        } else if (rc == MU_OK) {
            mu_reader_close(reader);
        } else {
            py_error_raise(rc);
        }
    }
    PyMem_Free(texts);
    Py_XDECREF(keep);
    return (PyObject *)r;
}

static void records_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);

    mu_reader_close(((struct records *)object)->reader);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *records_count(PyObject *object, PyObject *none)
{
    return PyLong_FromUnsignedLongLong(mu_reader_records(((struct records *)object)->reader));
}

static PyObject *records_shards(PyObject *object, PyObject *none)
{
    size_t n;
    const mu_reader_shard *s = mu_reader_shards(((struct records *)object)->reader, &n);
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list != NULL && i < n; i++) {
        PyObject *name = PyUnicode_DecodeFSDefault(s[i].name);
        PyObject *one =
            name != NULL
                ? Py_BuildValue("(NsKKKK)", name, s[i].format, (unsigned long long)s[i].first,
                                (unsigned long long)s[i].records, (unsigned long long)s[i].bytes,
                                (unsigned long long)s[i].skipped)
                : NULL;

        if (one == NULL || PyList_SetItem(list, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *records_columns(PyObject *object, PyObject *none)
{
    static const char *const types[] = {"bytes", "str", "int", "float", "None"};
    size_t n;
    const mu_column *c = mu_reader_columns(((struct records *)object)->reader, &n);
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list != NULL && i < n; i++) {
        PyObject *one = Py_BuildValue("(sss)", c[i].name, types[c[i].type], c[i].detail);

        if (one == NULL || PyList_SetItem(list, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *records_scan(PyObject *object, PyObject *none)
{
    struct scan *s = PyObject_New(struct scan, scan_type);
    int rc;

    if (s == NULL) {
        return NULL;
    }
    s->records = NULL;
    s->scan = NULL;
    s->busy = false;
    rc = mu_scan_open(((struct records *)object)->reader, 0, 0, &s->scan);
    if (rc != MU_OK) {
        Py_DECREF((PyObject *)s);
        return py_error_raise(rc);
    }
    Py_INCREF(object);
    s->records = object;
    return (PyObject *)s;
}

static void scan_dealloc(PyObject *object)
{
    struct scan *s = (struct scan *)object;
    PyTypeObject *type = Py_TYPE(object);

    mu_scan_close(s->scan);
    Py_XDECREF(s->records);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *scan_read(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct scan *s = (struct scan *)object;
    unsigned long long number;
    PyObject *value = NULL;
    mu_record record;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "K:read", KEYWORDS("number"), &number)) {
        return NULL;
    }
    if (s->busy) {
        return py_error_raise_text(MU_EBUSY, "a scan is one thread's: another is reading with it");
    }
    s->busy = true;
    Py_BEGIN_ALLOW_THREADS;
    rc = mu_scan_at(s->scan, number, &record);
    Py_END_ALLOW_THREADS;
    value = rc == MU_OK ? object_of(&record) : py_error_raise(rc);
    s->busy = false;
    return value;
}

/* ---- the writer ---- */

PyObject *py_writer_open(PyObject *module, PyObject *args, PyObject *kwargs)
{
    const char *options = "";
    PyObject *path = NULL;
    struct writer *w;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|s:writer_open", KEYWORDS("path", "options"),
                                     PyUnicode_FSConverter, &path, &options)) {
        return NULL;
    }
    w = PyObject_New(struct writer, writer_type);
    if (w != NULL) {
        w->writer = NULL;
        w->busy = false;
        rc = mu_writer_open(PyBytes_AsString(path), options, &w->writer);
        if (rc != MU_OK) {
            Py_CLEAR(w);
            py_error_raise(rc);
        }
    }
    Py_DECREF(path);
    return (PyObject *)w;
}

static void writer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);

    mu_writer_close(((struct writer *)object)->writer);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int writer_enter(struct writer *w)
{
    if (w->writer == NULL || w->busy) {
        py_error_raise_text(w->busy ? MU_EBUSY : MU_EINVAL,
                            w->busy ? "another thread is writing" : "the writer is closed");
        return -1;
    }
    w->busy = true;
    return 0;
}

static PyObject *writer_add(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct writer *w = (struct writer *)object;
    PyObject *data;
    struct span s;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:add", KEYWORDS("data"), &data) ||
        py_span_get(&s, data, false, "record") < 0) {
        return NULL;
    }
    if (s.bytes == SIZE_MAX) {
        py_span_release(&s);
        PyErr_SetString(PyExc_TypeError, "a record is bytes, or a buffer");
        return NULL;
    }
    if (writer_enter(w) < 0) {
        py_span_release(&s);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    rc = mu_writer_put(w->writer, s.data, s.bytes);
    Py_END_ALLOW_THREADS;
    w->busy = false;
    py_span_release(&s);
    if (rc != MU_OK) {
        return py_error_raise(rc);
    }
    Py_RETURN_NONE;
}

static PyObject *writer_finish(PyObject *object, PyObject *none)
{
    struct writer *w = (struct writer *)object;
    int rc;

    if (writer_enter(w) < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    rc = mu_writer_finish(w->writer);
    Py_END_ALLOW_THREADS;
    w->busy = false;
    if (rc != MU_OK) {
        return py_error_raise(rc);
    }
    Py_RETURN_NONE;
}

static PyObject *writer_close(PyObject *object, PyObject *none)
{
    struct writer *w = (struct writer *)object;

    if (w->writer != NULL) {
        if (writer_enter(w) < 0) {
            return NULL;
        }
        mu_writer_close(w->writer);
        w->writer = NULL;
        w->busy = false;
    }
    Py_RETURN_NONE;
}

/* ---- types ---- */

static PyMethodDef records_methods[] = {
    METHOD_NOARGS("count", records_count, "count() -> int\n\nHow many records there are."),
    METHOD_NOARGS("shards", records_shards,
                  "shards() -> [(name, format, first, records, bytes, skipped), ...]"),
    METHOD_NOARGS("columns", records_columns, "columns() -> [(name, type, detail), ...]"),
    METHOD_NOARGS("scan", records_scan, "scan() -> Scan\n\nFor one thread at a time."),
    {NULL, NULL, 0, NULL},
};

static PyMethodDef scan_methods[] = {
    METHOD("read", scan_read, "read(number) -> bytes or dict\n\nA dict if the format has columns."),
    {NULL, NULL, 0, NULL},
};

static PyMethodDef writer_methods[] = {
    METHOD("add", writer_add, "add(data)\n\nOne more record."),
    METHOD_NOARGS("finish", writer_finish, "finish()\n\nAll of it is on the disk, under its name."),
    METHOD_NOARGS("close", writer_close, "close()\n\nWhat was not finished is gone."),
    {NULL, NULL, 0, NULL},
};

static PyTypeObject *add_type(PyObject *module, const char *name, int bytes, destructor dealloc,
                              PyMethodDef *methods, const char *doc)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)(uintptr_t)dealloc},
        {Py_tp_methods, methods},
        {Py_tp_doc, (void *)(uintptr_t)doc},
        {0, NULL},
    };
    PyType_Spec spec = {.name = name,
                        .basicsize = bytes,
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        .slots = slots};
    PyObject *type = PyType_FromSpec(&spec);

    if (type != NULL && PyModule_AddObjectRef(module, strrchr(name, '.') + 1, type) < 0) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

int py_records_init(PyObject *module)
{
    records_type = add_type(module, "muster._muster.Records", sizeof(struct records),
                            records_dealloc, records_methods, "Records of files, by number.");
    scan_type = add_type(module, "muster._muster.Scan", sizeof(struct scan), scan_dealloc,
                         scan_methods, "One thread's place in records.");
    writer_type = add_type(module, "muster._muster.Writer", sizeof(struct writer), writer_dealloc,
                           writer_methods, "A RecordIO file that is being written.");
    return records_type != NULL && scan_type != NULL && writer_type != NULL ? 0 : -1;
}
