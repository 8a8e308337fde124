/* The short way: calls that torch's graph records, and the forward of their node. */
#include "shortcut.h"

/* Torch's graph */

static int truth(PyObject *value)
{
    int is = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is;
}

/** Whether torch's graph gets a node. A tensor's own flag would ask the class, which is where we come from. */
int stnp_short_is_recorded(stnp_shortcut *self, PyObject *const *tensors, int n)
{
    int is = truth(PyObject_CallNoArgs(self->parts[GRAD_ENABLED]));
    if (is <= 0)
        return is;
    is = 0;
    PyObject *none = PyTuple_New(0);
    for (int i = 0; none && is == 0 && i < n; i++) {
        if (!tensors[i])
            continue;
        PyObject *one = PyTuple_Pack(1, tensors[i]);
        is = one ? truth(PyObject_CallFunctionObjArgs(self->parts[UNDISTURBED], self->parts[REQUIRES_GRAD], none, one,
                                                      NULL))
                 : -1;
        Py_XDECREF(one);
    }
    Py_XDECREF(none);
    return is;
}

static PyObject *or_none(PyObject *object)
{
    object = object ? object : Py_None;
    Py_INCREF(object);
    return object;
}

/** (op, handles), which the forward of the node gets as one. */
static PyObject *op_and_handles(const stnp_short_call *call)
{
    PyObject *handles = stnp_short_tuple(call->handles, call->n_handles);
    PyObject *both = handles ? PyTuple_Pack(2, (PyObject *)call->op, handles) : NULL;
    Py_XDECREF(handles);
    return both;
}

PyObject *stnp_short_record(stnp_shortcut *self, const stnp_short_call *call)
{
    PyObject *hooks = PyObject_CallFunction(self->parts[SAVING_HOOKS], "O", Py_False);
    int hooked = hooks != Py_None;
    Py_XDECREF(hooks);
    PyObject *args = hooked ? NULL : PyTuple_New(2 + call->bound.n_inputs);
    PyObject *attrs = args ? stnp_short_attrs(self, &call->bound) : NULL, *result = NULL;
    PyObject *both = attrs ? op_and_handles(call) : NULL;
    if (both) {
        PyTuple_SetItem(args, 0, both);
        PyTuple_SetItem(args, 1, attrs);
        for (int i = 0; i < call->bound.n_inputs; i++)
            PyTuple_SetItem(args, 2 + i, or_none(call->bound.inputs[i]));
        result = PyObject_Call(self->parts[RECORD], args, NULL);
    } else {
        Py_XDECREF(attrs);
    }
    Py_XDECREF(args);
    return result;
}

/* The node's forward */

/** Bit i: value i needs a gradient. @return -1 with an exception. */
static int64_t needs_of(stnp_shortcut *self, PyObject *node)
{
    PyObject *needed = PyObject_GetAttr(node, self->names[STNP_NEEDS_INPUT_GRAD]);
    Py_ssize_t n = needed && PyTuple_Check(needed) ? PyTuple_Size(needed) : -1;
    int64_t bits = needed ? 0 : -1;
    for (Py_ssize_t i = 2; i < n && i - 2 < STN_MAX_INPUTS; i++)
        bits |= (int64_t)(PyTuple_GetItem(needed, i) == Py_True) << (i - 2);
    Py_XDECREF(needed);
    return bits;
}

/** The layouts of the inputs. */
static PyObject *specs_of(const stnp_short_call *call)
{
    PyObject *specs = PyTuple_New(call->n_handles);
    for (int i = 0; specs && i < call->n_handles; i++) {
        const stnp_tensor *handle = (const stnp_tensor *)call->handles[i];
        PyObject *spec = handle ? stnp_wrap_spec_of(handle) : or_none(NULL);
        if (!spec || PyTuple_SetItem(specs, i, spec) < 0)
            Py_CLEAR(specs);
    }
    return specs;
}

/** node.kept, whose entries shortcut.h names; the tensors by torch's own means, which lets go of them after a backward
 * that does not retain the graph. */
