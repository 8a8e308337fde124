/* Operators of Tensor: calls of ops by name. */
#include "binding.h"

/** a OP b where the op's first input is a tensor; what has a number on the left is put otherwise by `reversed` and
 * `with_number`. */
static PyObject *binary(const char *name, PyObject *a, PyObject *b)
{
    if (!PyObject_TypeCheck(a, stnp_tensor_type) ||
        !(PyObject_TypeCheck(b, stnp_tensor_type) || PyFloat_Check(b) || PyLong_Check(b)))
        Py_RETURN_NOTIMPLEMENTED;
    return stnp_call_named(name, a, b);
}

static int is_number(PyObject *object)
{
    return PyFloat_Check(object) || PyLong_Check(object);
}

/** name(first(b), a): a number a on the left of an operator that is not symmetric. */
static PyObject *reversed(const char *first, const char *name, PyObject *a, PyObject *b)
{
    PyObject *inner = stnp_call_named(first, b, NULL);
    PyObject *result = inner ? stnp_call_named(name, inner, a) : NULL;
    Py_XDECREF(inner);
    return result;
}

/** In which dtype a number is computed beside a tensor: in the tensor's, unless the number is of a higher kind. */
static stn_dtype dtype_beside(PyObject *number, stn_dtype dtype)
{
    if (PyFloat_Check(number) && !stn_dtype_is_differentiable(dtype))
        return STN_DTYPE_F32;
    return dtype == STN_DTYPE_BOOL && !PyBool_Check(number) ? STN_DTYPE_I64 : dtype;
}

/** A tensor without dims, not filled, that each rank of the other's mesh has whole. */
static PyObject *empty_beside(stnp_tensor *other, stn_dtype dtype)
{
    const stn_spec *like = stn_tensor_spec(other->handle), *spec;
    stn_placement whole[STN_MAX_MESH_NDIM];
    stnp_entry entry;
    for (int axis = 0; axis < STN_MAX_MESH_NDIM; axis++)
        whole[axis] = stn_replicate();
    if (stnp_enter(&entry, other->context) < 0)
        return NULL;
    stn_status status = stn_spec_like(like, stn_spec_mesh(like) ? whole : NULL, dtype, 0, NULL, &spec);
    if (status != STN_OK) {
        stnp_leave(&entry, status);
        return NULL;
    }
    stn_tensor *empty = stn_empty(entry.context->handle, spec);
    stn_spec_release(&spec);
    return stnp_leave_tensor(&entry, empty);
}

/** name(a, b) of an op that takes tensors alone on the left, where `a` may be a number and `b` is a tensor. */
static PyObject *with_number(const char *name, PyObject *a, PyObject *b)
{
    if (!is_number(a))
        return binary(name, a, b);
    stnp_tensor *tensor = (stnp_tensor *)b;
    PyObject *empty = empty_beside(tensor, dtype_beside(a, stn_tensor_dtype(tensor->handle)));
    PyObject *left = empty ? stnp_call_named("fill_", empty, a) : NULL;
    PyObject *result = left ? stnp_call_named(name, left, b) : NULL;
    Py_XDECREF(empty);
    Py_XDECREF(left);
    return result;
}

static int is_tensor(PyObject *object)
{
    return PyObject_TypeCheck(object, stnp_tensor_type);
}

/** & | ^ of two, which are symmetric: of integers and bool. */
static PyObject *bits(const char *name, PyObject *a, PyObject *b)
{
    return is_tensor(a) ? binary(name, a, b) : binary(name, b, a);
}

static PyObject *add(PyObject *a, PyObject *b)
{
    return is_number(a) ? binary("add", b, a) : binary("add", a, b);
}
static PyObject *multiply(PyObject *a, PyObject *b)
{
    return is_number(a) ? binary("mul", b, a) : binary("mul", a, b);
}
static PyObject *subtract(PyObject *a, PyObject *b)
{
    if (!is_number(a))
        return binary("sub", a, b);
    /* Negated, an integer may be beyond its dtype, which the result is not. */
    int widens = PyFloat_Check(a) && !stn_dtype_is_differentiable(stn_tensor_dtype(((stnp_tensor *)b)->handle));
    return widens ? with_number("sub", a, b) : reversed("neg", "add", a, b);
}
static PyObject *divide(PyObject *a, PyObject *b)
{
    return is_number(a) ? reversed("reciprocal", "mul", a, b) : binary("div", a, b);
}

