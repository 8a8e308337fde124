/* Spec: how a tensor lies over a mesh. */
#include "binding.h"

#include <string.h>

PyTypeObject *stnp_spec_type;

PyObject *stnp_wrap_spec(stnp_context *context, const stn_spec *handle)
{
    stnp_spec *self = stnp_owned_new(stnp_spec_type, context);
    if (!self) {
        stn_spec_release(&handle);
        return NULL;
    }
    self->handle = handle;
    self->placed.any = 0;
    return (PyObject *)self;
}

/** With what was placed on axes of size 1. */
static PyObject *wrap_placed(stnp_context *context, const stn_spec *handle, stnp_placed placed)
{
    PyObject *spec = stnp_wrap_spec(context, handle);
    if (spec)
        ((stnp_spec *)spec)->placed = placed;
    return spec;
}

PyObject *stnp_wrap_spec_of(const stnp_tensor *tensor)
{
    return wrap_placed(tensor->context, stn_spec_retain(stn_tensor_spec(tensor->handle)), tensor->placed);
}

static void destroy(PyObject *object)
{
    stn_spec_release(&((stnp_spec *)object)->handle);
    stnp_owned_free(object);
}

/* Explicit cuts: {dim: [elements of each piece]} */

static void free_cuts(int64_t *cuts[STN_MAX_NDIM])
{
    for (int d = 0; d < STN_MAX_NDIM; d++)
        PyMem_Free(cuts[d]);
}

/** How many pieces the axes that shard `dim` cut it into. */
static int pieces(const stn_mesh *mesh, const stn_placement *placements, int dim)
{
    int n = 1;
    for (int axis = 0; axis < stn_mesh_ndim(mesh); axis++) {
        if (placements[axis].kind == STN_PLACE_SHARD && placements[axis].dim == dim)
            n *= stn_mesh_axis_size(mesh, axis);
    }
    return n;
}

static int take_cuts(PyObject *sizes, const stn_mesh *mesh, const stn_placement *placements, int ndim,
                     int64_t *cuts[STN_MAX_NDIM])
{
    PyObject *dim, *list;
    Py_ssize_t at = 0;
    if (!PyDict_Check(sizes)) {
        PyErr_Format(PyExc_TypeError, "sizes: %R, wanted a dict of lists by dim", sizes);
        return -1;
    }
    while (PyDict_Next(sizes, &at, &dim, &list)) {
        long d = PyLong_AsLong(dim);
        if (PyErr_Occurred())
            return -1;
        if (d < 0 || d >= ndim) {
            PyErr_Format(PyExc_ValueError, "sizes: dim %ld of a tensor with %d", d, ndim);
            return -1;
        }
        int wanted = pieces(mesh, placements, (int)d);
        cuts[d] = PyMem_Malloc((size_t)wanted * sizeof(int64_t));
        int n = cuts[d] ? stnp_take_ints(list, "sizes", wanted, cuts[d]) : -1;
        if (!cuts[d])
            PyErr_NoMemory();
        if (n >= 0 && n != wanted)
            PyErr_Format(PyExc_ValueError, "sizes: %d pieces of dim %ld, wanted %d", n, d, wanted);
        if (n != wanted)
            return -1;
    }
    return 0;
}

/** All of n axes or dims in another order, or None. @return 0, or -1 with an exception. */
static int take_order(PyObject *list, const char *what, int n, int *order, const int **out)
{
    int64_t wide[STN_MAX_NDIM];
    if (list == Py_None)
        return 0;
    const int given = stnp_take_ints(list, what, STN_MAX_NDIM, wide);
    if (given >= 0 && given != n)
        PyErr_Format(PyExc_ValueError, "%s: %d entries, wanted %d", what, given, n);
    if (given != n)
        return -1;
    for (int i = 0; i < n; i++)
        order[i] = wide[i] == (int)wide[i] ? (int)wide[i] : -1; /* which the library refuses */
    *out = order;
    return 0;
}

