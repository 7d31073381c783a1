/* The job's settings. */
#include "module.h"

static PyObject *setting_tuple(const mu_setting *s)
{
    if (s->value == NULL) {
        return Py_BuildValue("(sOK)", s->key, Py_None, (unsigned long long)s->version);
    }
    return Py_BuildValue("(sy#K)", s->key, s->value, (Py_ssize_t)s->value_n,
                         (unsigned long long)s->version);
}

static PyObject *settings_tuple(mu_settings *settings)
{
    PyObject *list = PyList_New((Py_ssize_t)settings->n);

    for (size_t i = 0; list != NULL && i < settings->n; i++) {
        PyObject *one = setting_tuple(&settings->items[i]);

        if (one == NULL || PyList_SetItem(list, (Py_ssize_t)i, one) < 0) {
            Py_CLEAR(list);
        }
    }
    if (list != NULL) {
        list = Py_BuildValue("(KN)", (unsigned long long)settings->version, list);
    }
    mu_settings_free(settings);
    return list;
}

static PyObject *config_get(PyObject *object, PyObject *args, PyObject *kwargs)
{
    long long timeout_ms = MU_FOREVER;
    mu_setting setting;
    struct waiting w;
    PyObject *tuple;
    const char *key;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|L:config_get", KEYWORDS("key", "timeout_ms"),
                                     &key, &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_config_get(w.mu, key, timeout_ms, &setting)) < 0) {
        return NULL;
    }
    tuple = setting_tuple(&setting);
    mu_setting_free(&setting);
    return tuple;
}

static PyObject *config_list(PyObject *object, PyObject *args, PyObject *kwargs)
{
    long long timeout_ms = MU_FOREVER;
    const char *prefix = "";
    mu_settings settings;
    struct waiting w;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|sL:config_list",
                                     KEYWORDS("prefix", "timeout_ms"), &prefix, &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_config_list(w.mu, prefix, timeout_ms, &settings)) < 0) {
        return NULL;
    }
    return settings_tuple(&settings);
}

static PyObject *config_put(PyObject *object, PyObject *args, PyObject *kwargs)
{
    unsigned long long expect = MU_ANY;
    long long timeout_ms = MU_FOREVER;
    uint64_t version = 0;
    struct waiting w;
    const char *key;
    PyObject *value;
    struct span s;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|KL:config_put",
                                     KEYWORDS("key", "value", "expect", "timeout_ms"), &key, &value,
                                     &expect, &timeout_ms) ||
        py_span_get(&s, value, false, "value") < 0) {
        return NULL;
    }
    if (py_wait_begin(&w, (struct run *)object) < 0) {
        py_span_release(&s);
        return NULL;
    }
    rc = mu_config_put(w.mu, key, s.data, s.bytes, expect, timeout_ms, &version);
    rc = py_wait_end(&w, rc);
    py_span_release(&s);
    return rc < 0 ? NULL : PyLong_FromUnsignedLongLong(version);
}

static PyObject *config_remove(PyObject *object, PyObject *args, PyObject *kwargs)
{
    unsigned long long expect = MU_ANY;
    long long timeout_ms = MU_FOREVER;
    struct waiting w;
    const char *key;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|KL:config_remove",
                                     KEYWORDS("key", "expect", "timeout_ms"), &key, &expect,
                                     &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_config_remove(w.mu, key, expect, timeout_ms)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *config_watch(PyObject *object, PyObject *args, PyObject *kwargs)
{
    long long timeout_ms = MU_FOREVER;
    unsigned long long after;
    mu_settings settings;
    struct waiting w;
    const char *key;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sK|L:config_watch",
                                     KEYWORDS("key", "after", "timeout_ms"), &key, &after,
                                     &timeout_ms) ||
        py_wait_begin(&w, (struct run *)object) < 0 ||
        py_wait_end(&w, mu_config_watch(w.mu, key, after, timeout_ms, &settings)) < 0) {
        return NULL;
    }
    return settings_tuple(&settings);
}

PyMethodDef py_config_methods[] = {
    METHOD("config_get", config_get,
           "config_get(key, timeout_ms=-1) -> (key, value, version)\n\nA setting of the job."),
    METHOD("config_list", config_list,
           "config_list(prefix=\"\", timeout_ms=-1) -> (version, [(key, value, version), ...])"),
    METHOD("config_put", config_put,
           "config_put(key, value, expect=ANY, timeout_ms=-1) -> version\n\nSets a key if its "
           "version is the expected one; 0: if it does not exist."),
    METHOD("config_remove", config_remove,
           "config_remove(key, expect=ANY, timeout_ms=-1)\n\nThe same way."),
    METHOD("config_watch", config_watch,
           "config_watch(key, after, timeout_ms=-1) -> (version, [(key, value or None, version), "
           "...])\n\nWaits until something has changed after that version."),
    {NULL, NULL, 0, NULL},
};
