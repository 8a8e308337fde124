/* Tensors from numbers and from memory of the host. */
#include "binding.h"

enum { MOST_NUMBERS = 4 };

typedef stn_tensor *plain(stn_context *, const stn_spec *);
typedef stn_tensor *with_one(stn_context *, const stn_spec *, double);
typedef stn_tensor *with_two(stn_context *, const stn_spec *, double, double);
typedef stn_tensor *with_four(stn_context *, const stn_spec *, double, double, double, double);

static stn_tensor *randint(stn_context *context, const stn_spec *spec, double low, double high)
{
    return stn_randint(context, spec, (int64_t)low, (int64_t)high);
}

static stn_tensor *kaiming_uniform(stn_context *context, const stn_spec *spec, double gain, double fan)
{
    return stn_kaiming_uniform(context, spec, gain, (stn_fan)fan);
}

static stn_tensor *kaiming_normal(stn_context *context, const stn_spec *spec, double gain, double fan)
{
    return stn_kaiming_normal(context, spec, gain, (stn_fan)fan);
}

static const struct row {
    const char *name;
    int has_fan; /* the second number is a text */
    plain *none;
    with_one *one;
    with_two *two;
    with_four *four;
} rows[] = {
    {.name = "empty", .none = stn_empty},
    {.name = "zeros", .none = stn_zeros},
    {.name = "ones", .none = stn_ones},
    {.name = "full", .one = stn_full},
    {.name = "eye", .none = stn_eye},
    {.name = "arange", .two = stn_arange},
    {.name = "linspace", .two = stn_linspace},
    {.name = "rand", .none = stn_rand},
    {.name = "randn", .none = stn_randn},
    {.name = "uniform", .two = stn_uniform},
    {.name = "normal", .two = stn_normal},
    {.name = "trunc_normal", .four = stn_trunc_normal},
    {.name = "randint", .two = randint},
    {.name = "xavier_uniform", .one = stn_xavier_uniform},
    {.name = "xavier_normal", .one = stn_xavier_normal},
    {.name = "kaiming_uniform", .two = kaiming_uniform, .has_fan = 1},
    {.name = "kaiming_normal", .two = kaiming_normal, .has_fan = 1},
};

/** NULL with an exception. */
static const struct row *find(const char *name)
{
    enum { N = sizeof rows / sizeof rows[0] };
    const char *names[N];
    for (int i = 0; i < N; i++)
        names[i] = rows[i].name;
    const int row = stnp_take_choice("factory", name, names, N);
    return row < 0 ? NULL : &rows[row];
}

/** As a double, which does not hold every integer. */
static int take_number(const char *name, PyObject *number, double *out)
{
    *out = PyFloat_AsDouble(number);
    PyObject *back = !PyErr_Occurred() && PyLong_Check(number) ? PyLong_FromDouble(*out) : NULL;
    const int is_same = back ? PyObject_RichCompareBool(back, number, Py_EQ) : 1;
    Py_XDECREF(back);
    if (is_same == 0)
        PyErr_Format(PyExc_ValueError, "%s: got %R, which a double does not hold; fill_ takes it", name, number);
    return PyErr_Occurred() ? -1 : 0;
}

/** What stands behind the spec: as many numbers as the factory wants, of which one may be "in" or "out". */
static int take_numbers(const struct row *row, PyObject *args, double numbers[MOST_NUMBERS])
{
    static const char *const fans[] = {"in", "out"}; /* in the order of the enum */
    const Py_ssize_t given = PyTuple_Size(args) - 2;
    const int wanted = row->four ? 4 : row->two ? 2 : row->one ? 1 : 0;
    if (given != wanted) {
        PyErr_Format(PyExc_TypeError, "%s: %zd numbers, wanted %d", row->name, given, wanted);
        return -1;
    }
    for (int i = 0; i < wanted; i++) {
        PyObject *number = PyTuple_GetItem(args, 2 + i);
        if (i == 1 && row->has_fan) {
            const char *fan =
                stnp_want(number, &PyUnicode_Type, "fan") < 0 ? NULL : PyUnicode_AsUTF8AndSize(number, NULL);
            numbers[i] = fan ? stnp_take_choice("fan", fan, fans, 2) : -1;
        } else if (take_number(row->name, number, &numbers[i]) < 0) {
            return -1;
        }
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

PyObject *stnp_context_factory(PyObject *self, PyObject *args)
{
    PyObject *head = PyTuple_GetSlice(args, 0, 2), *spec = NULL;
    const char *name = NULL;
    double n[MOST_NUMBERS];
    stnp_entry entry;
    const int parsed = head && PyArg_ParseTuple(head, "sO:factory", &name, &spec);
    const struct row *row = parsed && stnp_want(spec, stnp_spec_type, "spec") == 0 ? find(name) : NULL;
    Py_XDECREF(head); /* `args` keeps both */
    if (!row || take_numbers(row, args, n) < 0 || stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_context *context = entry.context->handle;
    const stn_spec *layout = ((stnp_spec *)spec)->handle;
    stn_tensor *made = row->four  ? row->four(context, layout, n[0], n[1], n[2], n[3])
                       : row->two ? row->two(context, layout, n[0], n[1])
                       : row->one ? row->one(context, layout, n[0])
                                  : row->none(context, layout);
    return stnp_place(stnp_leave_tensor(&entry, made), &((stnp_spec *)spec)->placed);
}

PyObject *stnp_context_from_host(PyObject *self, PyObject *args)
{
    PyObject *spec, *data, *result = NULL;
    Py_buffer buffer = {.buf = NULL};
    int whole = 0;
    stnp_entry entry;
    if (!PyArg_ParseTuple(args, "OO|p:from_host", &spec, &data, &whole) ||
        stnp_want(spec, stnp_spec_type, "spec") < 0 ||
        (data != Py_None && PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0))
        return NULL;
    const stn_spec *layout = ((stnp_spec *)spec)->handle;
    int64_t numel = whole ? stn_spec_numel(layout) : stn_spec_local_numel(layout);
    int64_t wanted = numel * (int64_t)stn_dtype_size(stn_spec_dtype(layout));
    if (data == Py_None ? !whole && wanted > 0 : buffer.len != wanted)
        PyErr_Format(PyExc_ValueError, "from_host: data has %zd bytes, wanted %lld", buffer.len, (long long)wanted);
    else if (stnp_enter(&entry, (stnp_context *)self) == 0)
        result = stnp_leave_tensor(&entry, whole ? stn_from_host_global(entry.context->handle, layout, buffer.buf)
                                                 : stn_from_host(entry.context->handle, layout, buffer.buf));
    if (data != Py_None)
        PyBuffer_Release(&buffer);
    return stnp_place(result, &((stnp_spec *)spec)->placed);
}

/** An owner of memory that was lent is let go, by whichever thread has used it last. */
static void let_go(void *owner)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)owner);
    PyGILState_Release(state);
}

