/* From the arguments of a Python call to the inputs and attributes of an op. */
#include "binding.h"

#include <string.h>

static const char *name_of(const stnp_op *op)
{
    return stn_op_descriptor(op->handle)->name;
}

static int refuse(const stnp_op *op, const char *what, PyObject *name)
{
    PyErr_Format(PyExc_TypeError, "%s: %s '%U'", name_of(op), what, name);
    return -1;
}

static stnp_parameter *find(stnp_op *op, PyObject *name)
{
    for (int i = 0; i < op->n_parameters; i++) {
        if (op->parameters[i].name == name) /* both are interned as a rule */
            return &op->parameters[i];
    }
    for (int i = 0; i < op->n_parameters; i++) {
        if (PyUnicode_Compare(op->parameters[i].name, name) == 0)
            return &op->parameters[i];
    }
    return NULL;
}

static void put_input(stnp_bound *bound, int at, PyObject *value)
{
    bound->inputs[at] = value;
    if (at >= bound->n_inputs)
        bound->n_inputs = at + 1;
}

/** A list of tensors, in which None is one that is absent. */
static int put_list(stnp_op *op, const stnp_parameter *p, PyTypeObject *tensor_type, PyObject *value, stnp_bound *bound)
{
    if (PyObject_TypeCheck(value, tensor_type) || !(bound->list = PySequence_Tuple(value)))
        return PyErr_Occurred() ? -1 : refuse(op, "wanted a list of tensors for", p->name);
    Py_ssize_t n = PyTuple_Size(bound->list);
    if (n > STN_MAX_INPUTS - p->input)
        return refuse(op, "too many tensors in", p->name);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *entry = PyTuple_GetItem(bound->list, i);
        if (entry != Py_None && !PyObject_TypeCheck(entry, tensor_type))
            return refuse(op, "wanted tensors alone in", p->name);
        put_input(bound, p->input + (int)i, entry == Py_None ? NULL : entry);
    }
    return 0;
}

static int put(stnp_op *op, const stnp_parameter *p, PyTypeObject *tensor_type, PyObject *value, stnp_bound *bound)
{
    if (value == Py_None)
        return p->required ? refuse(op, "None for the required argument", p->name) : 0;
    if (p->list != STNP_ONE)
        return put_list(op, p, tensor_type, value, bound);
    if (p->input >= 0 && PyObject_TypeCheck(value, tensor_type)) {
        put_input(bound, p->input, value);
        return 0;
    }
    if (!p->attribute || PyObject_TypeCheck(value, tensor_type)) {
        PyErr_Format(PyExc_TypeError, "%s: %U is %R, wanted a %s", name_of(op), p->name, Py_TYPE(value),
                     p->attribute ? "value" : "tensor");
        return -1;
    }
    if (bound->n_attrs == STNP_MAX_ATTRS)
        return refuse(op, "too many arguments at", p->name);
    bound->names[bound->n_attrs] = p->name;
    bound->values[bound->n_attrs++] = value;
    return 0;
}

/** Positional arguments beyond those that have places: the tensors of "*operand", or one list of them. */
static int put_rest(stnp_op *op, PyTypeObject *tensor_type, PyObject *const *args, Py_ssize_t n, stnp_bound *bound,
                    uint64_t *given)
{
    stnp_parameter *rest = NULL;
    for (int i = 0; i < op->n_parameters; i++)
        rest = op->parameters[i].list == STNP_REST ? &op->parameters[i] : rest;
    if (!rest) {
        PyErr_Format(PyExc_TypeError, "%s: %zd arguments by place, wanted at most %d: %s", name_of(op),
                     n + op->n_positional, op->n_positional, stn_op_signature(op->handle));
        return -1;
    }
    *given |= (uint64_t)1 << (rest - op->parameters);
    if (n == 1 && !PyObject_TypeCheck(args[0], tensor_type))
        return put_list(op, rest, tensor_type, args[0], bound);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (rest->input + i >= STN_MAX_INPUTS || !PyObject_TypeCheck(args[i], tensor_type))
            return refuse(op, "wanted tensors, not too many, for", rest->name);
        put_input(bound, rest->input + (int)i, args[i]);
    }
    return 0;
}

