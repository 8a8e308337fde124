/* shardtensor.torch._c10d: the library's collectives over torch.distributed, in C++.
 *
 *     communicator(collectives) -> a capsule for Context(comm=…), and the deadline of its group, seconds
 *
 * `collectives` is the object that serves them in Python too: `name` is the group's, `members` the numbers of its ranks
 * in that group, `rank` this one's position among them, and subset(ranks) gives another for some of them. It lives as
 * long as the communicator. Torch's own C++ is called by group.cpp; here is CPython's stable ABI alone. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "group.h"
#include "src/raised.h"

#include <stdlib.h>

static const char CAPSULE[] = "shardtensor.comm";

/** Reads a list of numbers. @return how many, and `*out` by malloc; -1 with an exception. */
static int take_members(PyObject *object, int **out)
{
    Py_ssize_t n = PySequence_Size(object);
    int *members = n < 0 ? NULL : malloc(((size_t)n + 1) * sizeof *members);
    if (n >= 0 && !members)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; members && i < n; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        members[i] = item ? (int)PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) {
            free(members);
            members = NULL;
        }
    }
    *out = members;
    return members ? (int)n : -1;
}

/** The group that an object of Python names, which keeps the object. @return NULL with an exception. */
static stnp_group *open_group(PyObject *collectives)
{
    PyObject *name = PyObject_GetAttrString(collectives, "name");
    PyObject *numbers = name ? PyObject_GetAttrString(collectives, "members") : NULL;
    PyObject *position = numbers ? PyObject_GetAttrString(collectives, "rank") : NULL;
    const char *words = position ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    int rank = words ? (int)PyLong_AsLong(position) : -1, *members = NULL;
    int n = PyErr_Occurred() ? -1 : take_members(numbers, &members);
    char text[512];
    stnp_group *group = n < 0 ? NULL : stnp_group_open(words, members, n, rank, text, sizeof text);
    if (group) {
        Py_INCREF(collectives);
        *stnp_group_owner(group) = collectives;
    } else if (n >= 0) {
        PyErr_SetString(PyExc_RuntimeError, text);
    }
    free(members);
    Py_XDECREF(position);
    Py_XDECREF(numbers);
    Py_XDECREF(name);
    return group;
}

/* Groups are made by torch.distributed, which Python calls. */
static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *list = PyList_New(n_ranks), *collectives = NULL;
    for (int i = 0; list && i < n_ranks; i++)
        PyList_SetItem(list, i, PyLong_FromLong(ranks[i]));
    if (list)
        collectives = PyObject_CallMethod(*stnp_group_owner(impl), "subset", "O", list);
    stnp_group *group = collectives ? open_group(collectives) : NULL;
    stn_status status = group ? STN_OK : stnp_fail_raised(queue, "subset");
    if (group) {
        stnp_group_set_deadline(group, stnp_group_deadline(impl));
        *out = group;
    }
    Py_XDECREF(collectives);
    Py_XDECREF(list);
    PyGILState_Release(state);
    return status;
}

/* With the interpreter's lock: torch's group may hold an object of Python, and be its last owner. */
static void destroy(void *impl)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *owner = *stnp_group_owner(impl);
    stnp_group_close(impl);
    Py_XDECREF(owner);
    PyGILState_Release(state);
}

static const stn_comm_ops ops = {
    .size = sizeof ops,
    .name = "c10d",
    .all_reduce = stnp_group_all_reduce,
    .broadcast = stnp_group_broadcast,
    .group = stnp_group_messages,
    .barrier = stnp_group_barrier,
    .subset = subset,
    .destroy = destroy,
    .set_deadline = stnp_group_set_deadline,
    .host_memory = 1,
};

static void destroy_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, CAPSULE)) { /* nobody took it */
        stn_comm *comm = PyCapsule_GetPointer(capsule, CAPSULE);
        stn_comm_destroy(&comm);
    }
}

static PyObject *communicator(PyObject *module, PyObject *collectives)
{
    (void)module;
    stnp_group *group = open_group(collectives);
    if (!group)
        return NULL;
    double seconds = stnp_group_deadline(group);
    stn_comm *comm = NULL;
    stn_status status = stn_comm_create(&ops, group, stnp_group_rank(group), stnp_group_size(group), &comm);
    if (status != STN_OK) {
        destroy(group);
        return PyErr_Format(PyExc_RuntimeError, "communicator: %s", stn_status_text(status));
    }
    PyObject *capsule = PyCapsule_New(comm, CAPSULE, destroy_capsule);
    if (!capsule) {
        stn_comm_destroy(&comm);
        return NULL;
    }
    return Py_BuildValue("(Nd)", capsule, seconds);
}

PyMODINIT_FUNC PyInit__c10d(void);

PyMODINIT_FUNC PyInit__c10d(void)
{
    static PyMethodDef functions[] = {
        {"communicator", communicator, METH_O,
         "communicator(collectives): a capsule for Context(comm=...), and its deadline in seconds."},
        {0},
    };
    static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "shardtensor.torch._c10d", .m_size = -1,
                                            .m_methods = functions};
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddStringConstant(module, "torch_version", STNP_TORCH_VERSION) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
