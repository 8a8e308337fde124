/* Functions of a name: shardtensor.ops.add and its like, which find the op in their arguments' context.
 *
 * Calls of types by an array of arguments are not in the stable ABI of 3.11, those of built-in functions are: this
 * is the quick way. */
#include "binding.h"

static PyTypeObject *name_type; /* what a function is bound to */

typedef struct function_name {
    PyObject_HEAD PyObject *name;
} function_name;

/** The context of the first tensor, in lists too. Borrowed. */
static stnp_context *context_of(PyObject *const *args, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyObject_TypeCheck(args[i], stnp_tensor_type))
            return ((stnp_tensor *)args[i])->context;
        PyObject *first = PyList_Check(args[i]) && PyList_Size(args[i]) > 0     ? PyList_GetItem(args[i], 0)
                          : PyTuple_Check(args[i]) && PyTuple_Size(args[i]) > 0 ? PyTuple_GetItem(args[i], 0)
                                                                                : NULL;
        if (first && PyObject_TypeCheck(first, stnp_tensor_type))
            return ((stnp_tensor *)first)->context;
    }
    return NULL;
}

static PyObject *call_name(PyObject *object, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *name = ((function_name *)object)->name;
    stnp_context *context = context_of(args, n + (names ? PyTuple_Size(names) : 0));
    if (!context)
        return PyErr_Format(PyExc_TypeError, "%U: no Tensor among the arguments", name);
    stnp_op *op = stnp_find_op(context, name);
    PyObject *result = op ? stnp_op_call(op, args, n, names) : NULL;
    Py_XDECREF((PyObject *)op);
    return result;
}

static void destroy_name(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_DECREF(((function_name *)object)->name);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

PyObject *stnp_function(PyObject *module, PyObject *name)
{
    (void)module;
    static PyMethodDef method = {"op", (PyCFunction)(void (*)(void))call_name, METH_FASTCALL | METH_KEYWORDS,
                                 "An op, by its name."};
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "the name of an op is a text");
    function_name *self = PyObject_New(function_name, name_type);
    if (!self)
        return NULL;
    self->name = name;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&self->name);
    PyObject *function = PyCFunction_NewEx(&method, (PyObject *)self, NULL);
    Py_DECREF((PyObject *)self);
    return function;
}

int stnp_functions_init(void)
{
    PyType_Slot slots[] = {{Py_tp_dealloc, destroy_name}, {0}};
    PyType_Spec spec = {"shardtensor._c._Name", sizeof(function_name), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    name_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return name_type ? 0 : -1;
}