static int keep(stnp_shortcut *self, PyObject *node, const stnp_short_call *call, PyObject *attrs, PyObject *pullback,
                int64_t bits, int saves, PyObject *tensors)
{
    PyObject *specs = specs_of(call), *kept = NULL;
    PyObject *addresses = specs && pullback && tensors ? stnp_short_addresses(self, call, tensors) : NULL;
    if (addresses)
        kept = Py_BuildValue("(OOOOLOiIO)", (PyObject *)call->op, attrs, specs, pullback, (long long)bits,
                             (PyObject *)self, saves, (unsigned int)call->plain, addresses);
    int failed = !kept || PyObject_SetAttr(node, self->names[STNP_KEPT], kept) < 0 ||
                 PyObject_SetAttr(node, self->names[STNP_TO_SAVE], tensors) < 0 ||
                 PyObject_SetAttr(node, self->names[STNP_MATERIALIZE_GRADS], Py_False) < 0;
    Py_XDECREF(kept);
    Py_XDECREF(addresses);
    Py_XDECREF(specs);
    return failed ? -1 : 0;
}

/** Those results that have no gradients, a tuple. */
static PyObject *rigid_of(PyObject *result, uint32_t rigid)
{
    if (!PyList_Check(result))
        return PyTuple_Pack(1, result);
    PyObject *found = PyList_New(0), *all;
    for (Py_ssize_t i = 0; found && i < PyList_Size(result); i++) {
        if (rigid >> i & 1 && PyList_Append(found, PyList_GetItem(result, i)) < 0)
            Py_CLEAR(found);
    }
    all = found ? PyList_AsTuple(found) : NULL;
    Py_XDECREF(found);
    return all;
}

/** Torch is told which results have no gradients. */
static int mark(PyObject *node, PyObject *result, uint32_t rigid)
{
    if (!rigid)
        return 0;
    PyObject *method = PyObject_GetAttrString(node, "mark_non_differentiable");
    PyObject *all = rigid_of(result, rigid);
    PyObject *done = method && all ? PyObject_CallObject(method, all) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(all);
    Py_XDECREF(method);
    return done ? 0 : -1;
}

static int is_real(stn_dtype dtype)
{
    return dtype == STN_DTYPE_F16 || dtype == STN_DTYPE_BF16 || dtype == STN_DTYPE_F32 || dtype == STN_DTYPE_F64;
}

static int64_t numbers_of(const stn_tensor *tensor)
{
    int64_t n = 1;
    for (int d = 0; d < stn_tensor_ndim(tensor); d++)
        n *= stn_tensor_shape(tensor)[d];
    return n;
}

/** What torch is to save of a call: told by metadata, so that ranks agree. As saves in _results.py. */
static int what_to_save(const stnp_shortcut *self, const stnp_short_call *call, const stn_pullback *pullback,
                        PyObject *result)
{
    stn_tensor *kept;
    if (!pullback || !stn_pullback_saved(pullback, 0, &kept))
        return STNP_SAVES_NOTHING;
    const char *name = stn_op_descriptor(call->op->handle)->name;
    PyObject *known = PyDict_GetItemString(self->parts[SAVES], name);
    const int how = known ? (int)PyLong_AsLong(known) : STNP_SAVES_INPUTS;
    if (how == STNP_SAVES_PLACES || how == STNP_SAVES_FACTORS)
        return how;
    PyObject *handle = known && call->n_handles == 1 && !PyList_Check(result)
                           ? PyObject_GetAttr(result, self->names[STNP_HANDLE])
                           : NULL;
    if (!handle)
        return PyErr_Occurred() ? -1 : STNP_SAVES_INPUTS;
    const stn_tensor *given = ((const stnp_tensor *)call->handles[0])->handle, *made = ((stnp_tensor *)handle)->handle;
    const int is_small = numbers_of(made) < PyLong_AsLongLong(self->parts[LEAST]);
    const int serves = stn_tensor_spec(given) == stn_tensor_spec(made) && is_real(stn_tensor_dtype(made)) &&
                       !(how == STNP_SAVES_RESULT && is_small);
    Py_DECREF(handle);
    return serves ? how : STNP_SAVES_INPUTS;
}

/** Whether input i is among what is saved. bits: those that need a gradient. */
static int is_saved(int saves, const stnp_short_call *call, int64_t bits, int i)
{
    const stnp_tensor *handle = (const stnp_tensor *)call->handles[i];
    if (!handle)
        return 0;
    if (saves == STNP_SAVES_PLACES)
        return !stn_dtype_is_differentiable(stn_tensor_dtype(handle->handle));
    return saves == STNP_SAVES_INPUTS || (i < 2 && (bits >> (1 - i) & 1));
}

