/* The short way back: from the cotangent of a call's result to the gradients of its inputs, in one call of torch's
 * engine.
 *
 * A gradient that is the cotangent itself, as both of a sum are, goes on as the very tensor that came: torch sees then
 * that others hold it, and copies it where a leaf is to keep it. */
#include "shortcut.h"

#include <string.h>

/** An application of a node's pullback. All borrowed but the gradients, which are NULL once they were handed on. */
typedef struct application {
    stnp_shortcut *self;
    PyObject *node, *specs, *cotangent;
    stnp_pullback *pullback;
    stn_tensor *given; /* the cotangent's */
    const stnp_placed *given_placed;
    uint32_t needs, plain;
    int keeps; /* whether the pullback keeps tensors */
    stn_tensor *grads[STN_MAX_INPUTS];
} application;

static const stnp_spec *forward_of(const application *a, int i)
{
    return (const stnp_spec *)PyTuple_GetItem(a->specs, i);
}

/** Whether torch adds up what comes for input i, and keeps it. @return -1 with an exception. */
static int is_leaf(const application *a, int i)
{
    PyObject *edges = PyObject_GetAttr(a->node, a->self->names[STNP_NEXT_FUNCTIONS]);
    int at = i; /* of what is absent there is none */
    for (int before = 0; before < i; before++)
        at -= PyTuple_GetItem(a->specs, before) == Py_None;
    PyObject *edge = edges ? PyTuple_GetItem(edges, at) : NULL, *next = edge ? PyTuple_GetItem(edge, 0) : NULL;
    int is = next ? (PyObject *)Py_TYPE(next) == a->self->parts[LEAF_NODE] : -1;
    Py_XDECREF(edges);
    return is;
}

int stnp_short_is_pending(const stn_spec *spec)
{
    const stn_mesh *mesh = stn_spec_mesh(spec);
    for (int axis = 0; mesh && axis < stn_mesh_ndim(mesh); axis++) {
        if (stn_spec_placement(spec, axis).kind == STN_PLACE_PARTIAL)
            return 1;
    }
    return 0;
}

/** Whether it lies as a complete gradient of a tensor of spec `forward`. */
static int is_complete(const stn_tensor *grad, const stn_spec *forward)
{
    return stn_tensor_spec(grad) == forward && !stnp_short_is_pending(forward);
}

/** Whether both are the same elements in the same memory. */
static int is_same(const stn_tensor *a, const stn_tensor *b)
{
    return stn_tensor_spec(a) == stn_tensor_spec(b) && stn_tensor_data(a) && stn_tensor_data(a) == stn_tensor_data(b) &&
           memcmp(stn_tensor_strides(a), stn_tensor_strides(b), (size_t)stn_tensor_ndim(a) * sizeof(int64_t)) == 0;
}

/** What Python makes of a gradient that is zero, that a leaf is to keep and cannot as it is, or that is the cotangent
 * but reports other placements. */
static PyObject *fitted(application *a, int i, int leaf)
{
    stn_tensor *grad = a->grads[i];
    a->grads[i] = NULL;
    PyObject *handle = grad ? stnp_wrap_tensor(a->pullback->context, grad) : Py_None, *result = NULL;
    if (!grad)
        Py_INCREF(handle);
    if (handle)
        result = PyObject_CallFunctionObjArgs(a->self->parts[FIT], handle, PyTuple_GetItem(a->specs, i),
                                              leaf ? Py_True : Py_False, a->cotangent, NULL);
    Py_XDECREF(handle);
    return result;
}

/** Input i's gradient as torch gets it, in whatever layout it has. */
static PyObject *handed_on(application *a, int i, int leaf)
{
    stn_tensor *grad = a->grads[i];
    stnp_placed placed = stnp_placed_gradient(&forward_of(a, i)->placed);
    if (is_same(grad, a->given) && !stnp_placed_equal(&placed, a->given_placed))
        return fitted(a, i, leaf);
    if (is_same(grad, a->given)) {
        Py_INCREF(a->cotangent);
        return a->cotangent;
    }
    a->grads[i] = NULL;
    return stnp_short_wrap(a->self, a->pullback->context, grad, &placed);
}

static PyObject *gradient_of(application *a, int i)
{
    stn_tensor *grad = a->grads[i];
    if (!(a->needs >> i & 1)) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    if (a->plain >> i & 1) {
        a->grads[i] = NULL;
        return stnp_short_whole(a->self, a->pullback->context, grad, PyTuple_GetItem(a->specs, i));
    }
    if (grad && is_complete(grad, forward_of(a, i)->handle) && !stn_tensor_is_view(grad))
        return handed_on(a, i, 0);
    int leaf = is_leaf(a, i);
    if (leaf < 0)
        return NULL;
    return grad && !leaf ? handed_on(a, i, leaf) : fitted(a, i, leaf);
}

/** One for each value that RECORD was given: (None, None, gradients …). */
static PyObject *gradients_of(application *a)
{
    int n = (int)PyTuple_Size(a->specs);
    PyObject *found = PyTuple_New(2 + n);
    for (int i = 0; found && i < 2 + n; i++) {
        PyObject *grad = i < 2 ? Py_None : gradient_of(a, i - 2);
        if (i < 2)
            Py_INCREF(grad);
        if (!grad || PyTuple_SetItem(found, i, grad) < 0)
            Py_CLEAR(found);
    }
    for (int i = 0; i < n; i++)
        stn_tensor_release(&a->grads[i]);
    return found;
}

/** Torch says that a graph was freed where its saved tensors are asked for. */
static PyObject *freed(const application *a)
{
    PyObject *tensors = PyObject_GetAttr(a->node, a->self->names[STNP_SAVED_TENSORS]);
    if (!tensors)
        return NULL;
    Py_DECREF(tensors);
    return stnp_raise(STN_ERR_STATE, "backward: the pullback was given up");
}

