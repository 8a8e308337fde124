/* Communicators that Python brings: in a capsule "shardtensor.comm", a stn_comm * that another extension made and that
 * is taken over from it; or one whose entries are methods of a Python object: the four that are needed, from which the
 * library makes the others.
 *
 *     all_reduce(address, count, dtype, op)      in place; dtype "f32", …, op "sum", …; never min and max of floats,
 *                                                means of integers and truths, products of complex numbers
 *     group(dtype, sends, receives)              lists of (peer, address, count), dense, started together
 *     subset(ranks) -> an object of the same kind
 *
 * Memory is the host's. What a method raises is the failure of the collective, with its text. */
#include "binding.h"
#include "raised.h"

#include <shardtensor/tcp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct collectives {
    PyObject *object;
    int rank, size;
};

static unsigned long long address(const void *memory)
{
    return (unsigned long long)(uintptr_t)memory;
}

/** What few collectives of others have as the library promises it: the largest and smallest of floats, which alone have
 * an order among what has gradients, keep a NaN, whichever rank has it; means of integers; products of complex
 * numbers. */
static int is_ours(stn_dtype dtype, stn_reduce_op op)
{
    if (!stn_dtype_is_differentiable(dtype))
        return op == STN_AVG;
    return op == STN_MIN || op == STN_MAX || (op == STN_PROD && (dtype == STN_DTYPE_C64 || dtype == STN_DTYPE_C128));
}

static stn_status all_reduce(void *impl, stn_queue *queue, const void *send, void *recv, int64_t count, stn_dtype dtype,
                             stn_reduce_op op)
{
    static const char *const ops[] = {"sum", "avg", "prod", "min", "max"};
    struct collectives *collectives = impl;
    if (is_ours(dtype, op))
        return STN_ERR_UNSUPPORTED; /* the library builds it of messages */
    if (send != recv && count > 0)
        memcpy(recv, send, (size_t)count * stn_dtype_size(dtype));
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallMethod(collectives->object, "all_reduce", "KLss", address(recv), (long long)count,
                                           stn_dtype_name(dtype), ops[op]);
    stn_status status = result ? STN_OK : stnp_fail_raised(queue, "all_reduce");
    Py_XDECREF(result);
    PyGILState_Release(state);
    return status;
}

static PyObject *messages(const stn_message *list, int n)
{
    PyObject *result = PyList_New(n);
    for (int i = 0; result && i < n; i++) {
        int64_t count = 1;
        for (int d = 0; d < list[i].box.ndim; d++)
            count *= list[i].box.shape[d];
        PyList_SetItem(result, i, Py_BuildValue("(iKL)", list[i].peer, address(list[i].box.data), (long long)count));
    }
    return result;
}

/** Without messages nothing is to be done: so a thread of NCCL's asks a hundred times a second whether the ranks are
 * well, also while Python's lock is held by somebody who waits for that thread. */
static stn_status group(void *impl, stn_queue *queue, const stn_exchange *exchange)
{
    struct collectives *collectives = impl;
    if (exchange->n_send == 0 && exchange->n_recv == 0)
        return STN_OK;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *sends = messages(exchange->send, exchange->n_send),
             *receives = messages(exchange->recv, exchange->n_recv);
    PyObject *result = NULL;
    if (sends && receives)
        result = PyObject_CallMethod(collectives->object, "group", "sOO", stn_dtype_name(exchange->dtype), sends,
                                     receives);
    stn_status status = result ? STN_OK : stnp_fail_raised(queue, "group");
    Py_XDECREF(sends);
    Py_XDECREF(receives);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return status;
}

static struct collectives *make(PyObject *object, int rank, int size)
{
    struct collectives *collectives = malloc(sizeof *collectives);
    if (collectives) {
        *collectives = (struct collectives){object, rank, size};
        Py_INCREF(object);
    }
    return collectives;
}