PyObject *stnp_wrap_memory(stnp_context *context, stn_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *strides, uintptr_t address, PyObject *owner)
{
    stnp_entry entry;
    Py_INCREF(owner); /* until let_go, which may run before this returns */
    if (stnp_enter(&entry, context) < 0) {
        Py_DECREF(owner);
        return NULL;
    }
    stn_tensor *tensor = stn_wrap(context->handle, dtype, ndim, shape, strides, (void *)address, let_go, owner);
    int refused = stn_tensor_is_error(tensor);
    PyObject *result = stnp_leave_tensor(&entry, tensor);
    if (refused)
        Py_DECREF(owner);
    return result;
}

PyObject *stnp_context_wrap(PyObject *self, PyObject *args)
{
    unsigned long long address;
    PyObject *dtype_name, *shape, *strides, *owner;
    int64_t dims[STN_MAX_NDIM], steps[STN_MAX_NDIM];
    stn_dtype dtype;
    if (!PyArg_ParseTuple(args, "KOOOO:wrap", &address, &dtype_name, &shape, &strides, &owner) ||
        stnp_take_dtype(dtype_name, &dtype) < 0)
        return NULL;
    int n = stnp_take_ints(shape, "shape", STN_MAX_NDIM, dims),
        n_strides = stnp_take_ints(strides, "strides", STN_MAX_NDIM, steps);
    if (n < 0 || n_strides < 0)
        return NULL;
    if (n != n_strides)
        return PyErr_Format(PyExc_ValueError, "wrap: %d strides for %d dims", n_strides, n);
    return stnp_wrap_memory((stnp_context *)self, dtype, n, dims, steps, (uintptr_t)address, owner);
}

PyObject *stnp_context_scatter(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"local", "root", "spec", "requires_grad", NULL};
    PyObject *local, *spec;
    int root, requires_grad = 0;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OiO|p:scatter", names, &local, &root, &spec, &requires_grad) ||
        (local != Py_None && stnp_want(local, stnp_tensor_type, "local") < 0) ||
        stnp_want(spec, stnp_spec_type, "spec") < 0 || stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    stn_tensor *handle = local == Py_None ? NULL : ((stnp_tensor *)local)->handle;
    stn_tensor *spread = stn_scatter(entry.context->handle, handle, root, ((stnp_spec *)spec)->handle, requires_grad);
    return stnp_place(stnp_leave_tensor(&entry, spread), &((stnp_spec *)spec)->placed);
}

PyObject *stnp_context_gather_shapes(PyObject *self, PyObject *args)
{
    PyObject *local, *mesh, *texts;
    stn_placement placements[STN_MAX_MESH_NDIM];
    stnp_entry entry;
    if (!PyArg_ParseTuple(args, "OOO:from_local_gather_shapes", &local, &mesh, &texts) ||
        stnp_want(local, stnp_tensor_type, "local") < 0 || stnp_want(mesh, stnp_mesh_type, "mesh") < 0 ||
        stnp_take_placements(texts, ((stnp_mesh *)mesh)->handle, placements) < 0 ||
        stnp_enter(&entry, (stnp_context *)self) < 0)
        return NULL;
    const stn_mesh *grid = ((stnp_mesh *)mesh)->handle;
    stnp_placed placed = stnp_placed_of(grid, placements);
    stn_tensor *chunk = ((stnp_tensor *)local)->handle;
    stn_tensor *whole = stn_from_local_gather_shapes(chunk, grid, placements, STN_GRAD_REPLICATED);
    return stnp_place(stnp_leave_tensor(&entry, whole), &placed);
}
