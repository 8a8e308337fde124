/* The short way of plain tensors among ShardTensors, parameters of a module above all: they are Replicate, on the very
 * memory that torch has, and get their whole gradient. */
#include "shortcut.h"

/** What a plain tensor shows of its memory. */
typedef struct shown {
    unsigned long long address;
    stn_dtype dtype;
    int ndim;
    int64_t shape[STN_MAX_NDIM];
} shown;

static int is_exactly(const stnp_shortcut *self, PyObject *tensor)
{
    PyObject *type = (PyObject *)Py_TYPE(tensor);
    return type == self->parts[TENSOR] || type == self->parts[PARAMETER];
}

static PyObject *ask(const stnp_shortcut *self, PyObject *tensor, int method)
{
    return PyObject_CallMethodObjArgs(tensor, self->names[method], NULL);
}

/** Whether the elements are not what is in its memory, but to be conjugated or negated. */
static int is_lazy(const stnp_shortcut *self, PyObject *tensor)
{
    PyObject *conjugate = ask(self, tensor, STNP_IS_CONJ), *negative = ask(self, tensor, STNP_IS_NEG);
    const int is = conjugate != Py_False || negative != Py_False;
    Py_XDECREF(conjugate);
    Py_XDECREF(negative);
    return is;
}

static int is_here(const stnp_shortcut *self, const stnp_context *context, PyObject *tensor)
{
    PyObject *words = context->wrapper_keywords[STN_DTYPE_F32];
    PyObject *here = words ? PyDict_GetItemString(words, "device") : NULL;
    PyObject *device = here ? PyObject_GetAttr(tensor, self->names[STNP_DEVICE]) : NULL;
    const int is = device ? PyObject_RichCompareBool(device, here, Py_EQ) : 0;
    Py_XDECREF(device);
    return is == 1;
}

static int is_empty(const shown *found)
{
    for (int d = 0; d < found->ndim; d++) {
        if (found->shape[d] == 0)
            return 1;
    }
    return 0;
}

/** @return 0, or -1, perhaps with an exception: a dtype that the library has not, too many dims, no memory. */
static int look(const stnp_shortcut *self, PyObject *tensor, shown *found)
{
    PyObject *dtype = PyObject_GetAttr(tensor, self->names[STNP_DTYPE]),
             *shape = PyObject_GetAttr(tensor, self->names[STNP_SHAPE]), *address = ask(self, tensor, STNP_DATA_PTR);
    PyObject *name = dtype ? PyDict_GetItemWithError(self->parts[DTYPES], dtype) : NULL;
    int failed = !name || !shape || !address || stnp_take_dtype(name, &found->dtype) < 0;
    if (!failed) {
        found->ndim = stnp_take_ints(shape, "shape", STN_MAX_NDIM, found->shape);
        found->address = PyLong_AsUnsignedLongLong(address);
        failed = found->ndim < 0 || (found->address == 0 && !is_empty(found));
    }
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    Py_XDECREF(address);
    return failed ? -1 : 0;
}

/** The memory, which `owner` keeps, as a Replicate tensor of the mesh. */
static PyObject *replicated(stnp_context *context, const stn_mesh *mesh, const shown *found, PyObject *owner)
{
    PyObject *local =
        stnp_wrap_memory(context, found->dtype, found->ndim, found->shape, NULL, (uintptr_t)found->address, owner);
    stn_placement placements[STN_MAX_MESH_NDIM];
    const stn_spec *spec = NULL;
    stnp_entry entry;
    for (int axis = 0; axis < STN_MAX_MESH_NDIM; axis++)
        placements[axis] = stn_replicate();
    if (!local || stnp_enter(&entry, context) < 0) {
        Py_XDECREF(local);
        return NULL;
    }
    PyObject *whole = NULL;
    const stn_status status =
        stn_spec_create(context->handle, mesh, placements, found->dtype, found->ndim, found->shape, NULL, &spec);
    if (status != STN_OK) {
        stnp_leave(&entry, status);
    } else {
        stn_tensor *handle = stn_from_local(((stnp_tensor *)local)->handle, spec, STN_GRAD_REPLICATED);
        stn_spec_release(&spec);
        whole = stnp_leave_tensor(&entry, handle);
    }
    Py_DECREF(local);
    return whole;
}

/** A handle of a plain tensor. What the library has is detached: an assignment to the tensor's `data` lets go of the
 * memory that it had. NULL, perhaps with an exception: the long way. */