PyObject *stnp_context_spec(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"mesh", "placements", "shape", "dtype", "sizes", "axis_order", "memory_order", NULL};
    PyObject *mesh, *placements, *shape, *dtype_name = NULL, *sizes = Py_None, *result = NULL;
    PyObject *axis_order = Py_None, *memory_order = Py_None;
    int axes[STN_MAX_NDIM], order[STN_MAX_NDIM];
    stn_placement places[STN_MAX_MESH_NDIM];
    stn_dtype dtype = STN_DTYPE_F32;
    int64_t dims[STN_MAX_NDIM], *cuts[STN_MAX_NDIM] = {NULL};
    stn_spec_options options = {.size = sizeof options, .sizes = (const int64_t *const *)cuts};
    stnp_entry entry;
    const stn_spec *handle;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO|OOOO:spec", names, &mesh, &placements, &shape, &dtype_name,
                                     &sizes, &axis_order, &memory_order))
        return NULL;
    if (mesh != Py_None && stnp_want(mesh, stnp_mesh_type, "mesh") < 0)
        return NULL;
    const stn_mesh *grid = mesh == Py_None ? NULL : ((stnp_mesh *)mesh)->handle;
    int ndim = stnp_take_ints(shape, "shape", STN_MAX_NDIM, dims);
    if (ndim < 0 || (dtype_name && stnp_take_dtype(dtype_name, &dtype) < 0) ||
        (grid && stnp_take_placements(placements, grid, places) < 0) ||
        take_order(axis_order, "axis_order", grid ? stn_mesh_ndim(grid) : 0, axes, &options.axis_order) < 0 ||
        take_order(memory_order, "memory_order", ndim, order, &options.memory_order) < 0)
        return NULL;
    if (!grid && placements != Py_None)
        return PyErr_Format(PyExc_ValueError, "placements: %R without a mesh, wanted None", placements);
    if ((sizes == Py_None || !grid || take_cuts(sizes, grid, places, ndim, cuts) == 0) &&
        stnp_enter(&entry, (stnp_context *)object) == 0) {
        stn_status status =
            stn_spec_create(entry.context->handle, grid, grid ? places : NULL, dtype, ndim, dims, &options, &handle);
        stnp_placed placed = stnp_placed_of(grid, places);
        result = stnp_leave(&entry, status) == 0 ? wrap_placed(entry.context, handle, placed) : NULL;
    }
    free_cuts(cuts);
    return result;
}

static PyObject *like(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"placements", "shape", "dtype", NULL};
    PyObject *placements = Py_None, *shape = Py_None, *dtype_name = Py_None;
    stnp_spec *self = (stnp_spec *)object;
    const stn_mesh *mesh = stn_spec_mesh(self->handle);
    stn_placement places[STN_MAX_MESH_NDIM];
    stn_dtype dtype = stn_spec_dtype(self->handle);
    int64_t dims[STN_MAX_NDIM];
    int ndim = stn_spec_ndim(self->handle);
    stnp_placed placed;
    stnp_entry entry;
    const stn_spec *handle;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OOO:like", names, &placements, &shape, &dtype_name))
        return NULL;
    memcpy(dims, stn_spec_shape(self->handle), (size_t)ndim * sizeof *dims);
    for (int axis = 0; mesh && axis < stn_mesh_ndim(mesh); axis++)
        places[axis] = stn_spec_placement(self->handle, axis);
    if ((mesh && placements != Py_None && stnp_take_placements(placements, mesh, places) < 0) ||
        (shape != Py_None && (ndim = stnp_take_ints(shape, "shape", STN_MAX_NDIM, dims)) < 0) ||
        (dtype_name != Py_None && stnp_take_dtype(dtype_name, &dtype) < 0) || stnp_enter(&entry, self->context) < 0)
        return NULL;
    stn_status status = stn_spec_like(self->handle, mesh ? places : NULL, dtype, ndim, dims, &handle);
    placed = placements == Py_None && ndim == stn_spec_ndim(self->handle) ? self->placed : stnp_placed_of(mesh, places);
    return stnp_leave(&entry, status) == 0 ? wrap_placed(self->context, handle, placed) : NULL;
}

static PyObject *gradient(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_spec *self = (stnp_spec *)object;
    stnp_entry entry;
    const stn_spec *handle;
    if (stnp_enter(&entry, self->context) < 0)
        return NULL;
    stn_status status = stn_gradient_spec(self->handle, &handle);
    return stnp_leave(&entry, status) == 0 ? wrap_placed(self->context, handle, stnp_placed_gradient(&self->placed))
                                           : NULL;
}

static PyObject *chunk(PyObject *object, PyObject *rank)
{
    const stn_spec *handle = ((stnp_spec *)object)->handle;
    int64_t shape[STN_MAX_NDIM], offset[STN_MAX_NDIM];
    int n = stn_spec_ndim(handle), of = (int)PyLong_AsLong(rank);
    if (PyErr_Occurred())
        return NULL;
    stn_spec_chunk(handle, of, shape, offset);
    return Py_BuildValue("(NN)", stnp_ints(shape, n), stnp_ints(offset, n));
}

