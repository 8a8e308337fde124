/* Latitudes of a grid on the sphere, and their weights. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

static PyObject *list_of(const double *values, Py_ssize_t n)
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *value = PyFloat_FromDouble(values[i]);
        if (!value || PyList_SetItem(list, i, value) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *stnp_sht_latitudes(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grid", "nlat", NULL};
    static const char *const grids[] = {"equiangular", "legendre-gauss", "lobatto"};
    const char *name;
    Py_ssize_t nlat;
    int grid = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sn:sht_latitudes", names, &name, &nlat))
        return NULL;
    while (grid < 3 && strcmp(grids[grid], name) != 0)
        grid++;
    if (grid == 3)
        return PyErr_Format(PyExc_ValueError,
                            "sht_latitudes: 'grid' got '%s', wanted equiangular, legendre-gauss or lobatto", name);
    double *angles = nlat > 0 && nlat <= 32768 ? malloc(2 * (size_t)nlat * sizeof *angles) : NULL;
    if (!angles || stn_sht_latitudes((stn_sht_grid)grid, nlat, angles, angles + nlat) != STN_OK) {
        free(angles);
        return PyErr_Format(PyExc_ValueError, "sht_latitudes: 'nlat' got %zd, wanted %d to 32768", nlat,
                            grid == STN_SHT_LEGENDRE_GAUSS ? 1 : 2);
    }
    PyObject *result = Py_BuildValue("NN", list_of(angles, nlat), list_of(angles + nlat, nlat));
    free(angles);
    return result;
}