/* Operators that are one op each. */
#define OPERATOR(function, way, op)                        \
    static PyObject *function(PyObject *a, PyObject *b)    \
    {                                                      \
        return way(op, a, b);                              \
    }
OPERATOR(floor_divide, with_number, "floor_divide")
OPERATOR(remainder_of, with_number, "remainder")
OPERATOR(both, bits, "bitwise_and")
OPERATOR(either, bits, "bitwise_or")
OPERATOR(one_of, bits, "bitwise_xor")
OPERATOR(matrix_multiply, binary, "matmul")
OPERATOR(add_to, binary, "add_")
OPERATOR(subtract_from, binary, "sub_")
OPERATOR(multiply_by, binary, "mul_")
OPERATOR(divide_by, binary, "div_")
OPERATOR(floor_divide_by, binary, "floor_divide_")
OPERATOR(leave_remainder, binary, "remainder_")
OPERATOR(leave_both, binary, "bitwise_and_")
OPERATOR(take_either, binary, "bitwise_or_")
OPERATOR(leave_one_of, binary, "bitwise_xor_")
#undef OPERATOR

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return with_number("pow", a, b);
}

static PyObject *raise_to(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return binary("pow_", a, b);
}

static PyObject *negative(PyObject *a)
{
    return stnp_call_named("neg", a, NULL);
}
static PyObject *absolute(PyObject *a)
{
    return stnp_call_named("abs", a, NULL);
}
static PyObject *inverted(PyObject *a)
{
    return stnp_call_named("bitwise_not", a, NULL);
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    static const char *const names[] = {
        [Py_LT] = "lt", [Py_LE] = "le", [Py_EQ] = "eq", [Py_NE] = "ne", [Py_GT] = "gt", [Py_GE] = "ge"};
    return binary(names[how], a, b);
}

/** Tensors are told apart by identity where they are keys, since == compares elements. */
static Py_hash_t hash(PyObject *a)
{
    Py_hash_t value = (Py_hash_t)((uintptr_t)a >> 4);
    return value == -1 ? -2 : value;
}

/** A tensor of one element is what it holds; of others there is no one truth. */
static int is_true(PyObject *a)
{
    PyObject *value = PyObject_CallMethod(a, "item", NULL);
    int truth = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return truth;
}

static PyObject *as_float(PyObject *a)
{
    PyObject *value = PyObject_CallMethod(a, "item", NULL);
    PyObject *number = value ? PyFloat_FromDouble(PyFloat_AsDouble(value)) : NULL;
    Py_XDECREF(value);
    return PyErr_Occurred() ? NULL : number;
}

PyType_Slot stnp_number_slots[] = {
    {Py_nb_add, add},
    {Py_nb_multiply, multiply},
    {Py_nb_subtract, subtract},
    {Py_nb_true_divide, divide},
    {Py_nb_floor_divide, floor_divide},
    {Py_nb_remainder, remainder_of},
    {Py_nb_matrix_multiply, matrix_multiply},
    {Py_nb_power, power},
    {Py_nb_and, both},
    {Py_nb_or, either},
    {Py_nb_xor, one_of},
    {Py_nb_negative, negative},
    {Py_nb_absolute, absolute},
    {Py_nb_invert, inverted },
    {Py_nb_inplace_add, add_to},
    {Py_nb_inplace_subtract, subtract_from},
    {Py_nb_inplace_multiply, multiply_by},
    {Py_nb_inplace_true_divide, divide_by},
    {Py_nb_inplace_floor_divide, floor_divide_by},
    {Py_nb_inplace_remainder, leave_remainder},
    {Py_nb_inplace_power, raise_to},
    {Py_nb_inplace_and, leave_both},
    {Py_nb_inplace_or, take_either},
    {Py_nb_inplace_xor, leave_one_of},
    {Py_nb_bool, is_true},
    {Py_nb_float, as_float},
    {Py_tp_richcompare, compare},
    {Py_tp_hash, hash},
    {0},
};