static PyObject *sizes_of(PyObject *object, PyObject *dim)
{
    const stn_spec *handle = ((stnp_spec *)object)->handle;
    int d = (int)PyLong_AsLong(dim);
    if (PyErr_Occurred())
        return NULL;
    int n = stn_spec_sizes(handle, d, NULL);
    int64_t *sizes = PyMem_Malloc((size_t)(n > 0 ? n : 1) * sizeof *sizes);
    if (!sizes)
        return PyErr_NoMemory();
    stn_spec_sizes(handle, d, sizes);
    PyObject *tuple = stnp_ints(sizes, n);
    PyMem_Free(sizes);
    return tuple;
}

static PyObject *to_bytes(PyObject *object, PyObject *none)
{
    (void)none;
    const stn_spec *handle = ((stnp_spec *)object)->handle;
    size_t size = stn_spec_write(handle, NULL, 0);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes)
        stn_spec_write(handle, PyBytes_AsString(bytes), size);
    return bytes;
}

PyObject *stnp_mesh_spec_from_bytes(PyObject *object, PyObject *bytes)
{
    stnp_mesh *mesh = (stnp_mesh *)object;
    char *data;
    Py_ssize_t size;
    stnp_entry entry;
    const stn_spec *handle;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0 || stnp_enter(&entry, mesh->context) < 0)
        return NULL;
    stn_status status = stn_spec_read(mesh->handle, data, (size_t)size, &handle);
    return stnp_leave(&entry, status) == 0 ? stnp_wrap_spec(mesh->context, handle) : NULL;
}

PyObject *stnp_mesh_spec_of_chunks(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"placements", "local_shape", "dtype", NULL};
    PyObject *placements, *shape, *dtype_name = NULL;
    stnp_mesh *mesh = (stnp_mesh *)object;
    stn_placement places[STN_MAX_MESH_NDIM];
    stn_dtype dtype = STN_DTYPE_F32;
    int64_t dims[STN_MAX_NDIM];
    stnp_entry entry;
    const stn_spec *handle;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O:spec_of_chunks", names, &placements, &shape, &dtype_name))
        return NULL;
    const int ndim = stnp_take_ints(shape, "local_shape", STN_MAX_NDIM, dims);
    if (ndim < 0 || (dtype_name && stnp_take_dtype(dtype_name, &dtype) < 0) ||
        stnp_take_placements(placements, mesh->handle, places) < 0 || stnp_enter(&entry, mesh->context) < 0)
        return NULL;
    const stn_status status = stn_spec_of_chunks(mesh->handle, places, dtype, ndim, dims, &handle);
    const stnp_placed placed = stnp_placed_of(mesh->handle, places);
    return stnp_leave(&entry, status) == 0 ? wrap_placed(mesh->context, handle, placed) : NULL;
}

static PyObject *get_dims(PyObject *object, void *which)
{
    const stn_spec *handle = ((stnp_spec *)object)->handle;
    static const int64_t *(*const readers[])(const stn_spec *) = {stn_spec_shape, stn_spec_local_shape,
                                                                  stn_spec_local_offset};
    return stnp_ints(readers[(uintptr_t)which](handle), stn_spec_ndim(handle));
}

static PyObject *get_dtype(PyObject *object, void *none)
{
    (void)none;
    return PyUnicode_FromString(stn_dtype_name(stn_spec_dtype(((stnp_spec *)object)->handle)));
}

static PyObject *get_mesh(PyObject *object, void *none)
{
    (void)none;
    stnp_spec *self = (stnp_spec *)object;
    const stn_mesh *mesh = stn_spec_mesh(self->handle);
    if (!mesh)
        Py_RETURN_NONE;
    return stnp_wrap_mesh(self->context, mesh);
}

static PyObject *get_placements(PyObject *object, void *none)
{
    (void)none;
    const stnp_spec *self = (const stnp_spec *)object;
    const stn_mesh *mesh = stn_spec_mesh(self->handle);
    int n = mesh ? stn_mesh_ndim(mesh) : 0;
    PyObject *tuple = PyTuple_New(n);
    for (int axis = 0; tuple && axis < n; axis++)
        PyTuple_SetItem(tuple, axis, stnp_placement_text(stnp_placed_at(&self->placed, self->handle, axis)));
    return tuple;
}

static PyObject *get_memory_order(PyObject *object, void *none)
{
    (void)none;
    const stn_spec *handle = ((stnp_spec *)object)->handle;
    const uint8_t *order = stn_spec_memory_order(handle);
    PyObject *tuple = PyTuple_New(stn_spec_ndim(handle));
    for (int d = 0; tuple && d < stn_spec_ndim(handle); d++)
        PyTuple_SetItem(tuple, d, PyLong_FromLong(order[d]));
    return tuple;
}

