/* Numbers, dtypes and placements, in and out. */
#include "binding.h"

#include <stdio.h>
#include <string.h>

PyObject *stnp_ints(const int64_t *values, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (!value || PyTuple_SetItem(tuple, i, value) < 0) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static int take_int(PyObject *object, int64_t *value)
{
    PyObject *index = PyNumber_Index(object);
    *value = index ? PyLong_AsLongLong(index) : -1;
    Py_XDECREF(index);
    return PyErr_Occurred() ? -1 : 0;
}

int stnp_take_ints(PyObject *object, const char *what, int most, int64_t *values)
{
    if (PyIndex_Check(object))
        return take_int(object, values) < 0 ? -1 : 1;
    PyObject *tuple = PySequence_Tuple(object);
    if (!tuple)
        return -1;
    Py_ssize_t n = PyTuple_Size(tuple);
    int failed = 0;
    if (n > most) {
        PyErr_Format(PyExc_ValueError, "%s: %zd integers, at most %d", what, n, most);
        failed = 1;
    }
    for (Py_ssize_t i = 0; i < n && !failed; i++)
        failed = take_int(PyTuple_GetItem(tuple, i), &values[i]) < 0;
    Py_DECREF(tuple);
    return failed ? -1 : (int)n;
}

int stnp_take_dtype(PyObject *object, stn_dtype *dtype)
{
    const char *name = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;
    for (int d = 0; name && d < STN_DTYPE_COUNT; d++) {
        if (strcmp(name, stn_dtype_name((stn_dtype)d)) == 0) {
            *dtype = (stn_dtype)d;
            return 0;
        }
    }
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "dtype: %R, wanted one of f32 f64 bf16 f16 i64 i32 u8 bool c64 c128 i8 i16",
                     object);
    return -1;
}

static const char *const reductions[STN_REDUCE_OP_COUNT] = {"sum", "avg", "prod", "min", "max"};

/** Reads one placement: "R", "S0", "S(0)", "P", "P(max)". */
static int take_placement(const char *text, stn_placement *placement)
{
    int dim, end = 0;
    if (strcmp(text, "R") == 0) {
        *placement = stn_replicate();
        return 0;
    }
    if ((sscanf(text, "S%d%n", &dim, &end) == 1 || sscanf(text, "S(%d)%n", &dim, &end) == 1) && end > 0 && !text[end]) {
        *placement = stn_shard(dim);
        return 0;
    }
    for (int op = 0; op < STN_REDUCE_OP_COUNT; op++) {
        char form[16];
        snprintf(form, sizeof form, "P(%s)", reductions[op]);
        if (strcmp(text, form) == 0 || (op == STN_SUM && strcmp(text, "P") == 0)) {
            *placement = stn_partial((stn_reduce_op)op);
            return 0;
        }
    }
    return -1;
}

int stnp_take_placements(PyObject *object, const stn_mesh *mesh, stn_placement *placements)
{
    PyObject *parts =
        PyUnicode_Check(object) ? PyObject_CallMethod(object, "split", "s", ",") : PySequence_List(object);
    if (!parts)
        return -1;
    Py_ssize_t n = PyList_Size(parts);
    int failed = n != stn_mesh_ndim(mesh);
    if (failed)
        PyErr_Format(PyExc_ValueError, "placements: %zd of them, wanted one for each of the mesh's %d axes", n,
                     stn_mesh_ndim(mesh));
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        PyObject *part = PyList_GetItem(parts, i);
        PyObject *bare = PyUnicode_Check(part) ? PyObject_CallMethod(part, "strip", NULL) : NULL;
        const char *text = bare ? PyUnicode_AsUTF8AndSize(bare, NULL) : NULL;
        failed = !text || take_placement(text, &placements[i]) < 0;
        if (failed && !PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "placements: %R, wanted R, S and a dim, P or P(op)", part);
        Py_XDECREF(bare);
    }
    Py_DECREF(parts);
    return failed ? -1 : 0;
}

PyObject *stnp_placement_text(stn_placement placement)
{
    if (placement.kind == STN_PLACE_SHARD)
        return PyUnicode_FromFormat("S%d", placement.dim);
    if (placement.kind == STN_PLACE_PARTIAL)
        return PyUnicode_FromFormat("P(%s)", reductions[placement.op]);
    return PyUnicode_FromString("R");
}

int stnp_want(PyObject *object, PyTypeObject *type, const char *what)
{
    if (PyObject_TypeCheck(object, type))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: %R, which is no %R", what, object, type);
    return -1;
}
