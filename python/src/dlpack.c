/* DLPack 1.x, both ways and without a copy; and its older form, without a version, for those that know no other. */
#include "binding.h"

#include <stdlib.h>

/* As the ABI declares them; the library's header names only the outermost. */

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct dl_tensor dl_tensor;
};

struct unversioned {
    struct dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct unversioned *self);
};

static const char versioned_name[] = "dltensor_versioned", unversioned_name[] = "dltensor";

/* Out */

static void free_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, versioned_name)) { /* else somebody has taken it over */
        struct DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, versioned_name);
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, unversioned_name)) {
        struct unversioned *managed = PyCapsule_GetPointer(capsule, unversioned_name);
        managed->deleter(managed);
    }
}

static void delete_unversioned(struct unversioned *self)
{
    struct DLManagedTensorVersioned *managed = self->manager_ctx;
    managed->deleter(managed);
    free(self);
}

static PyObject *make_capsule(struct DLManagedTensorVersioned *managed, int versioned)
{
    struct unversioned *older = versioned ? NULL : malloc(sizeof *older);
    if (older)
        *older = (struct unversioned){managed->dl_tensor, managed, delete_unversioned};
    if (!versioned && !older) {
        managed->deleter(managed);
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(versioned ? (void *)managed : (void *)older,
                                      versioned ? versioned_name : unversioned_name, free_capsule);
    if (!capsule && older)
        older->deleter(older);
    else if (!capsule)
        managed->deleter(managed);
    return capsule;
}

PyObject *stnp_tensor_dlpack(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    stnp_tensor *self = (stnp_tensor *)object;
    struct DLManagedTensorVersioned *managed = NULL;
    int major = 0, minor = 0;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy) ||
        (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor)))
        return NULL;
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__: memory is shared, never copied");
        return NULL;
    }
    if (stnp_enter(&entry, self->context) < 0 || stnp_leave(&entry, stn_tensor_to_dlpack(self->handle, &managed)) < 0)
        return NULL;
    return make_capsule(managed, major >= 1);
}

PyObject *stnp_tensor_dlpack_device(PyObject *object, PyObject *none)
{
    (void)none;
    stnp_tensor *self = (stnp_tensor *)object;
    struct DLManagedTensorVersioned *managed = NULL;
    stnp_entry entry;
    if (stnp_enter(&entry, self->context) < 0)
        return NULL;
    stn_tensor *bare = stn_detach(self->handle);
    stn_status status = stn_tensor_to_dlpack(bare, &managed);
    if (!stn_tensor_is_error(bare))
        stn_tensor_release(&bare);
    if (stnp_leave(&entry, status) < 0)
        return NULL;
    PyObject *device = Py_BuildValue("(ii)", managed->dl_tensor.device_type, managed->dl_tensor.device_id);
    managed->deleter(managed);
    return device;
}

/* In */

static void delete_wrapped(struct DLManagedTensorVersioned *self)
{
    struct unversioned *older = self->manager_ctx;
    if (older->deleter)
        older->deleter(older);
    free(self);
}

/** What the library takes, of either form; `*name` is that of the capsule. */
static struct DLManagedTensorVersioned *open_capsule(PyObject *capsule, const char **name)
{
    *name = PyCapsule_IsValid(capsule, versioned_name) ? versioned_name : unversioned_name;
    void *held = PyCapsule_GetPointer(capsule, *name);
    if (!held || *name == versioned_name)
        return held;
    struct DLManagedTensorVersioned *managed = malloc(sizeof *managed);
    if (!managed) {
        PyErr_NoMemory();
        return NULL;
    }
    *managed =
        (struct DLManagedTensorVersioned){1, 0, held, delete_wrapped, 0, ((struct unversioned *)held)->dl_tensor};
    return managed;
}

/** x.__dlpack__(max_version=(1, 0)), and without where x is older than that argument. */
static PyObject *ask(PyObject *object)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__"), *none = PyTuple_New(0), *capsule = NULL;
    PyObject *version = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    if (method && none && version)
        capsule = PyObject_Call(method, none, version);
    if (method && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(version);
    return capsule;
}

PyObject *stnp_context_from_dlpack(PyObject *self, PyObject *object)
{
    PyObject *capsule = ask(object), *result = NULL;
    const char *name;
    struct DLManagedTensorVersioned *managed = capsule ? open_capsule(capsule, &name) : NULL;
    stnp_entry entry;
    int taken = 0;
    if (managed && stnp_enter(&entry, (stnp_context *)self) == 0) {
        stn_tensor *tensor = stn_tensor_from_dlpack(entry.context->handle, managed);
        taken = !stn_tensor_is_error(tensor);
        result = stnp_leave_tensor(&entry, tensor);
    }
    if (taken)
        PyCapsule_SetName(capsule, name == versioned_name ? "used_dltensor_versioned" : "used_dltensor");
    else if (managed && name == unversioned_name)
        free(managed);
    Py_XDECREF(capsule);
    return result;
}
