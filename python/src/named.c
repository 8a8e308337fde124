/* Tensors by name, out of a dict. */
#include "binding.h"

void stnp_named_fini(stnp_named *named)
{
    PyMem_Free(named->tensors);
    Py_CLEAR(named->items);
    named->tensors = NULL;
}

static int take_item(PyObject *item, const char *what, stn_named_tensor *out)
{
    PyObject *name = PyTuple_GetItem(item, 0), *tensor = PyTuple_GetItem(item, 1);
    if (!name || !tensor || stnp_want(name, &PyUnicode_Type, what) < 0 || stnp_want(tensor, stnp_tensor_type, what) < 0)
        return -1;
    out->name = PyUnicode_AsUTF8AndSize(name, NULL);
    out->tensor = ((stnp_tensor *)tensor)->handle;
    return out->name ? 0 : -1;
}

int stnp_take_named(PyObject *dict, const char *what, stnp_named *out)
{
    *out = (stnp_named){0};
    if (stnp_want(dict, &PyDict_Type, what) < 0)
        return -1;
    out->items = PyDict_Items(dict); /* which keeps names and tensors while other threads change the dict */
    out->n = out->items ? (int)PyList_Size(out->items) : -1;
    out->tensors = out->n >= 0 ? PyMem_Calloc((size_t)out->n + 1, sizeof *out->tensors) : NULL;
    if (out->n >= 0 && !out->tensors)
        PyErr_NoMemory();
    for (int i = 0; out->tensors && i < out->n; i++)
        if (take_item(PyList_GetItem(out->items, i), what, &out->tensors[i]) < 0)
            stnp_named_fini(out);
    if (out->tensors)
        return 0;
    Py_CLEAR(out->items);
    return -1;
}
