/* Files of named tensors. */
#include "binding.h"

int stnp_take_texts(PyObject *dict, PyObject **items, stn_metadata **texts, int *n)
{
    *items = NULL;
    *texts = NULL;
    *n = 0;
    if (dict == Py_None)
        return 0;
    if (stnp_want(dict, &PyDict_Type, "metadata") < 0 || !(*items = PyDict_Items(dict)))
        return -1;
    *n = (int)PyList_Size(*items);
    *texts = PyMem_Calloc((size_t)*n + 1, sizeof **texts);
    if (!*texts)
        PyErr_NoMemory();
    for (int i = 0; *texts && i < *n; i++) {
        PyObject *item = PyList_GetItem(*items, i);
        PyObject *key = PyTuple_GetItem(item, 0), *value = PyTuple_GetItem(item, 1);
        if (stnp_want(key, &PyUnicode_Type, "metadata") < 0 || stnp_want(value, &PyUnicode_Type, "metadata") < 0)
            return -1;
        (*texts)[i].key = PyUnicode_AsUTF8AndSize(key, NULL);
        (*texts)[i].value = PyUnicode_AsUTF8AndSize(value, NULL);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int save(stnp_context *context, const char *path, PyObject *tensors, PyObject *metadata)
{
    stnp_entry entry;
    stnp_named named;
    stn_metadata *texts;
    PyObject *items;
    int n, failed = 1;
    if (stnp_take_named(tensors, "tensors", &named) < 0)
        return -1;
    if (stnp_take_texts(metadata, &items, &texts, &n) == 0 && stnp_enter(&entry, context) == 0)
        failed = stnp_leave(&entry, stn_save(entry.context->handle, path, named.n, named.tensors, n, texts)) < 0;
    PyMem_Free(texts);
    Py_XDECREF(items);
    stnp_named_fini(&named);
    return failed ? -1 : 0;
}

PyObject *stnp_context_save(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", "tensors", "metadata", NULL};
    PyObject *path, *tensors, *metadata = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&O|O:save", names, PyUnicode_FSConverter, &path, &tensors,
                                     &metadata))
        return NULL;
    int failed = save((stnp_context *)self, PyBytes_AsString(path), tensors, metadata) < 0;
    Py_DECREF(path);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *stnp_context_load(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", "tensors", NULL};
    PyObject *path, *tensors;
    stnp_entry entry;
    stnp_named named;
    int failed = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&O:load", names, PyUnicode_FSConverter, &path, &tensors))
        return NULL;
    if (stnp_take_named(tensors, "tensors", &named) == 0) {
        if (stnp_enter(&entry, (stnp_context *)self) == 0)
            failed =
                stnp_leave(&entry, stn_load(entry.context->handle, PyBytes_AsString(path), named.n, named.tensors)) < 0;
        stnp_named_fini(&named);
    }
    Py_DECREF(path);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}
