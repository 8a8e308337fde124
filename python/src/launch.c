/* Ranks that are threads of this process, each a Python thread that calls one function with its context. */
#include "binding.h"

struct job {
    PyObject *function;
    PyObject *results;  /* by rank */
    PyObject *failures; /* exceptions by rank, None where there is none */
};

/** The exception that is set, normalised and with its traceback; a new reference. */
static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

static stn_status rank_main(stn_context *handle, void *arg)
{
    struct job *job = arg;
    PyGILState_STATE state = PyGILState_Ensure();
    stnp_context *context = stnp_context_borrow(handle);
    PyObject *result = context ? PyObject_CallFunctionObjArgs(job->function, context, NULL) : NULL;
    stn_status status = STN_OK;
    int rank = stn_context_rank(handle), at = rank < (int)PyList_Size(job->results) ? rank : 0;
    if (result) {
        PyList_SetItem(job->results, at, result);
    } else {
        PyObject *failure = take_exception();
        status = failure ? stnp_status_of(failure) : STN_ERR_CALLBACK;
        if (failure)
            PyList_SetItem(job->failures, at, failure);
    }
    if (context)
        stnp_context_leave(context); /* stn_launch destroys what it made */
    Py_XDECREF((PyObject *)context);
    PyGILState_Release(state);
    return status;
}

static PyObject *list_of_none(int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        Py_INCREF(Py_None);
        PyList_SetItem(list, i, Py_None);
    }
    return list;
}

/** Raises what the first rank has that failed by itself; 0 where none has told. */
static int raise_failure(PyObject *failures)
{
    PyObject *first = NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(failures); i++) {
        PyObject *failure = PyList_GetItem(failures, i);
        if (failure == Py_None)
            continue;
        first = first ? first : failure;
        if (stnp_status_of(failure) != STN_ERR_PEER) {
            first = failure;
            break;
        }
    }
    if (first)
        PyErr_SetObject((PyObject *)Py_TYPE(first), first);
    return first != NULL;
}

PyObject *stnp_launch(PyObject *module, PyObject *args, PyObject *keywords)
{
    (void)module;
    static char *names[] = {"ranks", "function", "threads", "checks", "seed", "deadline_seconds", NULL};
    char text[1024] = "";
    stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context, .error_text = text, .error_text_size = sizeof text}};
    struct job job = {NULL, NULL, NULL};
    unsigned long long seed = 0;
    stn_status status;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "iO|ipKd:launch", names, &options.ranks, &job.function,
                                     &options.context.threads, &options.context.checks, &seed,
                                     &options.context.deadline_seconds))
        return NULL;
    options.context.seed = seed;
    int slots = options.ranks > 0 && options.ranks <= 1024 ? options.ranks : 1;
    job.results = list_of_none(slots);
    job.failures = list_of_none(slots);
    if (job.results && job.failures) {
        Py_BEGIN_ALLOW_THREADS status = stn_launch(&options, rank_main, &job);
        Py_END_ALLOW_THREADS if (!raise_failure(job.failures) && status != STN_OK) stnp_raise(status, text);
    }
    Py_XDECREF(job.failures);
    if (!PyErr_Occurred())
        return job.results;
    Py_XDECREF(job.results);
    return NULL;
}
