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

/** (type, index) of where a tensor's elements lie. */
static int device_of(stnp_tensor *self, int32_t *type, int32_t *index)
{
    stnp_entry entry;
    if (stnp_enter(&entry, self->context) < 0)
        return -1;
    return stnp_leave(&entry, stn_tensor_dlpack_device(self->handle, type, index));
}

/** Refuses what the caller asks for and the memory is not: a copy, another device. */
static int check_wishes(stnp_tensor *self, PyObject *device, PyObject *copy, int32_t *type)
{
    int32_t index = 0;
    int wanted_type = 0, wanted_index = 0;
    if (copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__: memory is shared, never copied");
        return -1;
    }
    if (device_of(self, type, &index) < 0 ||
        (device != Py_None && !PyArg_ParseTuple(device, "ii", &wanted_type, &wanted_index)))
        return -1;
    if (device == Py_None || (wanted_type == *type && wanted_index == index))
        return 0;
    PyErr_Format(PyExc_BufferError, "__dlpack__: dl_device got (%d, %d), wanted the tensor's, (%d, %d)", wanted_type,
                 wanted_index, (int)*type, (int)index);
    return -1;
}

/** The consumer's stream by DLPack's number; None is the legacy default stream of a device that has streams. Returns 0,
 *  which is none, for the CPU, where the host waits instead. */
static int64_t stream_of(PyObject *stream, int32_t type)
{
    if (stream == Py_None)
        return type == STNP_DLPACK_CPU ? 0 : STN_DLPACK_LEGACY;
    if (type == STNP_DLPACK_CPU) {
        PyErr_SetString(PyExc_ValueError, "__dlpack__: stream got a number, wanted None: the tensor is on the CPU");
        return 0;
    }
    const long long number = PyLong_AsLongLong(stream);
    if (number == 0 && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError,
                        "__dlpack__: stream got 0, which DLPack leaves open; wanted -1, 1, 2 or an address");
    return number;
}

PyObject *stnp_tensor_dlpack(PyObject *object, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    stnp_tensor *self = (stnp_tensor *)object;
    struct DLManagedTensorVersioned *managed = NULL;
    int major = 0, minor = 0;
    int32_t type = 0;
    stnp_entry entry;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy) ||
        (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor)) ||
        check_wishes(self, device, copy, &type) < 0)
        return NULL;
    const int64_t number = stream_of(stream, type);
    if (PyErr_Occurred() || stnp_enter(&entry, self->context) < 0)
        return NULL;
    stn_status status = number == 0 ? stn_tensor_to_dlpack(self->handle, &managed)
                                    : stn_tensor_to_dlpack_on(self->handle, number, &managed);
    return stnp_leave(&entry, status) < 0 ? NULL : make_capsule(managed, major >= 1);
}

PyObject *stnp_tensor_dlpack_device(PyObject *object, PyObject *none)
{
    (void)none;
    int32_t type = 0, index = 0;
    if (device_of((stnp_tensor *)object, &type, &index) < 0)
        return NULL;
    return Py_BuildValue("(ii)", (int)type, (int)index);
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

/** x.__dlpack__(max_version=(1, 0)), and without where x is older than that argument. `stream`, where it is not NULL,
 *  is passed both times. */
static PyObject *ask(PyObject *object, PyObject *stream)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__"), *none = PyTuple_New(0), *capsule = NULL;
    PyObject *keywords = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    if (method && none && keywords && (!stream || PyDict_SetItemString(keywords, "stream", stream) == 0))
        capsule = PyObject_Call(method, none, keywords);
    if (method && none && keywords && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        if (PyDict_DelItemString(keywords, "max_version") == 0)
            capsule = PyObject_Call(method, none, keywords);
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(keywords);
    return capsule;
}

/** The context's own stream as a number, by which the producer lets it wait; NULL without an exception on the CPU,
 *  which has none. */
static PyObject *own_stream(stnp_context *context)
{
    int32_t type = 0, index = 0;
    stnp_entry entry;
    if (stnp_enter(&entry, context) < 0)
        return NULL;
    const stn_status status = stn_context_dlpack_device(context->handle, &type, &index);
    void *stream = stn_queue_native(stn_context_queue(context->handle));
    return stnp_leave(&entry, status) < 0 || type == STNP_DLPACK_CPU ? NULL : PyLong_FromVoidPtr(stream);
}

/** Whether a producer says that its memory is the CPU's, where nobody has a stream. */
static int is_on_cpu(PyObject *object)
{
    int type = 0, index = 0;
    PyObject *place = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    const int is = place && PyTuple_Check(place) && PyArg_ParseTuple(place, "ii", &type, &index) &&
                   type == STNP_DLPACK_CPU;
    PyErr_Clear(); /* __dlpack__ will say it */
    Py_XDECREF(place);
    return is;
}

PyObject *stnp_context_from_dlpack(PyObject *self, PyObject *object)
{
    PyObject *stream = own_stream((stnp_context *)self);
    if (stream && is_on_cpu(object))
        Py_CLEAR(stream);
    PyObject *capsule = PyErr_Occurred() ? NULL : ask(object, stream), *result = NULL;
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
    Py_XDECREF(stream);
    return result;
}
