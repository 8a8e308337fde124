/* Mesh: a grid of ranks with named axes. */
#include "binding.h"

PyTypeObject *stnp_mesh_type;

enum { MOST_RANKS = 1 << 20 };

PyObject *stnp_wrap_mesh(stnp_context *context, const stn_mesh *handle)
{
    stnp_mesh *self = stnp_owned_new(stnp_mesh_type, context);
    if (!self)
        return NULL;
    self->handle = handle;
    return (PyObject *)self;
}

/** Texts of a sequence of str, borrowed from it. */
static int take_names(PyObject *list, int n, const char **names)
{
    if (PyList_Size(list) != n) {
        PyErr_Format(PyExc_ValueError, "names: %zd of them, wanted %d, one for each axis", PyList_Size(list), n);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        names[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL);
        if (!names[i])
            return -1;
    }
    return 0;
}

/** World ranks in memory of the caller's, who frees it; NULL with an exception. */
static int *take_ranks(PyObject *ranks, int wanted)
{
    int64_t *wide = PyMem_Malloc((size_t)wanted * sizeof *wide);
    int *narrow = PyMem_Malloc((size_t)wanted * sizeof *narrow);
    int n = wide && narrow ? stnp_take_ints(ranks, "ranks", wanted, wide) : -1;
    if (!wide || !narrow)
        PyErr_NoMemory();
    for (int i = 0; i < n; i++)
        narrow[i] = wide[i] == (int)wide[i] ? (int)wide[i] : -1;
    PyMem_Free(wide);
    if (n == wanted)
        return narrow;
    if (n >= 0)
        PyErr_Format(PyExc_ValueError, "ranks: %d of them, wanted %d", n, wanted);
    PyMem_Free(narrow);
    return NULL;
}

PyObject *stnp_context_mesh(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *words[] = {"sizes", "names", "ranks", NULL};
    PyObject *sizes, *names = Py_None, *ranks = Py_None;
    int64_t wide[STN_MAX_MESH_NDIM], total = 1;
    int axes[STN_MAX_MESH_NDIM], *members = NULL;
    const char *texts[STN_MAX_MESH_NDIM];
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OO:mesh", words, &sizes, &names, &ranks))
        return NULL;
    int n = stnp_take_ints(sizes, "sizes", STN_MAX_MESH_NDIM, wide);
    if (n < 0)
        return NULL;
    for (int i = 0; i < n; i++) {
        axes[i] = wide[i] > 0 && wide[i] <= MOST_RANKS ? (int)wide[i] : -1;
        total = axes[i] < 0 || total > MOST_RANKS ? -1 : total * axes[i];
    }
    PyObject *list = names == Py_None ? NULL : PySequence_List(names), *mesh = NULL;
    stnp_entry entry;
    const stn_mesh *handle;
    if ((names == Py_None || (list && take_names(list, n, texts) == 0)) &&
        (ranks == Py_None || total < 0 || (members = take_ranks(ranks, (int)total)) != NULL) &&
        stnp_enter(&entry, (stnp_context *)object) == 0) {
        stn_status status = stn_mesh_create(entry.context->handle, n, axes, list ? texts : NULL, members, &handle);
        mesh = stnp_leave(&entry, status) == 0 ? stnp_wrap_mesh(entry.context, handle) : NULL;
    }
    Py_XDECREF(list);
    PyMem_Free(members);
    return mesh;
}

static PyObject *slice(PyObject *object, PyObject *axes)
{
    const stn_mesh *handle = ((stnp_mesh *)object)->handle, *part;
    int64_t wide[STN_MAX_MESH_NDIM];
    int narrow[STN_MAX_MESH_NDIM], n = stnp_take_ints(axes, "axes", STN_MAX_MESH_NDIM, wide);
    stnp_entry entry;
    for (int i = 0; i < n; i++)
        narrow[i] = wide[i] == (int)wide[i] ? (int)wide[i] : -1;
    if (n < 0 || stnp_enter(&entry, ((stnp_mesh *)object)->context) < 0)
        return NULL;
    return stnp_leave(&entry, stn_mesh_slice(handle, n, narrow, &part)) == 0 ? stnp_wrap_mesh(entry.context, part)
                                                                             : NULL;
}

static PyObject *rank_at(PyObject *object, PyObject *coordinates)
{
    const stn_mesh *handle = ((stnp_mesh *)object)->handle;
    int64_t wide[STN_MAX_MESH_NDIM];
    int narrow[STN_MAX_MESH_NDIM], n = stnp_take_ints(coordinates, "coordinates", STN_MAX_MESH_NDIM, wide);
    for (int i = 0; i < n; i++)
        narrow[i] = wide[i] == (int)wide[i] ? (int)wide[i] : -1;
    if (n < 0)
        return NULL;
    int rank = n == stn_mesh_ndim(handle) ? stn_mesh_rank_at(handle, narrow) : -1;
    return rank >= 0 ? PyLong_FromLong(rank)
                     : PyErr_Format(PyExc_ValueError, "coordinates: %R, which no rank of the mesh has", coordinates);
}

