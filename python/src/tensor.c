/* Tensor: a handle of a sharded or local tensor. */
#include "binding.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *stnp_tensor_type;

PyObject *stnp_wrap_tensor(stnp_context *context, stn_tensor *handle)
{
    const int is_scopes = context->function_thread != 0 && context->function_thread == PyThread_get_thread_ident();
    PyObject *tensor = stnp_wrap_kept(context, is_scopes ? stn_tensor_retain(handle) : handle);
    if (tensor && is_scopes)
        ((stnp_tensor *)tensor)->function_number = context->function_number;
    return tensor;
}

PyObject *stnp_wrap_kept(stnp_context *context, stn_tensor *handle)
{
    stnp_tensor *self = stnp_owned_new(stnp_tensor_type, context);
    if (!self) {
        stn_tensor_release(&handle);
        return NULL;
    }
    self->handle = handle;
    self->function_number = 0;
    self->placed.any = 0;
    return (PyObject *)self;
}

static void destroy(PyObject *object)
{
    stn_tensor_release(&((stnp_tensor *)object)->handle);
    stnp_owned_free(object);
}

static stn_tensor *handle_of(PyObject *object)
{
    return ((stnp_tensor *)object)->handle;
}

static int enter(stnp_entry *entry, PyObject *object)
{
    return stnp_enter(entry, ((stnp_tensor *)object)->context);
}

/* What a tensor is */

static PyObject *get_dims(PyObject *object, void *which)
{
    static const int64_t *(*const readers[])(const stn_tensor *) = {stn_tensor_shape, stn_tensor_local_shape,
                                                                    stn_tensor_strides};
    return stnp_ints(readers[(uintptr_t)which](handle_of(object)), stn_tensor_ndim(handle_of(object)));
}

static PyObject *get_ndim(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromLong(stn_tensor_ndim(handle_of(object)));
}

static PyObject *get_dtype(PyObject *object, void *none)
{
    (void)none;
    return PyUnicode_FromString(stn_dtype_name(stn_tensor_dtype(handle_of(object))));
}

static PyObject *get_data(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromVoidPtr(stn_tensor_data(handle_of(object)));
}

static PyObject *get_version(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(stn_tensor_version(handle_of(object)));
}

static PyObject *get_context(PyObject *object, void *none)
{
    (void)none;
    PyObject *context = (PyObject *)((stnp_tensor *)object)->context;
    Py_INCREF((PyObject *)context);
    return context;
}

static PyObject *get_spec(PyObject *object, void *none)
{
    (void)none;
    stnp_entry entry;
    if (enter(&entry, object) < 0)
        return NULL;
    const stn_spec *spec = stn_spec_retain(stn_tensor_spec(handle_of(object)));
    stnp_leave(&entry, STN_OK);
    PyObject *result = stnp_wrap_spec(((stnp_tensor *)object)->context, spec);
    if (result)
        ((stnp_spec *)result)->placed = ((stnp_tensor *)object)->placed;
    return result;
}

static PyObject *get_is_in_host_memory(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(stn_tensor_is_in_host_memory(handle_of(object)));
}

static PyObject *get_is_view(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(stn_tensor_is_view(handle_of(object)));
}

static PyObject *get_keeps_routes(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(stn_tensor_keeps_routes(handle_of(object)));
}

static int set_keeps_routes(PyObject *object, PyObject *value, void *none)
{
    (void)none;
    stnp_entry entry;
    int on = value ? PyObject_IsTrue(value) : 0;
    if (on < 0 || enter(&entry, object) < 0)
        return -1;
    return stnp_leave(&entry, stn_tensor_keep_routes(handle_of(object), on));
}

/* Gradients */

static PyObject *get_requires_grad(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(stn_requires_grad(handle_of(object)));
}

static int set_requires_grad(PyObject *object, PyObject *value, void *none)
{
    (void)none;
    stnp_entry entry;
    int on = value ? PyObject_IsTrue(value) : 0;
    if (on < 0 || enter(&entry, object) < 0)
        return -1;
    return stnp_leave(&entry, stn_set_requires_grad(handle_of(object), on));
}

static PyObject *get_is_leaf(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(stn_is_leaf(handle_of(object)));
}

static PyObject *get_grad_fn(PyObject *object, void *none)
{
    (void)none;
    const stn_op *op = stn_grad_fn(handle_of(object));
    if (!op)
        Py_RETURN_NONE;
    return PyUnicode_FromString(stn_op_descriptor(op)->name);
}

static PyObject *get_grad(PyObject *object, void *none)
{
    (void)none;
    stnp_entry entry;
    stn_tensor *grad = NULL;
    if (enter(&entry, object) < 0)
        return NULL;
    stn_status status = stn_grad_of(handle_of(object), &grad);
    if (status == STN_OK && grad)
        stn_tensor_retain(grad);
    if (stnp_leave(&entry, status) < 0)
        return NULL;
    if (!grad)
        Py_RETURN_NONE;
    return stnp_wrap_kept(((stnp_tensor *)object)->context, grad);
}

