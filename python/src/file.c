/* File: a safetensors file as it lies there, without a context. */
#include "binding.h"

PyTypeObject *stnp_file_type;

/** Used by one thread at a time: nothing here gives up the interpreter but the opening, which has no object yet. */
typedef struct stnp_file {
    PyObject_HEAD stn_file *handle;
} stnp_file;

PyObject *stnp_wrap_file(stn_file *handle)
{
    stnp_file *self = PyObject_New(stnp_file, stnp_file_type);
    if (self)
        self->handle = handle;
    else
        stn_file_close(&handle);
    return (PyObject *)self;
}

static void destroy(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    stn_file_close(&((stnp_file *)object)->handle);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *new_file(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", NULL};
    char text[512] = "";
    PyObject *path;
    stn_file *handle = NULL;
    stn_status status;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&:File", names, PyUnicode_FSConverter, &path))
        return NULL;
    const char *words = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS status = stn_file_open(words, &handle, text, sizeof text);
    Py_END_ALLOW_THREADS PyObject *said = PyUnicode_FromFormat("%s: %s", words, text);
    Py_DECREF(path);
    const char *message = said ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
    PyObject *file = status == STN_OK ? stnp_wrap_file(handle) : message ? stnp_raise(status, message) : NULL;
    Py_XDECREF(said);
    return file;
}

static PyObject *get_names(PyObject *object, void *none)
{
    const stn_file *handle = ((stnp_file *)object)->handle;
    (void)none;
    PyObject *tuple = PyTuple_New(stn_file_count(handle));
    for (int i = 0; tuple && i < stn_file_count(handle); i++) {
        PyObject *name = PyUnicode_FromString(stn_file_at(handle, i)->name);
        if (!name || PyTuple_SetItem(tuple, i, name) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/** NULL with a KeyError. */
static const stn_file_tensor *find(PyObject *object, PyObject *name)
{
    const char *text = stnp_want(name, &PyUnicode_Type, "File") < 0 ? NULL : PyUnicode_AsUTF8AndSize(name, NULL);
    const stn_file_tensor *tensor = text ? stn_file_find(((stnp_file *)object)->handle, text) : NULL;
    if (text && !tensor)
        PyErr_SetObject(PyExc_KeyError, name);
    return tensor;
}

static PyObject *get_item(PyObject *object, PyObject *name)
{
    const stn_file_tensor *tensor = find(object, name);
    return tensor ? Py_BuildValue("(sN)",
                                  tensor->dtype < STN_DTYPE_COUNT ? stn_dtype_name(tensor->dtype) : tensor->dtype_name,
                                  stnp_ints(tensor->shape, tensor->ndim))
                  : NULL;
}

static PyObject *read_bytes(PyObject *object, PyObject *name)
{
    const stn_file_tensor *tensor = find(object, name);
    PyObject *bytes = tensor ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)tensor->bytes) : NULL;
    if (!bytes)
        return NULL;
    const stn_status status =
        stn_file_read(((stnp_file *)object)->handle, tensor, 0, tensor->bytes, PyBytes_AsString(bytes));
    if (status == STN_OK)
        return bytes;
    Py_DECREF(bytes);
    return stnp_raise(status, "read: the file cannot be read, or has become shorter");
}

static PyObject *metadata(PyObject *object, PyObject *key)
{
    const char *name = stnp_want(key, &PyUnicode_Type, "metadata") < 0 ? NULL : PyUnicode_AsUTF8AndSize(key, NULL);
    const char *text = name ? stn_file_metadata(((stnp_file *)object)->handle, name) : NULL;
    if (text)
        return PyUnicode_FromString(text);
    if (name)
        PyErr_SetObject(PyExc_KeyError, key);
    return NULL;
}

static Py_ssize_t length(PyObject *object)
{
    return stn_file_count(((stnp_file *)object)->handle);
}

PyTypeObject *stnp_make_file_type(void)
{
    static PyMethodDef methods[] = {
        {"read", read_bytes, METH_O, "read(name): the elements of a tensor as bytes, row-major and little-endian."},
        {"metadata", metadata, METH_O, "metadata(key): a text of the file's; KeyError where there is none."},
        {0},
    };
    static PyGetSetDef members[] = {
        {"names", get_names, NULL, "The names of its tensors, in the order of their bytes.", NULL},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_new, new_file},
        {Py_tp_dealloc, destroy},
        {Py_tp_methods, methods},
        {Py_tp_getset, members},
        {Py_mp_subscript, get_item},
        {Py_mp_length, length},
        {Py_tp_doc,
         "File(path): what a safetensors file says of itself, without a context. file[name] is (dtype, shape). "
         "Local."},
        {0},
    };
    PyType_Spec spec = {"shardtensor._c.File", sizeof(stnp_file), 0, Py_TPFLAGS_DEFAULT, slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}