static PyObject *promoted(const stnp_shortcut *self, stnp_context *context, const stn_mesh *mesh, PyObject *tensor)
{
    shown found;
    PyObject *detached = is_exactly(self, tensor) ? ask(self, tensor, STNP_DETACH) : NULL;
    PyObject *dense = detached ? ask(self, detached, STNP_CONTIGUOUS) : NULL, *handle = NULL;
    if (dense && is_exactly(self, dense) && !is_lazy(self, dense) && is_here(self, context, dense) &&
        look(self, dense, &found) == 0)
        handle = replicated(context, mesh, &found, dense);
    Py_XDECREF(dense);
    Py_XDECREF(detached);
    return handle;
}

/** The first handle that there is; NULL. */
static const stnp_tensor *first_of(const stnp_short_call *call)
{
    for (int i = 0; i < call->n_handles; i++) {
        if (call->handles[i])
            return (const stnp_tensor *)call->handles[i];
    }
    return NULL;
}

int stnp_short_takes_plain(const stnp_shortcut *self)
{
    PyObject *takes = PyObject_CallNoArgs(self->parts[TAKES_PLAIN]);
    const int is = takes ? PyObject_IsTrue(takes) : 0;
    Py_XDECREF(takes);
    return is == 1;
}

static int promote(stnp_shortcut *self, PyObject *const *tensors, stnp_short_call *call)
{
    const stnp_tensor *first = first_of(call);
    const stn_mesh *mesh = first ? stn_spec_mesh(stn_tensor_spec(first->handle)) : NULL;
    if (!mesh || !stn_mesh_contains_me(mesh) || !stnp_short_takes_plain(self) ||
        (call->plain & 1 && stn_op_descriptor(call->op->handle)->flags & STN_OP_ALIAS))
        return -1; /* views are of the first input */
    for (int i = 0; i < call->n_handles; i++) {
        if (!(call->plain >> i & 1))
            continue;
        call->handles[i] = promoted(self, first->context, mesh, tensors[i]);
        if (!call->handles[i])
            return -1;
    }
    return 0;
}

int stnp_short_take_operands(stnp_shortcut *self, PyObject *const *tensors, int n, stnp_short_call *call)
{
    call->n_handles = n;
    for (int i = 0; i < n; i++) {
        call->handles[i] = tensors[i] ? (PyObject *)stnp_short_handle(self, tensors[i]) : NULL;
        call->plain |= (uint32_t)(tensors[i] && !call->handles[i]) << i;
    }
    return call->plain ? promote(self, tensors, call) : 0;
}

/* Backward */

PyObject *stnp_short_addresses(stnp_shortcut *self, const stnp_short_call *call, PyObject *saved)
{
    const int n = call->plain ? (int)PyTuple_Size(saved) : 0;
    PyObject *addresses = PyTuple_New(n);
    for (int i = 0; addresses && i < n; i++) {
        PyObject *tensor = PyTuple_GetItem(saved, i), *address = Py_None;
        if (call->plain >> i & 1 && tensor != Py_None)
            address = ask(self, tensor, STNP_DATA_PTR);
        else
            Py_INCREF(address);
        if (!address || PyTuple_SetItem(addresses, i, address) < 0)
            Py_CLEAR(addresses);
    }
    return addresses;
}

int stnp_short_is_moved(stnp_shortcut *self, PyObject *node, PyObject *addresses)
{
    const Py_ssize_t n = PyTuple_Size(addresses);
    PyObject *saved = n > 0 ? PyObject_GetAttr(node, self->names[STNP_SAVED_TENSORS]) : NULL;
    int is = n == 0 ? 0 : saved && PyTuple_Size(saved) == n ? 0 : -1;
    for (Py_ssize_t i = 0; is == 0 && i < n; i++) {
        PyObject *address = PyTuple_GetItem(addresses, i);
        if (address == Py_None)
            continue;
        PyObject *now = ask(self, PyTuple_GetItem(saved, i), STNP_DATA_PTR);
        is = now ? PyObject_RichCompareBool(now, address, Py_NE) : 1;
        Py_XDECREF(now);
        PyErr_Clear(); /* it has no memory now, of which the general way knows more */
    }
    Py_XDECREF(saved);
    return is;
}

PyObject *stnp_short_whole(stnp_shortcut *self, stnp_context *context, stn_tensor *grad, PyObject *spec)
{
    PyObject *handle = grad ? stnp_wrap_tensor(context, grad) : Py_None, *result = NULL;
    if (!grad)
        Py_INCREF(handle);
    PyObject *list = handle ? PyList_New(1) : NULL, *first = list ? PyLong_FromLong(0) : NULL;
    if (first && PyList_SetItem(list, 0, handle) == 0) /* which has the reference: nobody else has the memory */
        result = PyObject_CallFunctionObjArgs(self->parts[WHOLE], list, first, spec, NULL);
    else
        Py_XDECREF(handle);
    Py_XDECREF(first);
    Py_XDECREF(list);
    return result;
}
