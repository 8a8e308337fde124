/* What is done to the gradients of a list of parameters between backward and an optimizer's step. */
#include "binding.h"

#include <string.h>

/** Parameters of one such call, and the way in. */
struct call {
    stnp_entry entry;
    PyObject *tuple;
    stn_tensor **handles;
    int n;
};

static int begin(struct call *call, PyObject *context, PyObject *parameters)
{
    call->tuple = NULL;
    call->handles = stnp_take_tensors(parameters, "parameters", &call->n, &call->tuple);
    if (call->handles && stnp_enter(&call->entry, (stnp_context *)context) == 0)
        return 0;
    PyMem_Free(call->handles);
    Py_XDECREF(call->tuple);
    return -1;
}

static int end(struct call *call, stn_status status)
{
    const int result = stnp_leave(&call->entry, status);
    PyMem_Free(call->handles);
    Py_XDECREF(call->tuple);
    return result;
}

PyObject *stnp_context_clip_grad_norm(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"parameters", "most", NULL};
    PyObject *parameters;
    double most, norm = 0;
    struct call c;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Od:clip_grad_norm", names, &parameters, &most) ||
        begin(&c, self, parameters) < 0 ||
        end(&c, stn_clip_grad_norm(c.entry.context->handle, c.n, c.handles, most, &norm)) < 0)
        return NULL;
    return PyFloat_FromDouble(norm);
}

PyObject *stnp_context_grad_unscale(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"parameters", "scale", NULL};
    PyObject *parameters;
    double scale;
    int finite = 0;
    struct call c;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Od:grad_unscale", names, &parameters, &scale) ||
        begin(&c, self, parameters) < 0 ||
        end(&c, stn_grad_unscale(c.entry.context->handle, c.n, c.handles, scale, &finite)) < 0)
        return NULL;
    return PyBool_FromLong(finite);
}

PyObject *stnp_context_grad_sync(PyObject *self, PyObject *parameters)
{
    struct call c;
    if (begin(&c, self, parameters) < 0 || end(&c, stn_grad_sync(c.entry.context->handle, c.n, c.handles)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/** An axis by its name or its number. */
static int take_axis(PyObject *object, const stn_mesh *mesh, int *axis)
{
    int64_t number;
    const char *name = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;
    if (name) {
        *axis = stn_mesh_axis(mesh, name);
        if (*axis >= 0)
            return 0;
        PyErr_Format(PyExc_ValueError, "axis: the mesh has none called '%s'", name);
        return -1;
    }
    if (PyErr_Occurred() || stnp_take_ints(object, "axis", 1, &number) != 1)
        return -1;
    *axis = number >= 0 && number < stn_mesh_ndim(mesh) ? (int)number : -1; /* which the library refuses */
    return 0;
}

PyObject *stnp_context_grad_all_reduce(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"parameters", "mesh", "axis", "op", NULL};
    PyObject *parameters, *mesh, *along;
    const char *op = "avg";
    int axis;
    struct call c;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!O|s:grad_all_reduce", names, &parameters, stnp_mesh_type,
                                     &mesh, &along, &op) ||
        take_axis(along, ((stnp_mesh *)mesh)->handle, &axis) < 0)
        return NULL;
    const int is_mean = strcmp(op, "avg") == 0;
    if (!is_mean && strcmp(op, "sum") != 0)
        return PyErr_Format(PyExc_ValueError, "grad_all_reduce: 'op' got '%s', wanted avg or sum", op);
    if (begin(&c, self, parameters) < 0 || end(&c, stn_grad_all_reduce(c.n, c.handles, ((stnp_mesh *)mesh)->handle,
                                                                       axis, is_mean ? STN_AVG : STN_SUM)) < 0)
        return NULL;
    Py_RETURN_NONE;
}