static PyObject *zero_grad(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (enter(&entry, object) < 0 || stnp_leave(&entry, stn_zero_grad(handle_of(object))) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *changed(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (enter(&entry, object) < 0)
        return NULL;
    stn_tensor_changed(handle_of(object));
    stnp_leave(&entry, STN_OK);
    Py_RETURN_NONE;
}

static PyObject *freeze(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    if (enter(&entry, object) < 0 || stnp_leave(&entry, stn_tensor_freeze(handle_of(object))) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_owns_memory(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(stn_tensor_owns_memory(handle_of(object)));
}

static PyObject *get_is_frozen(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(stn_tensor_is_frozen(handle_of(object)));
}

static PyObject *place_as(PyObject *object, PyObject *spec)
{
    if (stnp_want(spec, stnp_spec_type, "spec") < 0)
        return NULL;
    stnp_place(object, &((stnp_spec *)spec)->placed);
    Py_RETURN_NONE;
}

/* Values */

/** A double does not hold every integer: one that may be rounded is looked at as it is. Collective. */
static PyObject *item_as_it_is(PyObject *object)
{
    PyObject *whole = PyObject_CallMethod(object, "full_tensor", NULL);
    PyObject *bytes = whole ? PyObject_CallMethod(whole, "to_host", NULL) : NULL;
    int64_t value = 0;
    if (bytes)
        memcpy(&value, PyBytes_AsString(bytes), sizeof value);
    Py_XDECREF(whole);
    Py_XDECREF(bytes);
    return bytes ? PyLong_FromLongLong(value) : NULL;
}

static PyObject *item(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    double value = 0;
    if (enter(&entry, object) < 0 || stnp_leave(&entry, stn_item(handle_of(object), &value)) < 0)
        return NULL;
    stn_dtype dtype = stn_tensor_dtype(handle_of(object));
    if (dtype == STN_DTYPE_BOOL)
        return PyBool_FromLong(value != 0);
    if (dtype == STN_DTYPE_I64 && fabs(value) >= 0x1p53)
        return item_as_it_is(object);
    int whole = dtype == STN_DTYPE_I64 || dtype == STN_DTYPE_I32 || dtype == STN_DTYPE_U8 || dtype == STN_DTYPE_I8 ||
                dtype == STN_DTYPE_I16;
    return whole ? PyLong_FromDouble(value) : PyFloat_FromDouble(value);
}

static PyObject *to_host(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    int64_t n = stn_spec_local_numel(stn_tensor_spec(handle_of(object)));
    size_t size = (size_t)n * stn_dtype_size(stn_tensor_dtype(handle_of(object)));
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    char *data = bytes ? PyBytes_AsString(bytes) : NULL;
    if (!data || enter(&entry, object) < 0 || stnp_leave(&entry, stn_to_host(handle_of(object), data, size)) < 0) {
        Py_XDECREF(bytes);
        return NULL;
    }
    return bytes;
}

static PyObject *describe(PyObject *object)
{
    char text[1024];
    stn_tensor_describe(handle_of(object), text, sizeof text);
    return PyUnicode_FromFormat("Tensor(%s)", text);
}

static PyObject *to_text(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_entry entry;
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return PyErr_NoMemory();
    int failed = enter(&entry, object) < 0 || stnp_leave(&entry, stn_tensor_print(handle_of(object), stream)) < 0;
    const int lost = fclose(stream) != 0;
    PyObject *result = failed ? NULL : lost ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(text, (Py_ssize_t)size);
    free(text);
    return result;
}

static PyMethodDef methods[] = {
    {"zero_grad", zero_grad, METH_NOARGS, "Forgets the gradient."},
    {"add_tensor_hook", stnp_tensor_add_tensor_hook, METH_O,
     "add_tensor_hook(function): function(gradient) in each backward that reaches this tensor, before it goes on; what "
     "it returns goes on in its place, unless None. A Hook."},
    {"add_grad_hook", stnp_tensor_add_grad_hook, METH_O,
     "add_grad_hook(function): function(leaf) each time the gradient of this leaf is complete. A Hook."},
    {"retain_grad", stnp_tensor_retain_grad, METH_NOARGS,
     "A result keeps its gradient as a leaf does. Every rank of its mesh says it, or none."},
    {"freeze", freeze, METH_NOARGS,
     "Makes the memory immutable, for ever: nothing writes to it any more. Every rank says it."},
    {"changed", changed, METH_NOARGS, "Says that the elements were changed through their memory, not by an op."},
    {"place_as", place_as, METH_O,
     "place_as(spec): reports of mesh axes of size 1 what spec does. The layout is what it was."},
    {"detach", stnp_tensor_detach, METH_NOARGS, "The same values without history; memory is shared."},
    {"full_tensor", STNP_KEYWORDS(stnp_tensor_full_tensor),
     "full_tensor(grad_placements=None): the whole, as a local tensor on each rank. Collective."},
    {"redistribute", stnp_tensor_redistribute, METH_O,
     "redistribute(placements or spec): the same values in another layout. Collective."},
    {"redistribute_begin", stnp_tensor_redistribute_begin, METH_O,
     "redistribute_begin(spec): the same beside the caller. The result is there at its first use, or after "
     "redistribute_wait(); until then this tensor is not to be changed. Collective."},
    {"redistribute_wait", stnp_tensor_redistribute_wait, METH_NOARGS,
     "Waits for what redistribute_begin gave, once; raises what went wrong."},
    {"halo_pad", STNP_KEYWORDS(stnp_tensor_halo_pad),
     "halo_pad(halo, convention='replicated'): this rank's chunk with margins, a local tensor. halo: {dim: (below, "
     "above, mode)}, mode 'zeros', 'reflect', 'replicate' or 'circular'; {'poles': 'between_rows', 'latitude': 0, "
     "'longitude': 1} beside it. Collective."},
    {"halo_unpad_add", STNP_KEYWORDS(stnp_tensor_halo_unpad_add),
     "halo_unpad_add(spec, halo, convention='replicated'): the adjoint: margins are brought home and added. "
     "Collective."},
    {"to_local", STNP_KEYWORDS(stnp_tensor_to_local),
     "to_local(convention='replicated', grad_placements=None): this rank's chunk as a local tensor; memory is "
     "shared."},
    {"from_local", STNP_KEYWORDS(stnp_tensor_from_local),
     "from_local(spec, convention='replicated', grad_placements=None): this local tensor as the chunk of a sharded "
     "one."},
    {"gather_to", stnp_tensor_gather_to, METH_O, "gather_to(root): the whole on one rank, a local tensor. Collective."},
    {"item", item, METH_NOARGS, "The value of the only element. Collective."},
    {"to_text", to_text, METH_NOARGS,
     "The description and the elements as a text, of many the first and last ones, on the first rank of the mesh; '' "
     "on the others. Collective."},
    {"to_host", to_host, METH_NOARGS, "This rank's chunk as bytes, row-major."},
    {"__dlpack__", STNP_KEYWORDS(stnp_tensor_dlpack), "This rank's chunk, zero copy."},
    {"__dlpack_device__", stnp_tensor_dlpack_device, METH_NOARGS, "(type, index)."},
    {0},
};

PyTypeObject *stnp_make_tensor_type(void)
{
    static PyGetSetDef members[] = {
        {"shape", get_dims, NULL, "Of the whole.", (void *)0},
        {"local_shape", get_dims, NULL, "Of this rank's chunk.", (void *)1},
        {"strides", get_dims, NULL, "Of this rank's chunk, in elements.", (void *)2},
        {"ndim", get_ndim, NULL, "How many dims.", NULL},
        {"dtype", get_dtype, NULL, "\"f32\", ...", NULL},
        {"spec", get_spec, NULL, "The layout.", NULL},
        {"context", get_context, NULL, "Whose it is.", NULL},
        {"data_ptr", get_data, NULL,
         "The address of this rank's chunk, 0 where it is empty. Work on it may still be queued.", NULL},
        {"version", get_version, NULL, "How often its memory was changed in place.", NULL},
        {"is_frozen", get_is_frozen, NULL, "Whether its memory is immutable.", NULL},
        {"is_in_host_memory", get_is_in_host_memory, NULL, "Whether its elements lie in memory of the host.", NULL},
        {"is_view", get_is_view, NULL, "Whether it shows another one's elements, as transpose, view and slices do.",
         NULL},
        {"owns_memory", get_owns_memory, NULL, "Whether this handle alone has the memory of this rank's chunk.", NULL},
        {"keeps_routes", get_keeps_routes, set_keeps_routes,
         "Of an index that is used many times: whether it keeps which rank asks which other one for what. Set alike on "
         "all ranks.",
         NULL},
        {"requires_grad", get_requires_grad, set_requires_grad, "Whether gradients reach it; of a leaf it can be set.",
         NULL},
        {"is_leaf", get_is_leaf, NULL, "Whether no recorded op made it.", NULL},
        {"grad_fn", get_grad_fn, NULL, "The name of the op that made it; None of a leaf.", NULL},
        {"grad", get_grad, NULL, "A leaf's complete gradient; None before the first backward.", NULL},
        {0},
    };
    PyType_Slot head[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_getset, members},
        {Py_tp_methods, methods},
        {Py_tp_repr, describe},
        {Py_tp_doc, "A tensor that is spread over ranks, or local."},
    };
    PyType_Slot slots[64];
    int n = 0;
    for (; n < (int)(sizeof head / sizeof head[0]); n++)
        slots[n] = head[n];
    for (const PyType_Slot *s = stnp_number_slots; s->slot; s++)
        slots[n++] = *s;
    slots[n] = (PyType_Slot){0};
    return stnp_owned_type("shardtensor._c.Tensor", sizeof(stnp_tensor), slots);
}
