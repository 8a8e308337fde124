/* Op: an op of one context, called as its signature says. */
#include "binding.h"

#include <string.h>

PyTypeObject *stnp_op_type;

/** Puts a new op where the context keeps it, unless another thread, which ran while the interpreter was given up, has
 * put one there: that one stays. Takes over the reference of `op`, and gives one of what is kept. */
static stnp_op *kept(stnp_context *context, PyObject *name, stnp_op *op)
{
    PyObject *known = PyDict_GetItemWithError(context->ops, name);
    if (!known && !PyErr_Occurred() && PyDict_SetItem(context->ops, name, (PyObject *)op) == 0)
        known = (PyObject *)op; /* the dict keeps it */
    Py_XINCREF(known);
    Py_DECREF((PyObject *)op);
    return (stnp_op *)known;
}

stnp_op *stnp_find_op(stnp_context *context, PyObject *name)
{
    PyObject *known = PyDict_GetItemWithError(context->ops, name);
    stnp_entry entry;
    Py_XINCREF(known);
    if (known || PyErr_Occurred())
        return (stnp_op *)known;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (!text) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "the name of an op is a text");
        return NULL;
    }
    if (stnp_enter(&entry, context) < 0)
        return NULL;
    const stn_op *handle = stn_op_find(context->handle, text);
    int follows = handle ? stnp_placed_kind(context->handle, handle) : 0;
    stnp_leave(&entry, STN_OK);
    if (!handle) {
        PyErr_Format(PyExc_AttributeError, "no op '%s'", text);
        return NULL;
    }
    stnp_op *op = PyObject_GC_New(stnp_op, stnp_op_type);
    if (!op)
        return NULL;
    const stn_op_desc *desc = stn_op_descriptor(handle);
    memset((char *)op + sizeof(PyObject), 0, sizeof *op - sizeof(PyObject));
    op->context = context;
    Py_INCREF((PyObject *)context);
    op->handle = handle;
    op->follows = follows;
    op->n_outputs = desc->n_outputs - desc->n_private;
    op->in_place = (desc->flags & STN_OP_IN_PLACE) != 0;
    PyObject_GC_Track((PyObject *)op);
    if (stnp_parameters_read(op) == 0)
        return kept(context, name, op);
    Py_DECREF((PyObject *)op);
    return NULL;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((stnp_op *)object)->context);
    return 0;
}

static int clear(PyObject *object)
{
    Py_CLEAR(((stnp_op *)object)->context);
    return 0;
}

static void destroy(PyObject *object)
{
    stnp_op *op = (stnp_op *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    clear(object);
    for (int i = 0; i < op->n_parameters; i++)
        Py_XDECREF(op->parameters[i].name);
    PyMem_Free(op->parameters);
    PyObject_GC_Del(object);
    Py_DECREF((PyObject *)type);
}

static PyObject *wrap_output(stnp_op *op, const stnp_bound *bound, stn_tensor *output)
{
    stnp_placed placed = stnp_placed_result(op, bound, output);
    return stnp_place(stnp_wrap_tensor(op->context, output), &placed);
}

PyObject *stnp_outputs(stnp_op *op, const stnp_bound *bound, stn_tensor **outputs, int as_tuple)
{
    int n = op->n_outputs;
    if (op->in_place) { /* it gives its first input, without a reference */
        Py_INCREF(bound->inputs[0]);
        return as_tuple ? Py_BuildValue("(N)", bound->inputs[0]) : bound->inputs[0];
    }
    while (n > 0 && !outputs[n - 1])
        n--;
    if (n == 1 && !as_tuple && !op->returns_list)
        return wrap_output(op, bound, outputs[0]);
    PyObject *list = PyList_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *tensor = wrap_output(op, bound, outputs[i]);
        if (!list || !tensor || PyList_SetItem(list, i, tensor) < 0)
            Py_CLEAR(list);
    }
    if (!list || (op->returns_list && !as_tuple))
        return list;
    PyObject *tuple = PyList_AsTuple(list);
    Py_DECREF(list);
    return tuple;
}

