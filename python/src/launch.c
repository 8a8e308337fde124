/* Ranks that are threads of this process, each a Python thread that calls one function with its context. */
#include "binding.h"

struct job {
    PyObject *function;
    PyObject *results;  /* by rank */
    PyObject *failures; /* exceptions by rank, None where there is none */
    PyObject *log;      /* where the library's lines go; NULL: where the environment says */
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
        if (failure && !stnp_is_error(failure)) /* what the library has raised its ranks tell each other */
            stnp_fail_by(handle, failure, "the function of launch");
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

/** What the first rank has that failed by itself, else what the first has that failed at all; NULL. Borrowed. */
static PyObject *first_failure(PyObject *failures)
{
    PyObject *first = NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(failures); i++) {
        PyObject *failure = PyList_GetItem(failures, i);
        if (failure == Py_None)
            continue;
        if (stnp_status_of(failure) != STN_ERR_PEER)
            return failure;
        first = first ? first : failure;
    }
    return first;
}

/** Adds to the notes of `first` what other ranks have to say that differs: where ranks did not do the same, one alone
 * explains little. */
static void note_others(PyObject *first, PyObject *failures)
{
    PyObject *said = PyObject_Repr(first);
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < PyList_Size(failures); i++) {
        PyObject *failure = PyList_GetItem(failures, i);
        PyObject *says = failure == Py_None ? NULL : PyObject_Repr(failure);
        int differs = says && PyUnicode_Compare(says, said) != 0;
        PyObject *note = differs ? PyUnicode_FromFormat("rank %zd: %U", i, says) : NULL;
        PyObject *done = note ? PyObject_CallMethod(first, "add_note", "O", note) : NULL;
        Py_XDECREF(done);
        Py_XDECREF(note);
        Py_XDECREF(says);
    }
    Py_XDECREF(said);
    PyErr_Clear(); /* a note that could not be made */
}

/** Raises a failure, with the others in its notes; 0 where no rank has told. */
static int raise_failure(PyObject *failures)
{
    PyObject *first = first_failure(failures);
    if (!first)
        return 0;
    note_others(first, failures);
    PyErr_SetObject((PyObject *)Py_TYPE(first), first);
    return 1;
}

static int take_options(PyObject *args, PyObject *keywords, stn_launch_options *options, struct job *job)
{
    static char *names[] = {
        "ranks",     "function",    "threads", "checks",     "seed",      "deadline_seconds",  "device",
        "without",   "module_path", "isa",     "allow_tf32", "promotion", "reproducible_sums", "log",
        "log_level", NULL};
    stn_context_options *each = &options->context;
    unsigned long long seed = 0;
    const char *promotion = "refuse", *log_level = "warning";
    PyObject *log = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "iO|ipKdzzzzpspOs:launch", names, &options->ranks, &job->function,
                                     &each->threads, &each->checks, &seed, &each->deadline_seconds, &each->device,
                                     &each->without, &each->module_path, &each->isa, &each->allow_tf32, &promotion,
                                     &each->reproducible_sums, &log, &log_level) ||
        stnp_take_promotion(promotion, each) < 0 || stnp_take_log(log, log_level, &job->log, each) < 0)
        return -1;
    each->seed = seed;
    return 0;
}

PyObject *stnp_launch(PyObject *module, PyObject *args, PyObject *keywords)
{
    (void)module;
    char text[1024] = "";
    stn_launch_options options = {
        .size = sizeof options,
        .context = {.size = sizeof options.context, .error_text = text, .error_text_size = sizeof text}};
    struct job job = {NULL, NULL, NULL, NULL};
    stn_status status;
    if (take_options(args, keywords, &options, &job) < 0)
        return NULL;
    int slots = options.ranks > 0 && options.ranks <= 1024 ? options.ranks : 1;
    job.results = list_of_none(slots);
    job.failures = list_of_none(slots);
    if (job.results && job.failures) {
        Py_BEGIN_ALLOW_THREADS status = stn_launch(&options, rank_main, &job);
        Py_END_ALLOW_THREADS if (!raise_failure(job.failures) && status != STN_OK) stnp_raise(status, text);
    }
    Py_XDECREF(job.failures);
    Py_XDECREF(job.log);
    if (!PyErr_Occurred())
        return job.results;
    Py_XDECREF(job.results);
    return NULL;
}