static PyObject *tensors_to_save(int saves, const stnp_short_call *call, int64_t bits, PyObject *const *tensors,
                                 PyObject *result)
{
    if (saves == STNP_SAVES_RESULT)
        return PyTuple_Pack(1, result);
    const int n = saves == STNP_SAVES_NOTHING || saves == STNP_SAVES_KEPT ? 0 : call->n_handles;
    PyObject *saved = saves < 0 ? NULL : PyTuple_New(n);
    for (int i = 0; saved && i < n; i++) {
        PyObject *tensor = is_saved(saves, call, bits, i) ? tensors[i] : Py_None;
        Py_INCREF(tensor);
        PyTuple_SetItem(saved, i, tensor);
    }
    return saved;
}

/** Takes the handles of the inputs over from those that stnp_short_record was called with. */
static void take_handles(const stnp_shortcut *self, PyObject *handles, PyObject *const *tensors, int n,
                         stnp_short_call *call)
{
    for (int i = 0; i < n; i++) {
        PyObject *handle = PyTuple_GetItem(handles, i);
        call->handles[i] = handle == Py_None ? NULL : handle;
        Py_XINCREF(call->handles[i]);
        const int is_plain =
            tensors[i] != Py_None && !PyObject_TypeCheck(tensors[i], (PyTypeObject *)self->parts[SHARD_TENSOR]);
        call->plain |= (uint32_t)is_plain << i;
    }
    call->n_handles = n;
}

static PyObject *forward_of(stnp_shortcut *self, PyObject *node, PyObject *attrs, PyObject *const *tensors, int n,
                            stnp_short_call *call)
{
    stn_pullback *pullback = NULL;
    int64_t bits = needs_of(self, node);
    if (bits < 0 || stnp_take_attrs(attrs, &call->bound) < 0)
        return NULL;
    PyObject *result = stnp_short_run(self, call, (uint32_t)bits, &pullback);
    PyObject *kept = result ? stnp_wrap_pullback(call->op->context, pullback, n, call->op->n_outputs) : NULL;
    if (!result)
        stnp_give_up_pullback(call->op->context, pullback);
    int saves = kept ? what_to_save(self, call, pullback, result) : -1;
    PyObject *saved = tensors_to_save(saves, call, bits, tensors, result);
    if (result && (keep(self, node, call, attrs, kept, bits, saves, saved) < 0 || mark(node, result, call->rigid) < 0 ||
                   stnp_short_note(self, call, attrs, tensors, n, result) < 0))
        Py_CLEAR(result);
    Py_XDECREF(saved);
    Py_XDECREF(kept);
    if (result && PyList_Check(result)) { /* torch takes a tuple for many results */
        PyObject *list = result;
        result = PyList_AsTuple(list);
        Py_DECREF(list);
    }
    return result;
}

PyObject *stnp_short_forward(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    if (n < 4 || n - 3 > STN_MAX_INPUTS)
        return PyErr_Format(PyExc_TypeError, "forward: %zd arguments", n);
    PyObject *op = NULL, *handles = NULL;
    if (stnp_want(args[1], &PyTuple_Type, "op and handles") < 0 ||
        !PyArg_ParseTuple(args[1], "OO!:forward", &op, &PyTuple_Type, &handles) ||
        stnp_want(op, stnp_op_type, "op") < 0 || stnp_want(args[2], &PyDict_Type, "attributes") < 0)
        return NULL;
    if (PyTuple_Size(handles) != n - 3)
        return PyErr_Format(PyExc_TypeError, "forward: %zd handles of %zd tensors", PyTuple_Size(handles), n - 3);
    stnp_short_call call;
    stnp_short_begin(&call);
    call.op = (stnp_op *)op;
    Py_INCREF(op);
    take_handles((stnp_shortcut *)object, handles, args + 3, (int)n - 3, &call);
    PyObject *result = forward_of((stnp_shortcut *)object, args[0], args[2], args + 3, (int)n - 3, &call);
    stnp_short_fini(&call);
    return result;
}
