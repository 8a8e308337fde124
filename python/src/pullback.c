/* Pullback: the gradients of one call, for an engine of gradients that is not the library's. */
#include "binding.h"

PyTypeObject *stnp_pullback_type;

static void release_handle(void *handle)
{
    stn_pullback *pullback = handle;
    stn_pullback_release(&pullback);
}

void stnp_give_up_pullback(stnp_context *context, stn_pullback *pullback)
{
    stnp_give_up(context, pullback, release_handle);
}

PyObject *stnp_wrap_pullback(stnp_context *context, stn_pullback *handle, int n_inputs, int n_outputs)
{
    if (!handle) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    stnp_pullback *self = stnp_owned_new(stnp_pullback_type, context);
    if (!self) {
        stnp_give_up_pullback(context, handle);
        return NULL;
    }
    self->handle = handle;
    self->n_inputs = n_inputs;
    self->n_outputs = n_outputs;
    return (PyObject *)self;
}

static void destroy(PyObject *object)
{
    stnp_pullback *self = (stnp_pullback *)object;
    stnp_give_up_pullback(self->context, self->handle);
    stnp_owned_free(object);
}

int stnp_take_attrs(PyObject *attrs, stnp_bound *bound)
{
    Py_ssize_t at = 0;
    PyObject *name, *value;
    bound->n_attrs = 0;
    if (PyDict_Size(attrs) > STNP_MAX_ATTRS) {
        PyErr_SetString(PyExc_ValueError, "too many attributes");
        return -1;
    }
    while (PyDict_Next(attrs, &at, &name, &value)) {
        if (value == Py_None)
            continue;
        bound->names[bound->n_attrs] = name;
        bound->values[bound->n_attrs++] = value;
    }
    return 0;
}

/** Inputs of a list and attributes of a dict, as bind() sorts them. All borrowed. */
static int take_sorted(PyObject *inputs, PyObject *attrs, stnp_bound *bound)
{
    Py_ssize_t n = PyList_Size(inputs);
    bound->list = NULL;
    if (n > STN_MAX_INPUTS) {
        PyErr_SetString(PyExc_ValueError, "pullback: too many inputs");
        return -1;
    }
    bound->n_inputs = (int)n;
    for (int i = 0; i < n; i++) {
        PyObject *input = PyList_GetItem(inputs, i);
        if (input != Py_None && stnp_want(input, stnp_tensor_type, "inputs") < 0)
            return -1;
        bound->inputs[i] = input == Py_None ? NULL : input;
    }
    return stnp_take_attrs(attrs, bound);
}

PyObject *stnp_op_pullback(PyObject *object, PyObject *args)
{
    stnp_op *op = (stnp_op *)object;
    PyObject *inputs, *attrs;
    unsigned long needs;
    stnp_bound bound;
    stnp_call call;
    stn_tensor *outputs[STN_MAX_OUTPUTS];
    stn_pullback *handle = NULL;
    if (!PyArg_ParseTuple(args, "O!O!k:pullback", &PyList_Type, &inputs, &PyDict_Type, &attrs, &needs) ||
        take_sorted(inputs, attrs, &bound) < 0 || stnp_call_fill(op, &bound, &call) < 0 ||
        stnp_invoke(op, &call, (uint32_t)needs, outputs, &handle) < 0)
        return NULL;
    PyObject *results = stnp_outputs(op, &bound, outputs, 1);
    PyObject *kept = stnp_wrap_pullback(op->context, handle, call.n_inputs, op->n_outputs);
    if (results && kept)
        return Py_BuildValue("(NN)", results, kept);
    Py_XDECREF(results);
    Py_XDECREF(kept);
    return NULL;
}

/** The gradients of an application as a tuple, and with `again` the next pullback beside it. */
static PyObject *results(stnp_pullback *self, stn_tensor *const *grads, int n_cotangents, int again, stn_pullback *next)
{
    PyObject *tuple = PyTuple_New(self->n_inputs);
    for (int i = 0; tuple && i < self->n_inputs; i++) {
        PyObject *grad = Py_None;
        if (grads[i])
            grad = stnp_wrap_tensor(self->context, grads[i]);
        else
            Py_INCREF(grad);
        if (!grad || PyTuple_SetItem(tuple, i, grad) < 0)
            Py_CLEAR(tuple);
    }
    if (!again)
        return tuple;
    return Py_BuildValue("(NN)", tuple,
                         stnp_wrap_pullback(self->context, next, self->n_inputs + n_cotangents, self->n_inputs));
}

