/* Device memory from functions of Python: allocate(bytes, stream) gives an address, deallocate(address) takes it back.
 * What allocate raises means that there is none. */
#include "binding.h"

static void *allocate(void *arg, size_t bytes, void *stream)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunction(PyTuple_GetItem(arg, 0), "KK", (unsigned long long)bytes,
                                             (unsigned long long)(uintptr_t)stream);
    void *pointer = result ? PyLong_AsVoidPtr(result) : NULL;
    PyErr_Clear();
    Py_XDECREF(result);
    PyGILState_Release(state);
    return pointer;
}

static void deallocate(void *arg, void *pointer, size_t bytes, void *stream)
{
    (void)bytes, (void)stream;
    if (!Py_IsInitialized())
        return; /* the process ends */
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunction(PyTuple_GetItem(arg, 1), "K", (unsigned long long)(uintptr_t)pointer);
    if (!result)
        PyErr_WriteUnraisable(arg);
    Py_XDECREF(result);
    PyGILState_Release(state);
}

int stnp_take_allocator(PyObject *functions, stn_device_allocator *out)
{
    if (!PyTuple_Check(functions) || PyTuple_Size(functions) != 2 || !PyCallable_Check(PyTuple_GetItem(functions, 0)) ||
        !PyCallable_Check(PyTuple_GetItem(functions, 1))) {
        PyErr_SetString(PyExc_TypeError, "Context: allocator is no pair of functions, allocate and deallocate");
        return -1;
    }
    Py_INCREF(functions); /* for good: handles that outlive the context give memory back */
    *out = (stn_device_allocator){sizeof *out, functions, allocate, deallocate};
    return 0;
}