static stn_status subset(void *impl, stn_queue *queue, const int *ranks, int n_ranks, void **out)
{
    struct collectives *collectives = impl, *part = NULL;
    int rank = -1;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *list = PyList_New(n_ranks), *object = NULL;
    for (int i = 0; list && i < n_ranks; i++) {
        PyList_SetItem(list, i, PyLong_FromLong(ranks[i]));
        rank = ranks[i] == collectives->rank ? i : rank;
    }
    if (list)
        object = PyObject_CallMethod(collectives->object, "subset", "O", list);
    stn_status status = object ? STN_OK : stnp_fail_raised(queue, "subset");
    if (object && !(part = make(object, rank, n_ranks)))
        status = STN_ERR_MEMORY;
    Py_XDECREF(list);
    Py_XDECREF(object);
    PyGILState_Release(state);
    if (status == STN_OK)
        *out = part;
    return status;
}

static void destroy(void *impl)
{
    struct collectives *collectives = impl;
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(collectives->object);
        PyGILState_Release(state);
    }
    free(collectives);
}

static const char CAPSULE[] = "shardtensor.comm";

/** What a capsule holds is nobody else's from now on: its name says so, as for DLPack's. */
static stn_status take_capsule(PyObject *capsule, stn_comm **out)
{
    if (!PyCapsule_IsValid(capsule, CAPSULE))
        return STN_ERR_ARGUMENT;
    stn_comm *comm = PyCapsule_GetPointer(capsule, CAPSULE);
    PyCapsule_SetName(capsule, "used_shardtensor.comm");
    *out = comm;
    return STN_OK;
}

stn_status stnp_comm_create(PyObject *object, int rank, int size, char *text, size_t text_size, stn_comm **out)
{
    static const stn_comm_ops ops = {
        .size = sizeof ops,
        .name = "python",
        .all_reduce = all_reduce,
        .group = group,
        .subset = subset,
        .destroy = destroy,
        .host_memory = 1,
    };
    if (PyCapsule_CheckExact(object)) {
        stn_status status = take_capsule(object, out);
        if (status != STN_OK)
            snprintf(text, text_size, "Context: comm is a capsule that holds no communicator, or one that was taken");
        return status;
    }
    struct collectives *collectives = make(object, rank, size);
    if (!collectives)
        return STN_ERR_MEMORY;
    stn_status status = stn_comm_create(&ops, collectives, rank, size, out);
    if (status != STN_OK) {
        snprintf(text, text_size, "Context: comm: rank %d of %d: %s", rank, size, stn_status_text(status));
        destroy(collectives);
    }
    return status;
}

/** Of a capsule that no context took. */
static void destroy_capsule(PyObject *capsule)
{
    stn_comm *comm;
    if (take_capsule(capsule, &comm) == STN_OK)
        stn_comm_destroy(&comm);
}

PyObject *stnp_fake_comm(PyObject *module, PyObject *args)
{
    (void)module;
    int rank, size;
    stn_comm *comm;
    if (!PyArg_ParseTuple(args, "ii:fake_comm", &rank, &size))
        return NULL;
    stn_status status = stn_comm_create_fake(rank, size, 0, 0, &comm);
    if (status == STN_ERR_ARGUMENT)
        return PyErr_Format(PyExc_ValueError, "fake_comm: rank %d of %d, wanted 0 <= rank < size", rank, size);
    return status == STN_OK ? PyCapsule_New(comm, CAPSULE, destroy_capsule) : PyErr_NoMemory();
}

PyObject *stnp_tcp_comm(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"host", "port", "rank", "size", "job", "deadline_seconds", NULL};
    char text[1024] = "";
    stn_tcp_options how = {.size = sizeof how, .error_text = text, .error_text_size = sizeof text};
    stn_comm *comm;
    stn_status status;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "siii|sd:tcp_comm", names, &how.host, &how.port, &how.rank,
                                     &how.ranks, &how.job, &how.deadline_seconds))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = stn_comm_create_tcp(&how, &comm);
    Py_END_ALLOW_THREADS return status == STN_OK ? PyCapsule_New(comm, CAPSULE, destroy_capsule)
                                                 : stnp_raise(status, text);
}