static PyObject *apply_to(stnp_pullback *self, int n, stn_tensor **cotangents, unsigned long needs, int again)
{
    stn_tensor *grads[STN_MAX_INPUTS + STN_MAX_OUTPUTS] = {NULL};
    stn_pullback *next = NULL;
    stnp_entry entry;
    if (n > self->n_outputs)
        return PyErr_Format(PyExc_ValueError, "cotangents: %d of them, the call has %d outputs", n, self->n_outputs);
    if (!self->handle)
        return stnp_raise(STN_ERR_STATE, "apply: the pullback was given up");
    if (stnp_enter(&entry, self->context) < 0)
        return NULL;
    stn_status status = stn_pullback_apply(self->handle, n, cotangents, (uint32_t)needs, grads, again ? &next : NULL);
    return stnp_leave(&entry, status) < 0 ? NULL : results(self, grads, n, again, next);
}

static PyObject *apply(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"cotangents", "needs", "again", NULL};
    PyObject *list, *tuple = NULL, *result = NULL;
    unsigned long needs;
    int again = 0, n;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Ok|p:apply", names, &list, &needs, &again))
        return NULL;
    stn_tensor **cotangents = stnp_take_tensors(list, "cotangents", &n, &tuple);
    if (cotangents)
        result = apply_to((stnp_pullback *)object, n, cotangents, needs, again);
    PyMem_Free(cotangents);
    Py_XDECREF(tuple);
    return result;
}

/** The i-th tensor that it keeps, a new reference. @return NULL: no more of them, or an exception. */
static stn_tensor *saved_at(stnp_pullback *self, int i)
{
    stnp_entry entry;
    stn_tensor *tensor = NULL;
    if (!self->handle || stnp_enter(&entry, self->context) < 0)
        return NULL;
    if (stn_pullback_saved(self->handle, i, &tensor))
        stn_tensor_retain(tensor);
    stnp_leave(&entry, STN_OK);
    return tensor;
}

static PyObject *saved(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_pullback *self = (stnp_pullback *)object;
    PyObject *list = PyList_New(0);
    stn_tensor *tensor;
    for (int i = 0; list && (tensor = saved_at(self, i)); i++) {
        PyObject *wrapped = stnp_wrap_kept(self->context, tensor);
        if (!wrapped || PyList_Append(list, wrapped) < 0)
            Py_CLEAR(list);
        Py_XDECREF(wrapped);
    }
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

/** moved([(from, bytes, to), ...]) */
static PyObject *moved(PyObject *object, PyObject *list)
{
    stnp_pullback *self = (stnp_pullback *)object;
    stn_moved_memory parts[STN_MAX_INPUTS];
    const Py_ssize_t n = PySequence_Size(list);
    stnp_entry entry;
    if (n < 0 || !self->handle)
        return n < 0 ? NULL : stnp_raise(STN_ERR_STATE, "moved: the pullback was given up");
    if (n > STN_MAX_INPUTS)
        return PyErr_Format(PyExc_ValueError, "moved: %zd parts, wanted at most %d", n, STN_MAX_INPUTS);
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned long long from, bytes, to;
        PyObject *part = PySequence_GetItem(list, i);
        const int is_read = part && PyArg_ParseTuple(part, "KKK:moved", &from, &bytes, &to);
        Py_XDECREF(part);
        if (!is_read)
            return NULL;
        parts[i] = (stn_moved_memory){(void *)(uintptr_t)from, (size_t)bytes, (void *)(uintptr_t)to};
    }
    if (stnp_enter(&entry, self->context) < 0 ||
        stnp_leave(&entry, stn_pullback_moved(self->handle, (int)n, parts)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

void stnp_pullback_release(stnp_pullback *self)
{
    stn_pullback *handle = self->handle;
    self->handle = NULL;
    stnp_give_up_pullback(self->context, handle);
}

static PyObject *release(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_pullback_release((stnp_pullback *)object);
    Py_RETURN_NONE;
}

static PyObject *get_released(PyObject *object, void *none)
{
    (void)none;
    return PyBool_FromLong(!((stnp_pullback *)object)->handle);
}

PyTypeObject *stnp_make_pullback_type(void)
{
    static PyMethodDef methods[] = {
        {"apply", STNP_KEYWORDS(apply),
         "apply(cotangents, needs, again=False): the gradient of each input, None for zero; with again, and the "
         "pullback of this application,\n"
         "as of a function from inputs and cotangents to gradients."},
        {"saved", saved, METH_NOARGS, "The tensors that it keeps."},
        {"moved", moved, METH_O,
         "moved([(from, bytes, to), ...]): memory that was lent to the call, and where the same elements are by now."},
        {"release", release, METH_NOARGS, "Gives up what it keeps."},
        {0},
    };
    static PyGetSetDef members[] = {
        {"released", get_released, NULL, "Whether it was given up: it cannot be applied then.", NULL},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_methods, methods},
        {Py_tp_getset, members},
        {Py_tp_doc, "What one call keeps for its gradients; made by Op.pullback."},
        {0},
    };
    return stnp_owned_type("shardtensor._c.Pullback", sizeof(stnp_pullback), slots);
}