int stnp_invoke(stnp_op *op, const stnp_call *call, uint32_t needs, stn_tensor **outputs, stn_pullback **pullback)
{
    stnp_entry entry;
    if (stnp_enter(&entry, op->context) < 0)
        return -1;
    stn_status status = needs == 0 ? stn_op_invoke(op->handle, call->n_inputs, call->inputs, call->n_attrs, call->attrs,
                                                   op->n_outputs, outputs)
                                   : stn_op_invoke_pullback(op->handle, call->n_inputs, call->inputs, call->n_attrs,
                                                            call->attrs, needs, op->n_outputs, outputs, pullback);
    return stnp_leave(&entry, status);
}

static PyObject *run(stnp_op *op, const stnp_bound *bound)
{
    stnp_call call;
    stn_tensor *outputs[STN_MAX_OUTPUTS];
    if (stnp_call_fill(op, bound, &call) < 0 || stnp_invoke(op, &call, 0, outputs, NULL) < 0)
        return NULL;
    return stnp_outputs(op, bound, outputs, 0);
}

PyObject *stnp_op_call(stnp_op *op, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    stnp_bound bound;
    PyObject *result = stnp_bind(op, stnp_tensor_type, args, n, names, &bound) == 0 ? run(op, &bound) : NULL;
    stnp_bound_fini(&bound);
    return result;
}

PyObject *stnp_call_named(const char *name, PyObject *a, PyObject *b)
{
    PyObject *args[] = {a, b}, *text = PyUnicode_InternFromString(name);
    stnp_op *op = text ? stnp_find_op(((stnp_tensor *)a)->context, text) : NULL;
    Py_XDECREF(text);
    PyObject *result = op ? stnp_op_call(op, args, b ? 2 : 1, NULL) : NULL;
    Py_XDECREF((PyObject *)op);
    return result;
}

/* As an object: op(x, y), op.bind(…), op.invoke(…) */

/** Arguments of a tuple and a dict, in one array of the caller's, who frees it, and the tuple of names. */
static PyObject **flatten(PyObject *args, PyObject *keywords, Py_ssize_t *n, PyObject **names)
{
    Py_ssize_t n_names = keywords ? PyDict_Size(keywords) : 0, at = 0, i = 0;
    *n = PyTuple_Size(args);
    PyObject **values = PyMem_Malloc((size_t)(*n + n_names + 1) * sizeof *values), *name, *value;
    *names = PyTuple_New(n_names);
    if (!values || !*names) {
        PyMem_Free(values);
        Py_CLEAR(*names);
        PyErr_NoMemory();
        return NULL;
    }
    for (; i < *n; i++)
        values[i] = PyTuple_GetItem(args, i);
    while (n_names > 0 && PyDict_Next(keywords, &at, &name, &value)) {
        Py_INCREF(name);
        PyTuple_SetItem(*names, i - *n, name);
        values[i++] = value;
    }
    return values;
}

static PyObject *call(PyObject *object, PyObject *args, PyObject *keywords)
{
    PyObject *names;
    Py_ssize_t n;
    PyObject **values = flatten(args, keywords, &n, &names);
    PyObject *result = values ? stnp_op_call((stnp_op *)object, values, n, names) : NULL;
    PyMem_Free(values);
    Py_XDECREF(names);
    return result;
}

/** ([input or None, …], {attribute: value}) of sorted arguments. */
static PyObject *sorted(const stnp_bound *bound)
{
    PyObject *inputs = PyList_New(bound->n_inputs), *attrs = PyDict_New();
    int failed = !inputs || !attrs;
    for (int i = 0; i < bound->n_inputs && !failed; i++) {
        PyObject *input = bound->inputs[i] ? bound->inputs[i] : Py_None;
        Py_INCREF(input);
        failed = PyList_SetItem(inputs, i, input) < 0;
    }
    for (int i = 0; i < bound->n_attrs && !failed; i++)
        failed = PyDict_SetItem(attrs, bound->names[i], bound->values[i]) < 0;
    if (!failed)
        return Py_BuildValue("(NN)", inputs, attrs);
    Py_XDECREF(inputs);
    Py_XDECREF(attrs);
    return NULL;
}

