/* Operators of Tensor: calls of ops by name. */
#include "binding.h"

/** a OP b where the op's first input is a tensor; what has a number on the left is put otherwise by `reversed`. */
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
    return is_number(a) ? reversed("neg", "add", a, b) : binary("sub", a, b);
}
static PyObject *divide(PyObject *a, PyObject *b)
{
    return is_number(a) ? reversed("reciprocal", "mul", a, b) : binary("div", a, b);
}

/* Operators that are one op each. */
#define OPERATOR(function, op)                             \
    static PyObject *function(PyObject *a, PyObject *b)    \
    {                                                      \
        return binary(op, a, b);                           \
    }
OPERATOR(floor_divide, "floor_divide")
OPERATOR(remainder_of, "remainder")
OPERATOR(matrix_multiply, "matmul")
OPERATOR(both, "logical_and")
OPERATOR(either, "logical_or")
OPERATOR(one_of, "logical_xor")
OPERATOR(add_to, "add_")
OPERATOR(subtract_from, "sub_")
OPERATOR(multiply_by, "mul_")
OPERATOR(divide_by, "div_")
#undef OPERATOR

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return binary("pow", a, b);
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
    return stnp_call_named("logical_not", a, NULL);
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
    {Py_nb_bool, is_true},
    {Py_nb_float, as_float},
    {Py_tp_richcompare, compare},
    {Py_tp_hash, hash},
    {0},
};
