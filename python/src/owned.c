/* Objects that a context makes, and that keep it: meshes, specs, tensors, pullbacks, steps, optimizers, averages. Code
 * makes them, not callers. */
#include "binding.h"

typedef struct owned {
    PyObject_HEAD stnp_context *context; /* first in each of them */
} owned;

void *stnp_owned_new(PyTypeObject *type, stnp_context *context)
{
    owned *self = PyObject_New(owned, type); /* of the type's size */
    if (!self)
        return NULL;
    self->context = context;
    Py_INCREF((PyObject *)context);
    return self;
}

void stnp_owned_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_DECREF((PyObject *)((owned *)object)->context);
    PyObject_Free(object);
    Py_DECREF((PyObject *)type);
}

PyTypeObject *stnp_owned_type(const char *name, size_t size, PyType_Slot *slots)
{
    PyType_Spec spec = {name, (int)size, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}