static PyObject *bind(PyObject *object, PyObject *arguments)
{
    PyObject *type, *args, *keywords, *names, *result = NULL;
    Py_ssize_t n;
    stnp_bound bound;
    if (!PyArg_ParseTuple(arguments, "OO!O!:bind", &type, &PyTuple_Type, &args, &PyDict_Type, &keywords) ||
        stnp_want(type, &PyType_Type, "tensor_type") < 0)
        return NULL;
    PyObject **values = flatten(args, keywords, &n, &names);
    if (!values)
        return NULL;
    if (stnp_bind((stnp_op *)object, (PyTypeObject *)type, values, n, names, &bound) == 0)
        result = sorted(&bound);
    stnp_bound_fini(&bound);
    PyMem_Free(values);
    Py_DECREF(names);
    return result;
}

static PyObject *get_text(PyObject *object, void *which)
{
    stnp_op *op = (stnp_op *)object;
    return PyUnicode_FromString(which ? stn_op_signature(op->handle) : stn_op_descriptor(op->handle)->name);
}

enum { IN_PLACE, RETURNS_LIST, ALIASES };

static PyObject *get_flag(PyObject *object, void *which)
{
    stnp_op *op = (stnp_op *)object;
    const stn_op_desc *desc = stn_op_descriptor(op->handle);
    switch ((uintptr_t)which) {
    case IN_PLACE: return PyBool_FromLong(op->in_place);
    case RETURNS_LIST: return PyBool_FromLong(op->returns_list);
    default: return PyBool_FromLong((desc->flags & STN_OP_ALIAS) != 0);
    }
}

static PyObject *get_n_outputs(PyObject *object, void *none)
{
    (void)none;
    return PyLong_FromLong(((stnp_op *)object)->n_outputs);
}

static PyObject *get_inputs(PyObject *object, void *none)
{
    (void)none;
    const stn_op_desc *desc = stn_op_descriptor(((stnp_op *)object)->handle);
    PyObject *tuple = PyTuple_New(desc->n_inputs);
    for (int i = 0; tuple && i < desc->n_inputs; i++)
        PyTuple_SetItem(tuple, i, PyUnicode_FromString(desc->inputs[i].name));
    return tuple;
}

static PyObject *get_parameters(PyObject *object, void *none)
{
    (void)none;
    stnp_op *op = (stnp_op *)object;
    PyObject *tuple = PyTuple_New(op->n_parameters);
    for (int i = 0; tuple && i < op->n_parameters; i++) {
        Py_INCREF(op->parameters[i].name);
        PyTuple_SetItem(tuple, i, op->parameters[i].name);
    }
    return tuple;
}

static PyObject *describe(PyObject *object)
{
    return PyUnicode_FromFormat("<op %s>", stn_op_signature(((stnp_op *)object)->handle));
}

PyTypeObject *stnp_make_op_type(void)
{
    static PyGetSetDef members[] = {
        {"name", get_text, NULL, "\"add\", ...", NULL},
        {"signature", get_text, NULL, "How it is called.", (void *)1},
        {"in_place", get_flag, NULL, "Whether it changes its first input and returns it.", (void *)IN_PLACE},
        {"returns_list", get_flag, NULL, "Whether it returns a list of tensors.", (void *)RETURNS_LIST},
        {"aliases", get_flag, NULL, "Whether it may return a tensor on its first input's memory.", (void *)ALIASES},
        {"n_outputs", get_n_outputs, NULL, "How many tensors it returns at most.", NULL},
        {"inputs", get_inputs, NULL, "Names of its inputs, in the order that pullbacks count.", NULL},
        {"parameters", get_parameters, NULL, "Names in positional order.", NULL},
        {0},
    };
    static PyMethodDef methods[] = {
        {"bind", bind, METH_VARARGS,
         "bind(tensor_type, args, kwargs): ([input or None, ...], {attribute: value}), which is what a call means."},
        {"pullback", stnp_op_pullback, METH_VARARGS,
         "pullback(inputs, attrs, needs): (outputs, Pullback) of a call whose arguments are sorted. needs: bit i for "
         "inputs[i]; 0: (outputs, None)."},
        {0},
    };
    PyType_Slot slots[] = {
        {Py_tp_dealloc, destroy},
        {Py_tp_traverse, traverse},
        {Py_tp_clear, clear},
        {Py_tp_call, call},
        {Py_tp_getset, members},
        {Py_tp_methods, methods},
        {Py_tp_repr, describe},
        {Py_tp_doc, "An op of a context, made by Context.op."},
        {0},
    };
    unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    PyType_Spec spec = {"shardtensor._c.Op", sizeof(stnp_op), 0, flags, slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}