static PyObject *get_shape(PyObject *object, void *which)
{
    const stn_mesh *handle = ((stnp_mesh *)object)->handle;
    int64_t values[STN_MAX_MESH_NDIM];
    int n = stn_mesh_ndim(handle);
    if (which && !stn_mesh_contains_me(handle))
        Py_RETURN_NONE;
    for (int i = 0; i < n; i++)
        values[i] = which ? stn_mesh_coordinate(handle, i) : stn_mesh_axis_size(handle, i);
    return stnp_ints(values, n);
}

static PyObject *get_names(PyObject *object, void *none)
{
    (void)none;
    const stn_mesh *handle = ((stnp_mesh *)object)->handle;
    int n = stn_mesh_ndim(handle);
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++)
        PyTuple_SetItem(tuple, i, PyUnicode_FromString(stn_mesh_axis_name(handle, i)));
    return tuple;
}

static PyObject *get_size(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromLong(stn_mesh_size(((stnp_mesh *)object)->handle));
}

static PyObject *get_context(PyObject *object, void *none)
{
    (void)none;
    PyObject *context = (PyObject *)((stnp_mesh *)object)->context;
    Py_INCREF((PyObject *)context);
    return context;
}

static PyObject *get_random_stream(PyObject *object, void *none)
{
    (void)none;
    stnp_mesh *self = (stnp_mesh *)object;
    stnp_entry entry;
    if (stnp_enter(&entry, self->context) < 0)
        return NULL;
    uint64_t stream = stn_mesh_random_stream(self->handle);
    stnp_leave(&entry, STN_OK);
    return PyLong_FromUnsignedLongLong(stream);
}

static int set_random_stream(PyObject *object, PyObject *value, void *none)
{
    (void)none;
    stnp_mesh *self = (stnp_mesh *)object;
    stnp_entry entry;
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "random_stream: cannot be deleted");
        return -1;
    }
    unsigned long long stream = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred() || stnp_enter(&entry, self->context) < 0)
        return -1;
    stn_mesh_set_random_stream(self->handle, stream);
    return stnp_leave(&entry, STN_OK);
}

/** Meshes are interned: equal ones are one. */
static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    if (!PyObject_TypeCheck(b, stnp_mesh_type) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((stnp_mesh *)a)->handle == ((stnp_mesh *)b)->handle) == (how == Py_EQ));
}

static Py_hash_t hash(PyObject *object)
{
    Py_hash_t value = (Py_hash_t)((uintptr_t)((stnp_mesh *)object)->handle >> 4);
    return value == -1 ? -2 : value;
}

static PyObject *describe(PyObject *object)
{
    PyObject *names = get_names(object, NULL), *shape = get_shape(object, NULL), *text = NULL;
    if (names && shape)
        text = PyUnicode_FromFormat("Mesh(%R, names=%R)", shape, names);
    Py_XDECREF(names);
    Py_XDECREF(shape);
    return text;
}

PyTypeObject *stnp_make_mesh_type(void)
{
    static PyGetSetDef members[] = {
        {"shape", get_shape, NULL, "Ranks along each axis.", NULL},
        {"coordinate", get_shape, NULL, "This rank's; None outside of the mesh.", (void *)1},
        {"names", get_names, NULL, "The axes' names.", NULL},
        {"size", get_size, NULL, "Ranks in all.", NULL},
        {"context", get_context, NULL, "Whose it is.", NULL},
        {"random_stream", get_random_stream, set_random_stream,
         "Which random numbers its next draw takes; every rank of it sets the same.", NULL},
        {0},
    };
    static PyMethodDef methods[] = {
        {"slice", slice, METH_O, "slice(axes): this rank's mesh along some axes, the others held at its coordinates."},
        {"rank_at", rank_at, METH_O, "rank_at(coordinates): a rank of the world."},
        {"spec_of_chunks", STNP_KEYWORDS(stnp_mesh_spec_of_chunks),
         "spec_of_chunks(placements, local_shape, dtype='f32'): the layout of a tensor of which each rank knows its "
         "own chunk. Collective over the mesh."},
        {"spec_from_bytes", stnp_mesh_spec_from_bytes, METH_O,
         "spec_from_bytes(bytes): the layout that Spec.to_bytes wrote, of a mesh whose axes have the same sizes."},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, stnp_owned_free},
        {Py_tp_getset, members},
        {Py_tp_methods, methods},
        {Py_tp_repr, describe},
        {Py_tp_richcompare, compare},
        {Py_tp_hash, hash},
        {Py_tp_doc, "A grid of ranks, made by Context.mesh."},
        {0},
    };
    return stnp_owned_type("shardtensor._c.Mesh", sizeof(stnp_mesh), slots);
}