int stnp_bind(stnp_op *op, PyTypeObject *tensor_type, PyObject *const *args, Py_ssize_t n, PyObject *names,
              stnp_bound *bound)
{
    Py_ssize_t placed = n < op->n_positional ? n : op->n_positional, n_names = names ? PyTuple_Size(names) : 0;
    uint64_t given = 0;
    int next = 0;
    memset(bound, 0, offsetof(stnp_bound, names));
    bound->list = NULL;
    for (Py_ssize_t i = 0; i < placed; i++, next++) {
        while (op->parameters[next].list == STNP_REST)
            next++;
        given |= (uint64_t)1 << next;
        if (put(op, &op->parameters[next], tensor_type, args[i], bound) < 0)
            return -1;
    }
    if (n > placed && put_rest(op, tensor_type, args + placed, n - placed, bound, &given) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < n_names; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        stnp_parameter *p = find(op, name);
        if (!p)
            return refuse(op, "no argument", name);
        uint64_t bit = (uint64_t)1 << (p - op->parameters);
        if (given & bit)
            return refuse(op, "given twice:", name);
        given |= bit;
        if (put(op, p, tensor_type, args[n + i], bound) < 0)
            return -1;
    }
    for (int i = 0; i < op->n_parameters; i++) {
        if (op->parameters[i].required && !(given >> i & 1))
            return refuse(op, "missing argument", op->parameters[i].name);
    }
    return 0;
}

void stnp_bound_fini(stnp_bound *bound)
{
    Py_CLEAR(bound->list);
}

/* Values of attributes */

static int holds_floats(PyObject *tuple)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        if (PyFloat_Check(PyTuple_GetItem(tuple, i)))
            return 1;
    }
    return 0;
}

static int put_sequence(stn_attr *attr, PyObject *value)
{
    PyObject *tuple = PySequence_Tuple(value);
    if (!tuple)
        return -1;
    Py_ssize_t n = PyTuple_Size(tuple);
    int failed = 0;
    if (!holds_floats(tuple)) {
        attr->type = STN_ATTR_INTS;
        attr->value.ints.n = stnp_take_ints(tuple, attr->name, STN_MAX_NDIM, attr->value.ints.v);
        failed = attr->value.ints.n < 0;
    } else if (n > STN_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "%s: %zd numbers, at most %d", attr->name, n, STN_MAX_NDIM);
        failed = 1;
    } else {
        attr->type = STN_ATTR_FLOATS;
        attr->value.floats.n = n;
        for (Py_ssize_t i = 0; i < n; i++)
            attr->value.floats.v[i] = PyFloat_AsDouble(PyTuple_GetItem(tuple, i));
        failed = PyErr_Occurred() != NULL;
    }
    Py_DECREF(tuple);
    return failed ? -1 : 0;
}

static int put_mesh(const stnp_op *op, stn_attr *attr, const stnp_mesh *mesh)
{
    if (mesh->context != op->context) {
        stnp_raise(STN_ERR_ARGUMENT, "a mesh of another context among the attributes");
        return -1;
    }
    attr->type = STN_ATTR_INT;
    attr->value.i = stn_mesh_number(mesh->handle);
    return 0;
}

static int put_value(const stnp_op *op, stn_attr *attr, PyObject *name, PyObject *value)
{
    attr->name = PyUnicode_AsUTF8AndSize(name, NULL);
    if (PyObject_TypeCheck(value, stnp_mesh_type)) {
        return put_mesh(op, attr, (stnp_mesh *)value);
    } else if (PyBool_Check(value)) {
        attr->type = STN_ATTR_BOOL;
        attr->value.i = value == Py_True;
    } else if (PyFloat_Check(value)) {
        attr->type = STN_ATTR_FLOAT;
        attr->value.f = PyFloat_AsDouble(value);
    } else if (PyUnicode_Check(value)) {
        attr->type = STN_ATTR_STRING;
        attr->value.s = PyUnicode_AsUTF8AndSize(value, NULL);
    } else if (PyIndex_Check(value)) { /* int, and what stands for one: NumPy's */
        attr->type = STN_ATTR_INT;
        return stnp_take_ints(value, attr->name, 1, &attr->value.i) < 0 ? -1 : 0;
    } else if (PySequence_Check(value)) {
        return put_sequence(attr, value);
    } else {
        PyErr_Format(PyExc_TypeError, "%s is %R, wanted a number, a text or a list of numbers", attr->name,
                     Py_TYPE(value));
        return -1;
    }
    return PyErr_Occurred() ? -1 : 0;
}

int stnp_call_fill(stnp_op *op, const stnp_bound *bound, stnp_call *call)
{
    call->n_inputs = bound->n_inputs;
    call->n_attrs = bound->n_attrs;
    for (int i = 0; i < bound->n_inputs; i++) {
        stnp_tensor *tensor = (stnp_tensor *)bound->inputs[i];
        if (tensor && tensor->context != op->context) {
            stnp_raise(STN_ERR_ARGUMENT, "a tensor of another context among the inputs");
            return -1;
        }
        call->inputs[i] = tensor ? tensor->handle : NULL;
    }
    for (int i = 0; i < bound->n_attrs; i++) {
        if (put_value(op, &call->attrs[i], bound->names[i], bound->values[i]) < 0)
            return -1;
    }
    return 0;
}