/** Gives up a pullback that keeps tensors, unless the graph is retained, as torch does of its own nodes. One that keeps
 * none may be applied again. @return 0, or -1 with an exception. */
static int spend(application *a)
{
    if (!a->keeps)
        return 0;
    PyObject *keeps = PyObject_CallNoArgs(a->self->parts[KEEPS_GRAPH]);
    int retained = keeps ? PyObject_IsTrue(keeps) : -1;
    Py_XDECREF(keeps);
    if (retained == 0)
        stnp_pullback_release(a->pullback);
    return retained < 0 ? -1 : 0;
}

static PyObject *applied(application *a)
{
    stnp_entry entry;
    stn_tensor *kept;
    if (!a->pullback->handle)
        return freed(a);
    if (stnp_enter(&entry, a->pullback->context) < 0)
        return NULL;
    stn_status status = stn_pullback_apply(a->pullback->handle, 1, &a->given, a->needs, a->grads, NULL);
    a->keeps = status == STN_OK && stn_pullback_saved(a->pullback->handle, 0, &kept);
    PyObject *result = stnp_leave(&entry, status) < 0 ? NULL : gradients_of(a);
    if (result && spend(a) < 0)
        Py_CLEAR(result);
    return result;
}

/** Whether there is a cotangent of the first result alone, and it is a ShardTensor. */
static int is_first_alone(const stnp_shortcut *self, PyObject *cotangents)
{
    for (Py_ssize_t i = 1; i < PyTuple_Size(cotangents); i++) {
        if (PyTuple_GetItem(cotangents, i) != Py_None)
            return 0;
    }
    return PyObject_TypeCheck(PyTuple_GetItem(cotangents, 0), (PyTypeObject *)self->parts[SHARD_TENSOR]);
}

/** -1 with an exception; 0: the general way, for several cotangents, one that is plain or zero, where torch records,
 * and where memory of a plain tensor is elsewhere by now. */
static int is_short(stnp_shortcut *self, PyObject *node, PyObject *kept, PyObject *cotangents)
{
    if (!is_first_alone(self, cotangents) ||
        !PyObject_TypeCheck(PyTuple_GetItem(kept, STNP_KEPT_PULLBACK), stnp_pullback_type))
        return 0;
    PyObject *enabled = PyObject_CallNoArgs(self->parts[GRAD_ENABLED]);
    int records = enabled ? PyObject_IsTrue(enabled) : -1;
    Py_XDECREF(enabled);
    const int moved = records ? records : stnp_short_is_moved(self, node, PyTuple_GetItem(kept, STNP_KEPT_ADDRESSES));
    return moved < 0 ? -1 : !moved;
}

static PyObject *general_backward(stnp_shortcut *self, PyObject *node, PyObject *cotangents)
{
    PyObject *one = PyTuple_Pack(1, node), *args = one ? PySequence_Concat(one, cotangents) : NULL;
    PyObject *result = args ? PyObject_CallObject(self->parts[GENERAL_BACKWARD], args) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(one);
    return result;
}

static PyObject *back(PyObject *node, PyObject *kept, PyObject *cotangents)
{
    stnp_shortcut *self = (stnp_shortcut *)PyTuple_GetItem(kept, STNP_KEPT_SHORTCUT);
    PyObject *cotangent = PyTuple_GetItem(cotangents, 0);
    int is = is_short(self, node, kept, cotangents);
    PyObject *handle = is > 0 ? PyObject_GetAttr(cotangent, self->names[STNP_HANDLE]) : NULL, *result = NULL;
    if (is == 0) {
        result = general_backward(self, node, cotangents);
    } else if (handle && stnp_want(handle, stnp_tensor_type, "cotangent") == 0) {
        application a = {.self = self,
                         .node = node,
                         .specs = PyTuple_GetItem(kept, STNP_KEPT_SPECS),
                         .cotangent = cotangent,
                         .pullback = (stnp_pullback *)PyTuple_GetItem(kept, STNP_KEPT_PULLBACK),
                         .given = ((stnp_tensor *)handle)->handle,
                         .given_placed = &((stnp_tensor *)handle)->placed,
                         .needs = (uint32_t)PyLong_AsUnsignedLongMask(PyTuple_GetItem(kept, STNP_KEPT_NEEDS)),
                         .plain = (uint32_t)PyLong_AsUnsignedLongMask(PyTuple_GetItem(kept, STNP_KEPT_PLAIN))};
        result = applied(&a);
    }
    Py_XDECREF(handle);
    return result;
}

/** node.apply(*cotangents), by which torch's engine calls a node. */
static PyObject *apply(PyObject *node, PyObject *args)
{
    PyObject *kept = PyObject_GetAttrString(node, "kept"), *result = NULL;
    if (kept && (!PyTuple_Check(kept) || PyTuple_Size(kept) != STNP_N_KEPT || PyTuple_Size(args) < 1))
        PyErr_SetString(PyExc_TypeError, "apply: wanted cotangents, and a node that its forward has been through");
    else if (kept)
        result = back(node, kept, args);
    Py_XDECREF(kept);
    return result;
}

PyObject *stnp_short_put_backward(PyObject *self, PyObject *type)
{
    static PyMethodDef method = {"apply", apply, METH_VARARGS, "apply(*cotangents): gradients of what it was given."};
    (void)self;
    if (stnp_want(type, &PyType_Type, "nodes") < 0)
        return NULL;
    PyObject *descriptor = PyDescr_NewMethod((PyTypeObject *)type, &method);
    int failed = !descriptor || PyObject_SetAttrString(type, "apply", descriptor) < 0;
    Py_XDECREF(descriptor);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}
