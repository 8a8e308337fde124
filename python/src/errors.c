/* Statuses as exceptions: one class for each kind of failure, beside the built-in one that Python's users expect. */
#include "binding.h"

static PyObject *base;

static struct {
    const char *name;
    PyObject **built_in[2]; /* none: shardtensor.Error alone */
    PyObject *type;
} families[] = {
    {"ArgumentError", {&PyExc_ValueError}, NULL},
    {"ShapeError", {&PyExc_ValueError}, NULL},
    {"DTypeError", {&PyExc_TypeError}, NULL},
    {"DeviceError", {NULL}, NULL},
    {"LayoutError", {&PyExc_ValueError}, NULL},
    {"StateError", {&PyExc_RuntimeError}, NULL},
    {"NotFoundError", {&PyExc_LookupError}, NULL},
    {"UnsupportedError", {&PyExc_NotImplementedError}, NULL},
    {"OutOfRangeError", {&PyExc_IndexError, &PyExc_ValueError}, NULL},
    {"OutOfMemoryError", {&PyExc_MemoryError}, NULL},
    {"CommunicationError", {NULL}, NULL},
    {"FileError", {&PyExc_OSError}, NULL},
    {"VersionError", {NULL}, NULL},
    {"CallbackError", {NULL}, NULL},
    {"InternalError", {NULL}, NULL},
};

enum {
    ARGUMENT,
    SHAPE,
    DTYPE,
    DEVICE,
    LAYOUT,
    STATE,
    NOT_FOUND,
    UNSUPPORTED,
    VALUE,
    MEMORY,
    COMM,
    IO,
    VERSION,
    CALLBACK,
    INTERNAL
};

static const struct {
    const char *name;
    int family;
} statuses[STN_STATUS_COUNT] = {
    [STN_OK] = {"OK", INTERNAL},
    [STN_ERR_ARGUMENT] = {"ARGUMENT", ARGUMENT},
    [STN_ERR_SHAPE] = {"SHAPE", SHAPE},
    [STN_ERR_DTYPE] = {"DTYPE", DTYPE},
    [STN_ERR_DEVICE] = {"DEVICE", DEVICE},
    [STN_ERR_LAYOUT] = {"LAYOUT", LAYOUT},
    [STN_ERR_PARTIAL] = {"PARTIAL", LAYOUT},
    [STN_ERR_STATE] = {"STATE", STATE},
    [STN_ERR_NOT_FOUND] = {"NOT_FOUND", NOT_FOUND},
    [STN_ERR_UNSUPPORTED] = {"UNSUPPORTED", UNSUPPORTED},
    [STN_ERR_VALUE] = {"VALUE", VALUE},
    [STN_ERR_MISMATCH] = {"MISMATCH", COMM},
    [STN_ERR_MEMORY] = {"MEMORY", MEMORY},
    [STN_ERR_COMM] = {"COMM", COMM},
    [STN_ERR_PEER] = {"PEER", COMM},
    [STN_ERR_TIMEOUT] = {"TIMEOUT", COMM},
    [STN_ERR_IO] = {"IO", IO},
    [STN_ERR_VERSION] = {"VERSION", VERSION},
    [STN_ERR_CALLBACK] = {"CALLBACK", CALLBACK},
    [STN_ERR_INTERNAL] = {"INTERNAL", INTERNAL},
};

static PyObject *make_class(const char *name, PyObject *bases)
{
    char full[64];
    PyOS_snprintf(full, sizeof full, "shardtensor.%s", name);
    return PyErr_NewException(full, bases, NULL);
}

int stnp_errors_init(PyObject *module)
{
    base = make_class("Error", PyExc_Exception);
    if (!base || PyModule_AddObjectRef(module, "Error", base) < 0)
        return -1;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        PyObject **const *others = families[i].built_in;
        PyObject *bases = others[1]   ? PyTuple_Pack(3, base, *others[0], *others[1])
                          : others[0] ? PyTuple_Pack(2, base, *others[0])
                                      : PyTuple_Pack(1, base);
        families[i].type = bases ? make_class(families[i].name, bases) : NULL;
        Py_XDECREF(bases);
        if (!families[i].type || PyModule_AddObjectRef(module, families[i].name, families[i].type) < 0)
            return -1;
    }
    return 0;
}

PyObject *stnp_raise(stn_status status, const char *text)
{
    if (status <= STN_OK || status >= STN_STATUS_COUNT)
        status = STN_ERR_INTERNAL;
    PyObject *type = families[statuses[status].family].type;
    PyObject *exception = PyObject_CallFunction(type, "s", text && *text ? text : stn_status_text(status));
    PyObject *name = PyUnicode_FromString(statuses[status].name);
    if (exception && name && PyObject_SetAttrString(exception, "status", name) == 0)
        PyErr_SetObject(type, exception);
    Py_XDECREF(name);
    Py_XDECREF(exception);
    return NULL;
}

int stnp_is_error(PyObject *exception)
{
    return PyObject_IsInstance(exception, base) == 1;
}

stn_status stnp_status_of(PyObject *exception)
{
    PyObject *name = stnp_is_error(exception) ? PyObject_GetAttrString(exception, "status") : NULL;
    stn_status found = STN_ERR_CALLBACK;
    for (int s = STN_OK + 1; name && s < STN_STATUS_COUNT; s++) {
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, statuses[s].name) == 0)
            found = (stn_status)s;
    }
    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}