static PyObject *get_axis_order(PyObject *object, void *none)
{
    (void)none;
    const stn_spec *handle = ((stnp_spec *)object)->handle;
    const stn_mesh *mesh = stn_spec_mesh(handle);
    const uint8_t *order = stn_spec_axis_order(handle);
    const int n = mesh ? stn_mesh_ndim(mesh) : 0;
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++)
        PyTuple_SetItem(tuple, i, PyLong_FromLong(order[i]));
    return tuple;
}

static PyObject *get_numel(PyObject *object, void *local)
{
    const stn_spec *handle = ((stnp_spec *)object)->handle;
    return PyLong_FromLongLong(local ? stn_spec_local_numel(handle) : stn_spec_numel(handle));
}

static PyObject *describe(PyObject *object)
{
    char text[1024];
    stn_spec_describe(((stnp_spec *)object)->handle, text, sizeof text);
    return PyUnicode_FromFormat("Spec(%s)", text);
}

static PyObject *draw(PyObject *object, PyObject *none)
{
    (void)none;
    const stn_spec *handle = ((stnp_spec *)object)->handle;
    const size_t n = stn_spec_draw(handle, NULL, 0);
    char *text = PyMem_Malloc(n + 1);
    if (!text)
        return PyErr_NoMemory();
    stn_spec_draw(handle, text, n + 1);
    PyObject *drawn = PyUnicode_FromStringAndSize(text, (Py_ssize_t)n);
    PyMem_Free(text);
    return drawn;
}

/** Many chunks make an image that no browser shows in time: notebooks have the words then. */
static PyObject *draw_for_notebook(PyObject *object, PyObject *none)
{
    enum { MOST = 1 << 20 }; /* bytes, of some 5000 chunks */
    if (stn_spec_draw(((stnp_spec *)object)->handle, NULL, 0) <= MOST)
        return draw(object, none);
    Py_RETURN_NONE;
}

/** Specs are interned: equal ones are one. What was placed on axes of size 1 makes no difference. */
static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    if (!PyObject_TypeCheck(b, stnp_spec_type) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((stnp_spec *)a)->handle == ((stnp_spec *)b)->handle) == (how == Py_EQ));
}

static Py_hash_t hash(PyObject *object)
{
    Py_hash_t value = (Py_hash_t)((uintptr_t)((stnp_spec *)object)->handle >> 4);
    return value == -1 ? -2 : value;
}

PyTypeObject *stnp_make_spec_type(void)
{
    static PyGetSetDef members[] = {
        {"shape", get_dims, NULL, "Of the whole.", (void *)0},
        {"local_shape", get_dims, NULL, "Of this rank's chunk.", (void *)1},
        {"local_offset", get_dims, NULL, "Where this rank's chunk begins in the whole.", (void *)2},
        {"dtype", get_dtype, NULL, "\"f32\", ...", NULL},
        {"memory_order", get_memory_order, NULL, "Dims, the slowest first.", NULL},
        {"axis_order", get_axis_order, NULL, "Mesh axes, the one first that divides a dim first.", NULL},
        {"mesh", get_mesh, NULL, "None: a local tensor's.", NULL},
        {"placements", get_placements, NULL, "A text for each axis of the mesh: \"R\", \"S0\", \"P(sum)\".", NULL},
        {"numel", get_numel, NULL, "Elements of the whole.", NULL},
        {"local_numel", get_numel, NULL, "Elements of this rank's chunk.", (void *)1},
        {0},
    };
    static PyMethodDef methods[] = {
        {"like", STNP_KEYWORDS(like),
         "like(placements=None, shape=None, dtype=None): the layout that stays as near to this one as it can."},
        {"gradient", gradient, METH_NOARGS, "The layout of a complete gradient."},
        {"chunk", chunk, METH_O, "chunk(rank): (shape, offset) of another rank's chunk."},
        {"sizes", sizes_of, METH_O, "sizes(dim): elements of each of its pieces."},
        {"draw", draw, METH_NOARGS, "Which rank holds what, as an SVG document."},
        {"_repr_svg_", draw_for_notebook, METH_NOARGS,
         "The same, by which notebooks show a layout; None where it takes more than 1 MiB."},
        {"to_bytes", to_bytes, METH_NOARGS,
         "The layout as bytes, which know no rank and no mesh: Mesh.spec_from_bytes reads them, in any process."},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_getset, members},
        {Py_tp_methods, methods},
        {Py_tp_repr, describe},
        {Py_tp_richcompare, compare},
        {Py_tp_hash, hash},
        {Py_tp_doc, "A layout, made by Context.spec."},
        {0},
    };
    return stnp_owned_type("shardtensor._c.Spec", sizeof(stnp_spec), slots);
}
